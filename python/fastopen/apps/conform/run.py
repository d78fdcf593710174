"""Build packetdrill, run its scripts on a kernel, and classify the outcome of each script."""

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from fastopen.apps.conform.scripts import Script, copy_folder, known_reason, stage
from fastopen.common.errors import InputError, MachineError, one_line
from fastopen.common.process import StepFailedError, check_programs, errors_in, run, running
from fastopen.common.resources import cache_folder
from fastopen.engines import find_program
from fastopen.engines.kernels import Kernel

SOURCE: Final = Path("gtests/net/packetdrill")
PROGRAM: Final = "packetdrill"
# The programs that packetdrill's makefile calls, with the Debian packages that contain them.
TOOLS: Final = {"gcc": "gcc libc6-dev", "make": "make", "bison": "bison", "flex": "flex"}
TIME: Final = Path(__file__).with_name("passing_time.h")
# The time limit of a script, on the engine's clock. The longest script takes 30 s.
SCRIPT_S: Final = 120


def packetdrill(folder: Path) -> Path:
    """Return the path of the program packetdrill. If the user's cache does not have it, build it from
    `folder`, a checkout of packetdrill.

    Raises InputError for a folder without packetdrill's source, and MachineError if the build fails."""
    source = folder / SOURCE
    if not (source / "packetdrill.c").is_file():
        remedy = "give a checkout of packetdrill, the folder with gtests in it"
        raise InputError(f"not a packetdrill source: {SOURCE}/packetdrill.c is missing", str(folder), remedy)
    digest = hashlib.sha256(TIME.read_bytes())  # the build adds this C header to packetdrill's source
    for path in sorted(source.iterdir()):
        if path.is_file():
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
    place = cache_folder("packetdrill") / digest.hexdigest()[:16]
    if not (place / PROGRAM).is_file():
        _build(source, place)
    return place / PROGRAM


def _build(source: Path, place: Path) -> None:
    check_programs(TOOLS, "packetdrill's build")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=place.parent) as made:
            # The given folder may be read-only, and must not change.
            work = Path(made) / "source"
            copy_folder(source, work)
            _make(work, Path(made) / "log")
            ready = Path(made) / "ready"
            ready.mkdir()
            (work / PROGRAM).rename(ready / PROGRAM)
            if not place.exists():
                ready.rename(place)
    except OSError as error:
        raise MachineError(f"packetdrill could not be built: {error}") from None


def _make(work: Path, log: Path) -> None:
    with log.open("wb") as file:
        try:
            run(["sh", "./configure"], file, work)
            (work / TIME.name).write_bytes(TIME.read_bytes())
            # Warnings of newer compilers do not matter.
            flags = f"CFLAGS=-w -include {TIME.name}"
            run(["make", f"--jobs={len(os.sched_getaffinity(0))}", flags, PROGRAM], file, work)
        except StepFailedError:
            raise MachineError(f"packetdrill could not be built: {errors_in(log)}") from None


class ScriptOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_HERE = "not here"
    """The script cannot pass on this kernel for a known reason: for example, it expects an older kernel."""


@dataclass(frozen=True)
class ScriptResult:
    """The result of running one packetdrill script. `took_ms` is None if the script could not run."""

    script: str
    outcome: ScriptOutcome
    why: str
    """Packetdrill's message, or the known reason for the failure; empty if the script passed."""
    took_ms: int | None = None
    syn_data_acked: int | None = None
    """The number of handshakes in the script that acknowledge SYN data; None unless the script passed."""
    syn_data_acked_read: int | None = None
    """The number of handshakes with acknowledged SYN data in fastopen's evidence (TCPI_OPT_SYN_DATA)."""
    unread: int = 0
    """The number of sockets whose evidence was cleared because they were disconnected."""

    @property
    def agrees(self) -> bool | None:
        """Return True if fastopen's evidence has as many handshakes with acknowledged SYN data as the script,
        or up to `unread` fewer. Return None unless the script passed."""
        if self.syn_data_acked is None or self.syn_data_acked_read is None:
            return None
        return self.syn_data_acked_read <= self.syn_data_acked <= self.syn_data_acked_read + self.unread


