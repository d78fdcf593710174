"""Turn an unpacked source into a kernel: patch, configure, compile and strip it."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

from fastopen.apps.kernels.precompile import FLAGS, empty_precompiled, precompile, prepare_names
from fastopen.common.errors import MachineError
from fastopen.common.process import Command, StepFailedError, output_of, plain_environment, run, running
from fastopen.engines.kernels.recipe import Recipe, options_in

# Without these, the kernel's record of its build would differ from machine to machine.
SAME_EVERYWHERE: Final = {
    "KBUILD_BUILD_TIMESTAMP": "2000-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "fastopen",
    "KBUILD_BUILD_HOST": "fastopen",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
}
# Options that newer kernels no longer have: there, CONFIG_SYSCTL includes CONFIG_PROC_SYSCTL.
MAY_BE_UNKNOWN: Final = frozenset({"CONFIG_PROC_SYSCTL"})
COMPILED: Final = re.compile(rb"^  (?:CC|AS)\s")
# Warnings in Linux's source would hide errors in the log. `-w` only hides warnings; the other flags also save
# the time to look for them.
QUIET: Final = "KCFLAGS=-w -Wno-all -Wno-extra"
# Loads spend their time in these folders. Less optimisation elsewhere saves a seventh of the compiler's work.
HOT: Final = (
    *("arch", "lib", "kernel/futex", "kernel/sched", "kernel/time"),
    *("net/core", "net/ipv4", "net/ipv6", "net/sched"),
)
# Large files in these folders whose code no packet passes: network setup, other scheduling classes, BPF.
COLD: Final = (
    *("kernel/sched/build_policy", "lib/maple_tree", "lib/vsprintf"),
    *("net/core/filter", "net/core/net-sysfs", "net/core/net_namespace", "net/core/netdev-genl"),
    *("net/core/rtnetlink", "net/ipv4/devinet", "net/ipv4/fib_frontend", "net/ipv4/fib_semantics"),
    *("net/ipv4/igmp", "net/ipv4/ip_sockglue", "net/ipv4/nexthop", "net/sched/sch_api"),
    *("net/ipv6/addrconf", "net/ipv6/ipv6_sockglue", "net/ipv6/mcast", "net/ipv6/ndisc"),
)
LIGHTLY: Final = "FASTOPEN_COLD=-O1"
# The folder of packetdrill scripts in Linux's source.
PACKETDRILL: Final = Path("tools/testing/selftests/net/packetdrill")
# The approximate number of files that the configuration compiles, only for the progress line.
FILES_ABOUT: Final = 650


def patch(tree: Path, recipe: Recipe, log: IO[bytes]) -> None:
    """Apply our patches. Raises MachineError, which names a patch that does not fit this source."""
    for path in recipe.patches:
        try:
            run(["patch", "-p1", "--fuzz=0", "--batch", "--forward", f"--input={path}"], log, tree)
        except StepFailedError:
            raise MachineError(
                f"the patch {path.name} does not apply to this source", "use another version of Linux"
            ) from None


def kernel_version(tree: Path) -> str:
    """Return the version in the tree's Makefile, such as `7.3.4`. Raises MachineError if there is none."""
    asked = output_of(["make", "--silent", "kernelversion"], None, tree, plain_environment())
    version = asked.stdout.strip()
    if asked.returncode or not re.fullmatch(r"\d+\.\d+[\w.+-]*", version):
        raise MachineError("the source has no version in it", "give the top folder or the tarball of Linux")
    return version


def configure(tree: Path, recipe: Recipe, jobs: int, log: IO[bytes]) -> None:
    """Write `.config` with the recipe's options. Raises MachineError if this Linux lacks one of them."""
    environment = plain_environment(KCONFIG_ALLCONFIG=str(recipe.config), **SAME_EVERYWHERE)
    run(["make", "ARCH=um", f"--jobs={jobs}", "allnoconfig"], log, tree, environment)
    got = options_in((tree / ".config").read_text(encoding="utf-8"))
    asked = recipe.options()
    lacking = [name for name, line in asked.items() if got.get(name) != line and name not in MAY_BE_UNKNOWN]
    if lacking:
        raise MachineError(f"this version of Linux has no {', '.join(lacking)}", "use another version")


def make(tree: Path, recipe: Recipe, jobs: int, log: IO[bytes], compiled: Callable[[int], None]) -> Path:
    """Compile with `jobs` compilers and return the program. `compiled` gets the number of files so far."""
    command = ["make", "ARCH=um", f"--jobs={jobs}", QUIET]
    environment = plain_environment(**SAME_EVERYWHERE)
    files = 0

    def count() -> None:
        nonlocal files
        files += 1
        compiled(files)

    done = False
    if prepare_names(tree) and precompile(tree, recipe, command, environment, log):
        lighten(tree)
        # Some files of some versions may not compile with these shortcuts. Such files are compiled without
        # them, and so are the files that were compiled with LIGHTLY, because their flags have changed.
        done = _make([*command, LIGHTLY, "--keep-going", "linux"], environment, tree, log, count)
        empty_precompiled(tree)
    if not done and not _make([*command, "linux"], environment, tree, log, count):
        raise StepFailedError("make")
    run(["strip", "linux"], log, tree)
    return tree / "linux"


def lighten(tree: Path) -> None:
    """Make the build add FASTOPEN_COLD to the flags of all files in COLD or outside HOT."""
    folders = " ".join(f"{folder}/%" for folder in HOT)
    cold = f"$(filter-out {folders},$(obj)/)$(filter {' '.join(COLD)},$(obj)/$(basetarget))"
    with (tree / FLAGS).open("a", encoding="utf-8") as file:
        file.write(f"_c_flags += $(if {cold},$(FASTOPEN_COLD))\n")


def _make(
    command: Command, environment: Mapping[str, str], tree: Path, log: IO[bytes], compiled: Callable[[], None]
) -> bool:
    """Run make and return True if it succeeded. Call `compiled` for each file that it begins to compile."""
    with running(command, log, tree, environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            if COMPILED.match(line):
                compiled()
        process.wait()
    return process.returncode == 0


def compiler(tree: Path) -> str:
    """Return the compiler that `.config` records, such as `gcc (Debian 12.2.0-14) 12.2.0`."""
    line = options_in((tree / ".config").read_text(encoding="utf-8")).get(
        "CONFIG_CC_VERSION_TEXT", "=unknown"
    )
    return " ".join(shlex.split(line.split("=", 1)[1]))
