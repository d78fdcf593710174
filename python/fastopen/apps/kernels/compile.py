"""Turn Linux's unpacked source into a kernel: patch, configure, precompile headers, compile and strip it.

Reading the headers for each file takes most of a build's time, so a precompiled header replaces the first
header of each compilation. docs/measurements/kernel.md has the measurements."""

import itertools
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from fastopen.common.errors import MachineError
from fastopen.common.process import Command, StepFailedError, output_of, plain_environment, run, running
from fastopen.engines.kernel_recipe import Recipe, options_in

FLAGS: Final = Path("scripts/Makefile.lib")
FIRST: Final = Path("include/linux/compiler-version.h")
# A small object file. Its source is compiled with the same flags as most files.
SAMPLE: Final = Path("lib/bsearch.o")
NAMES: Final = "fastopen-names.h"
# kernel/headers.h tests this macro, so that files compiled with it do not use the precompiled header.
PLAIN: Final = "FASTOPEN_PLAIN"
# Macros with the compiled file's name. gcc ignores a precompiled header that was made with other values.
OWN_NAMES: Final = re.compile(r"-D(_*KBUILD_(?:BASENAME|MODNAME|MODFILE))=")
# The folders in which to search source files for macros that precede the headers (see _plain).
PLACES: Final = (
    *("arch/um", "arch/x86/um", "drivers/base", "drivers/tty"),
    *("fs", "init", "ipc", "kernel", "lib", "mm", "net"),
)
# These files define names that are macros in the precompiled header.
CLASHING: Final = ("lib/sort", "net/ipv4/ping", "net/ipv4/raw")
# A macro that is defined before a header may change the header's meaning. These two macros do not.
HARMLESS: Final = ("pr_fmt", "CREATE_TRACE_POINTS")
LOOKED_AT: Final = 4096
INCLUDE: Final = re.compile(r"^#\s*include\s*<", re.MULTILINE)
DEFINED: Final = re.compile(r"^#\s*(?:define|undef)\s+(\w+)", re.MULTILINE)
# Without these variables, the kernel would contain build information that differs between machines.
SAME_EVERYWHERE: Final = {
    "KBUILD_BUILD_TIMESTAMP": "2000-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "fastopen",
    "KBUILD_BUILD_HOST": "fastopen",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
}
# Options that newer kernels lack: their CONFIG_SYSCTL includes CONFIG_PROC_SYSCTL.
MAY_BE_UNKNOWN: Final = frozenset({"CONFIG_PROC_SYSCTL"})
COMPILED: Final = re.compile(rb"^  (?:CC|AS)\s")
# Errors would be hard to find among the warnings in the log. `-w` only hides warnings; with the other flags,
# gcc does not spend time on looking for them.
QUIET: Final = "KCFLAGS=-w -Wno-all -Wno-extra"
# Page loads spend their time in these folders. Less optimisation elsewhere saves 1/7 of the compiler's work.
HOT: Final = (
    *("arch", "lib", "kernel/futex", "kernel/sched", "kernel/time"),
    *("net/core", "net/ipv4", "net/ipv6", "net/sched"),
)
# Large files in HOT that process no packets: network setup, other scheduling classes, BPF.
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


def prepare_names(tree: Path) -> bool:
    """Change the source's makefile so that gcc can use a precompiled header. Call this before anything is
    compiled. Return False, without a change, if the makefile is not as expected."""
    # Define macros with the file's name after the first header. Otherwise gcc ignores the precompiled header.
    if not (tree / FIRST).is_file() or not (tree / FLAGS).is_file():
        return False
    text = (tree / FLAGS).read_text(encoding="utf-8")
    found = sorted(set(OWN_NAMES.findall(text)))
    if not {"KBUILD_BASENAME", "KBUILD_MODNAME"} <= set(found):
        return False
    lines = [f"#define {name} FASTOPEN_{name}\n" for name in found]
    (tree / NAMES).write_text("".join(lines), encoding="utf-8")
    text = OWN_NAMES.sub(r"-DFASTOPEN_\1=", text)
    plain = " ".join([*(str(path.relative_to(tree).with_suffix("")) for path in _plain(tree)), *CLASHING])
    text += f"modname_flags += -include $(srctree)/{NAMES}\n"
    text += f"modname_flags += $(if $(filter {plain},$(obj)/$(basetarget)),-D{PLAIN})\n"
    (tree / FLAGS).write_text(text, encoding="utf-8")
    return True


def precompile(
    tree: Path, recipe: Recipe, make: Command, environment: Mapping[str, str], log: IO[bytes]
) -> bool:
    """Precompile `kernel/headers.h` with the compiler flags of most source files. Return False on failure."""
    target = tree / f"{FIRST}.gch"
    headers = tree / "fastopen-headers.h"
    shutil.copyfile(recipe.headers, headers)
    try:
        run([*make, str(SAMPLE)], log, tree, environment)
        run([*_flags(tree), "-x", "c-header", "-o", target, headers], log, tree, plain_environment())
    except (StepFailedError, OSError, ValueError, IndexError):
        target.unlink(missing_ok=True)
        log.write(b"no precompiled header: every file reads all it includes\n")
        return False
    return True


