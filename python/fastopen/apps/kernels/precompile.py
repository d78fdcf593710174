"""Precompile the kernel's headers: reading them for each file takes most of a build's time.

The precompiled header replaces the first header that the kernel's make includes in each compilation. If a
file is compiled with other flags, gcc ignores it and reads the headers. See docs/measurements/kernel.md for
the measurements."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from fastopen.common.process import Command, StepFailedError, plain_environment, run
from fastopen.engines.kernels.recipe import Recipe

FLAGS: Final = Path("scripts/Makefile.lib")
FIRST: Final = Path("include/linux/compiler-version.h")
# A small file that is compiled with the same flags as most files.
SAMPLE: Final = Path("lib/bsearch.o")
NAMES: Final = "fastopen-names.h"
# kernel/headers.h mentions this macro, so that gcc ignores the precompiled header if it is defined.
PLAIN: Final = "FASTOPEN_PLAIN"
# Macros with the name of the compiled file. Headers mention them, so gcc would ignore the precompiled header.
OWN_NAMES: Final = re.compile(r"-D(_*KBUILD_(?:BASENAME|MODNAME|MODFILE))=")
PLACES: Final = (
    *("arch/um", "arch/x86/um", "drivers/base", "drivers/tty"),
    *("fs", "init", "ipc", "kernel", "lib", "mm", "net"),
)
# These files define names that are macros in a precompiled header.
CLASHING: Final = ("lib/sort", "net/ipv4/ping", "net/ipv4/raw")
# A definition before the first header may change the header's meaning. These two do not.
HARMLESS: Final = ("pr_fmt", "CREATE_TRACE_POINTS")
LOOKED_AT: Final = 4096
INCLUDE: Final = re.compile(r"^#\s*include\s*<", re.MULTILINE)
DEFINED: Final = re.compile(r"^#\s*(?:define|undef)\s+(\w+)", re.MULTILINE)


def prepare_names(tree: Path) -> bool:
    """Define the macros OWN_NAMES only after the first header. Return False if this kernel's make differs
    from the expected one, and then change nothing.

    Call this before anything is compiled."""
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
    """Compile `kernel/headers.h` with the flags of most files. Return False if this fails."""
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


def empty_precompiled(tree: Path) -> None:
    """Empty the precompiled header, so that gcc ignores it. Its modification time is kept; otherwise make
    would rebuild the objects that depend on it."""
    target = tree / f"{FIRST}.gch"
    before = target.stat()
    target.write_bytes(b"")
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def _flags(tree: Path) -> list[str]:
    """Return the sample's compiler and flags, without those that only the sample needs."""
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
    """Yield files that define a macro before a header, because a precompiled header would ignore it."""
    for place in PLACES:
        for path in sorted((tree / place).rglob("*.c")):
            with path.open("rb") as file:
                start = file.read(LOOKED_AT).decode(errors="replace")
            ahead = start[: max((m.start() for m in INCLUDE.finditer(start)), default=0)]
            if any(name not in HARMLESS for name in DEFINED.findall(ahead)):
                yield path
