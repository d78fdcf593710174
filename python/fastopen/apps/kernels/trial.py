"""Test a new kernel by booting it twice: it must run in virtual time and print the same text each time."""

import time
from pathlib import Path
from typing import IO, Final

from fastopen.common.errors import MachineError
from fastopen.common.process import StepFailedError, output_of, plain_environment, run

SLEPT_NS: Final = 600_000_000_000
# The tolerance covers the process's timer slack (PR_SET_TIMERSLACK, 50 us) and reading the clock.
SLACK_NS: Final = 100_000
BOOT_S: Final = 60
STARTED_NS: Final = 1_000_000_000_000_000_000
# The arguments with which fastopen starts every kernel.
COMMON: Final = (
    "time-travel=inf-cpu",
    f"time-travel-start={STARTED_NS}",
    "mem=128M",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    "con=null",
    "con0=fd:0,fd:1",
    "quiet",
)


def needed_arguments(kernel: Path) -> list[str]:
    """Return the optional boot arguments that this User-Mode Linux kernel supports.

    `seccomp=on` makes system calls faster than ptrace does. With `free-clock` (patch 0003), reading the clock
    takes no virtual time. With `direct-init` (patch 0004), init runs in the kernel's process."""
    try:
        help_text = output_of([kernel, "--help"], BOOT_S).stdout
    except OSError as error:
        raise MachineError(f"the kernel does not start: {error}") from None
    known = {"seccomp=on": "\nseccomp=", "free-clock": "\nfree-clock", "direct-init": "\ndirect-init"}
    return [argument for argument, option in known.items() if option in help_text]


def try_out(kernel: Path, arguments: list[str], source: Path, work: Path, log: IO[bytes]) -> None:
    """Boot the kernel twice with the C program `source` as init. Raises MachineError if a boot fails, if the
    kernel does not run in virtual time, or if the outputs of the two boots differ."""
    program = work / "trial"
    try:
        run(["gcc", "-O1", "-o", program, source], log, work)
    except StepFailedError:
        raise MachineError("gcc cannot compile a small program", "apt-get install libc6-dev") from None
    first = _boot(kernel, arguments, program, work, log)
    facts = dict(line.split(" ", 1) for line in first if " " in line)
    if "trial done" not in first:
        last = "; ".join(first[-3:]) or "it printed nothing"
        raise MachineError(f"the kernel was built but its trial boot failed: {last}")
    slept = int(facts["slept_ns"])
    if not SLEPT_NS <= slept <= SLEPT_NS + SLACK_NS:
        raise MachineError(f"the kernel was built but does not keep virtual time: 600 s took {slept} ns")
    # With patch 0005, the processor's time-stamp counter (rdtsc, rdtscp) counts virtual nanoseconds.
    counted = int(facts["counted_ns"])
    if not SLEPT_NS <= counted <= slept:
        raise MachineError(f"the built kernel's processor counter is not virtual: 600 s took {counted} ns")
    second = _boot(kernel, arguments, program, work, log)
    if first != second:
        raise MachineError("two boots of the built kernel differ", "compare their output in the log")


def _boot(kernel: Path, arguments: list[str], program: Path, work: Path, log: IO[bytes]) -> list[str]:
    """Boot the kernel with `program` as init, which sleeps for ten virtual minutes. Return its output."""
    words: list[str | Path] = [kernel, *arguments, *COMMON, f"uml_dir={work}/uml/", f"init={program}"]
    # Merge both output streams, because the last lines give the reason if the boot fails.
    command = ["sh", "-c", 'exec "$0" "$@" 2>&1', *words]
    started = time.monotonic()
    try:
        ended = output_of(command, BOOT_S, environment=plain_environment())
    except TimeoutError:
        raise MachineError(f"the kernel was built but its trial boot hangs for {BOOT_S} s") from None
    took_s = time.monotonic() - started
    log.write(f"{ended.stdout}ended with {ended.returncode} after {took_s:.3f} s\n".encode())
    log.flush()
    return [line for line in ended.stdout.splitlines() if not line.startswith("reboot:")]