def _flags(tree: Path) -> list[str]:
    """Return the compiler and the flags with which most source files of the kernel are compiled."""
    noted = (tree / SAMPLE.parent / f".{SAMPLE.name}.cmd").read_text(encoding="utf-8")
    command = shlex.split(noted.split("\n", 1)[0].split(":=", 1)[1].split(";")[0])
    own = ("-Wp,-MMD", "-DFASTOPEN_")
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word in ("-include", "-o"):
            next(words)
        elif word != "-c" and not word.startswith(own) and not word.endswith(".c"):
            kept.append(word)
    return kept


def _plain(tree: Path) -> Iterator[Path]:
    """Yield source files that cannot use a precompiled header, as they define macros before an #include."""
    for place in PLACES:
        for path in sorted((tree / place).rglob("*.c")):
            with path.open("rb") as file:
                start = file.read(LOOKED_AT).decode(errors="replace")
            ahead = start[: max((m.start() for m in INCLUDE.finditer(start)), default=0)]
            if any(name not in HARMLESS for name in DEFINED.findall(ahead)):
                yield path


def patch(tree: Path, recipe: Recipe, log: IO[bytes]) -> None:
    """Apply fastopen's patches to the source. Raises MachineError if a patch does not apply."""
    for path in recipe.patches:
        try:
            run(["patch", "-p1", "--fuzz=0", "--batch", "--forward", f"--input={path}"], log, tree)
        except StepFailedError:
            message = f"the patch {path.name} does not apply to this source"
            raise MachineError(message, "use another version of Linux") from None


def kernel_version(tree: Path) -> str:
    """Return the version in the tree's Makefile, such as `7.3.4`. Raises MachineError if there is none."""
    asked = output_of(["make", "--silent", "kernelversion"], None, tree, plain_environment())
    version = asked.stdout.strip()
    if asked.returncode or not re.fullmatch(r"\d+\.\d+[\w.+-]*", version):
        raise MachineError("the source has no version in it", "give the top folder or the tarball of Linux")
    return version


def configure(tree: Path, recipe: Recipe, jobs: int, log: IO[bytes]) -> None:
    """Write `.config` with the recipe's options. Raises MachineError if this Linux lacks an option."""
    environment = plain_environment(KCONFIG_ALLCONFIG=str(recipe.config), **SAME_EVERYWHERE)
    run(["make", "ARCH=um", f"--jobs={jobs}", "allnoconfig"], log, tree, environment)
    got = options_in((tree / ".config").read_text(encoding="utf-8"))
    asked = recipe.options()
    lacking = [name for name, line in asked.items() if got.get(name) != line and name not in MAY_BE_UNKNOWN]
    if lacking:
        raise MachineError(f"this version of Linux has no {', '.join(lacking)}", "use another version")


def make(tree: Path, recipe: Recipe, jobs: int, log: IO[bytes], compiled: Callable[[int], None]) -> Path:
    """Compile the kernel, and return its path. When the compilation of a file begins, call `compiled` with
    the number of compilations that have begun so far."""
    command = ["make", "ARCH=um", f"--jobs={jobs}", QUIET]
    environment = plain_environment(**SAME_EVERYWHERE)
    number = itertools.count(1)

    def make_linux(command: Command) -> bool:
        with running(command, log, tree, environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                if COMPILED.match(line):
                    compiled(next(number))
            process.wait()
        return process.returncode == 0

    done = False
    if prepare_names(tree) and precompile(tree, recipe, command, environment, log):
        lighten(tree)
        # Some files may not compile with the precompiled header or LIGHTLY. The second make compiles these
        # files without either. It also recompiles all files whose flags had LIGHTLY.
        done = make_linux([*command, LIGHTLY, "--keep-going", "linux"])
        # gcc ignores an empty header. Keep its time, so that make does not rebuild the objects that used it.
        header = tree / f"{FIRST}.gch"
        before = header.stat()
        header.write_bytes(b"")
        os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))
    if not done and not make_linux([*command, "linux"]):
        raise StepFailedError("make")
    run(["strip", "linux"], log, tree)
    return tree / "linux"


def lighten(tree: Path) -> None:
    """Change the makefile so that it adds $(FASTOPEN_COLD), such as -O1, to the compiler flags of files whose
    code hardly runs in page loads: the files in COLD, and all files outside the folders in HOT."""
    folders = " ".join(f"{folder}/%" for folder in HOT)
    cold = f"$(filter-out {folders},$(obj)/)$(filter {' '.join(COLD)},$(obj)/$(basetarget))"
    with (tree / FLAGS).open("a", encoding="utf-8") as file:
        file.write(f"_c_flags += $(if {cold},$(FASTOPEN_COLD))\n")


def compiler(tree: Path) -> str:
    """Return the compiler that `.config` records, such as `gcc (Debian 12.2.0-14) 12.2.0`."""
    options = options_in((tree / ".config").read_text(encoding="utf-8"))
    line = options.get("CONFIG_CC_VERSION_TEXT", "=unknown")
    return " ".join(shlex.split(line.split("=", 1)[1]))
