"""Build packetdrill from a folder that the user gives, and keep the program in the user's cache."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, MachineError
from fastopen.common.process import StepFailedError, check_programs, run
from fastopen.common.resources import cache_folder

SOURCE: Final = Path("gtests/net/packetdrill")
PROGRAM: Final = "packetdrill"
# Debian's package for each program that its makefile calls.
TOOLS: Final = {"gcc": "gcc libc6-dev", "make": "make", "bison": "bison", "flex": "flex"}
SHOWN_LINES: Final = 3
TIME: Final = Path(__file__).with_name("passing_time.h")


def packetdrill(folder: Path) -> Path:
    """Return the program, built from this folder unless it is cached. Raises InputError, MachineError."""
    source = folder / SOURCE
    if not (source / "packetdrill.c").is_file():
        remedy = "give a checkout of packetdrill, the folder with gtests in it"
        raise InputError(f"not a packetdrill source: {SOURCE}/packetdrill.c is missing", str(folder), remedy)
    place = cache_folder("packetdrill") / _digest(source)
    if not (place / PROGRAM).is_file():
        _build(source, place)
    return place / PROGRAM


def _digest(source: Path) -> str:
    """Return a digest of the names and contents of the source's files, and of our header TIME."""
    digest = hashlib.sha256(TIME.read_bytes())
    for path in sorted(source.iterdir()):
        if path.is_file():
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(source: Path, place: Path) -> None:
    check_programs(TOOLS, "packetdrill's build")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=place.parent) as made:
            # The given folder may be read-only, and must not change.
            work = Path(made) / "source"
            shutil.copytree(source, work, copy_function=shutil.copyfile)
            for path in (work, *work.iterdir()):
                path.chmod(0o755)
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
            pass
        else:
            return
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    telling = [line for line in lines if "error" in line.lower() or "***" in line] or lines
    raise MachineError(f"packetdrill could not be built: {' | '.join(telling[:SHOWN_LINES])}")