@dataclass(frozen=True)
class Conformance:
    """The results of all packetdrill scripts on one kernel. `linux` is the kernel's version. `engine` is
    `host` for real time, or `virtual` for virtual time."""

    linux: str
    engine: str
    results: tuple[ScriptResult, ...]

    @property
    def holds(self) -> bool:
        """Return True if scripts failed only for known reasons (outcome NOT_HERE), and if fastopen's
        evidence agrees with each script that passed."""
        return all(
            result.outcome is not ScriptOutcome.FAILED and result.agrees is not False
            for result in self.results
        )

    def line(self) -> str:
        """Return a summary of the results in one line, which is stored for `fastopen kernel info`."""
        count = Counter(result.outcome for result in self.results)
        agrees = Counter(result.agrees for result in self.results)
        passed = f"{count[ScriptOutcome.PASSED]} of {len(self.results)} scripts pass"
        said = [f"packetdrill, Linux {self.linux}, {self.engine}: {passed}"]
        if count[ScriptOutcome.NOT_HERE]:
            said.append(f"{count[ScriptOutcome.NOT_HERE]} cannot pass here")
        if count[ScriptOutcome.FAILED]:
            said.append(f"{count[ScriptOutcome.FAILED]} fail")
        said.append(f"evidence agrees with {agrees[True]} of {agrees[True] + agrees[False]}")
        return ", ".join(said)

    def as_json(self) -> dict[str, Any]:
        return {
            "linux": self.linux,
            "engine": self.engine,
            "holds": self.holds,
            "line": self.line(),
            "scripts": [{**asdict(result), "agrees": result.agrees} for result in self.results],
        }


def conform(
    folder: Path, kernel: Kernel | None, linux: str, watch: Callable[[str, int, int], None]
) -> Conformance:
    """Run the Fast Open scripts of the packetdrill checkout `folder` on `kernel` in virtual time. If `kernel`
    is None, run them in real time on the kernel of this machine, whose version is `linux`. `watch` is called
    after each script with its name, the number of scripts that have run, and the total number of scripts."""
    with tempfile.TemporaryDirectory(prefix="fastopen-conform-") as made:
        work = Path(made)
        (work / "packetdrill.program").write_bytes(packetdrill(folder).read_bytes())
        (work / "packetdrill.program").chmod(0o755)
        scripts = stage(folder, None if kernel is None else kernel.path, work)
        there = [script for script in scripts if kernel is None or not script.is_ipv6]
        records = _records(work, there, kernel, watch)
    version = linux if kernel is None else kernel.version
    results = tuple(_result(script, records.get(script.name), version) for script in scripts)
    return Conformance(version, "host" if kernel is None else "virtual", results)


def _records(
    work: Path, scripts: Sequence[Script], kernel: Kernel | None, watch: Callable[[str, int, int], None]
) -> dict[str, dict[str, Any]]:
    plan = {
        "folder": str(work),
        "program": "packetdrill.program",
        "timeout_s": SCRIPT_S,
        "scripts": [
            {"name": script.name, "path": str(script.path), "arguments": script.arguments()}
            for script in scripts
        ],
    }
    command: list[str | Path] = [find_program(), "--conform"]
    if kernel is not None:
        command += ["--kernel", kernel.path, *kernel.manifest.arguments]
    records: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(json.dumps(plan).encode())
        stdin.seek(0)
        with running(command, stderr, work, os.environ, stdin) as process:
            assert process.stdout is not None
            for line in process.stdout:
                record = json.loads(line)
                if record["type"] == "error":
                    raise MachineError(record["message"], record["remedy"])
                records[record["name"]] = record
                watch(record["name"], len(records), len(scripts))
        if len(records) < len(scripts):
            stderr.seek(0)
            words = one_line(stderr.read().decode(errors="replace"))
            raise MachineError(f"only {len(records)} of {len(scripts)} scripts ran: {words}")
    return records


def _result(script: Script, record: dict[str, Any] | None, linux: str) -> ScriptResult:
    if record is None:
        why = "needs IPv6, which conform does not use in virtual time"
        return ScriptResult(script.name, ScriptOutcome.NOT_HERE, why)
    took_ms = record["took_ms"]
    if record["exit_code"] == 0:
        known = [socket for socket in record["sockets"] if socket["is_known"]]
        return ScriptResult(
            script.name,
            ScriptOutcome.PASSED,
            "",
            took_ms,
            script.syn_data_acked(),
            sum(socket["syn_data_acked"] for socket in known),
            len(record["sockets"]) - len(known),
        )
    said = _complaint(script, record)
    reason = known_reason(script.name, said, linux)
    outcome = ScriptOutcome.FAILED if reason is None else ScriptOutcome.NOT_HERE
    return ScriptResult(script.name, outcome, reason or said, took_ms)


def _complaint(script: Script, record: dict[str, Any]) -> str:
    if record["timed_out"]:
        return f"did not end within {SCRIPT_S} s"
    # packetdrill's message begins with the name of the script's file.
    output: str = record["output"]
    start = output.find(f"{script.path.name}:")
    return one_line(output[max(start, 0) :], 300) or "ended without a message"
