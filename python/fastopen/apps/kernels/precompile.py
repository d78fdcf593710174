"""The kernel's headers, read once instead of with each file: reading them is most of what a build costs.

A precompiled header takes the place of the first header that the kernel's make gives to each compilation.
gcc passes it over where a file is compiled with other flags, and reads the headers themselves.
docs/measurements/kernel.md has the measurements.
"""

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
# A small file that needs no other flags than most do.
SAMPLE: Final = Path("lib/bsearch.o")
NAMES: Final = "fastopen-names.h"
# kernel/headers.h asks for it, so that gcc passes the precompiled header over where it is defined.
PLAIN: Final = "FASTOPEN_PLAIN"
# The names of the file that is compiled: headers mention them, so gcc would pass the precompiled one over.
OWN_NAMES: Final = re.compile(r"-D(_*KBUILD_(?:BASENAME|MODNAME|MODFILE))=")
PLACES: Final = (
    *("arch/um", "arch/x86/um", "drivers/base", "drivers/tty"),
    *("fs", "init", "ipc", "kernel", "lib", "mm", "net"),
)
# They have a name of their own that some header makes a macro.
CLASHING: Final = ("lib/sort", "net/ipv4/ping", "net/ipv4/raw")
# What is defined ahead of a header may change what it says; these two do not.
HARMLESS: Final = ("pr_fmt", "CREATE_TRACE_POINTS")
LOOKED_AT: Final = 4096
INCLUDE: Final = re.compile(r"^#\s*include\s*<", re.MULTILINE)
DEFINED: Final = re.compile(r"^#\s*(?:define|undef)\s+(\w+)", re.MULTILINE)


def prepare_names(tree: Path) -> bool:
    """Lets each file's own names be defined after the first header; False where this kernel's make differs.

    To be called before anything is compiled.
    """
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
    """Compiles `kernel/headers.h` with the flags that most files get; False where that fails."""
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
    """Empty the precompiled header, which objects depend on, so that later compilations read all."""
    target = tree / f"{FIRST}.gch"
    before = target.stat()
    target.write_bytes(b"")
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def _flags(tree: Path) -> list[str]:
    """The sample's compiler and flags, without what is the sample's alone."""
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
    """The files that define something ahead of one of their headers."""
    for place in PLACES:
        for path in sorted((tree / place).rglob("*.c")):
            with path.open("rb") as file:
                start = file.read(LOOKED_AT).decode(errors="replace")
            ahead = start[: max((m.start() for m in INCLUDE.finditer(start)), default=0)]
            if any(name not in HARMLESS for name in DEFINED.findall(ahead)):
                yield path
