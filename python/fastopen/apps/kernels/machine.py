"""Check that this machine can build a kernel: processor, free disk space and required programs."""

import os
import platform
import sys
from pathlib import Path
from typing import Final

from fastopen.common.errors import MachineError

# The Debian package of each program that the build calls.
TOOLS: Final = {
    "gcc": "gcc libc6-dev",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
# Space for the package, the needed part of the source and the objects; see docs/measurements/kernel.md.
NEEDED_BYTES: Final = 1_000_000_000
MAKE_ROOM: Final = "free some space, or set XDG_CACHE_HOME to a folder on another disk"


def check_processor() -> None:
    """Raise MachineError if the virtual engine's kernel cannot run on this machine."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise MachineError(
            f"the virtual engine needs Linux on x86-64; this is {sys.platform} on {platform.machine()}",
            "use --engine host",
        )


def check_room(folder: Path) -> None:
    """Raise MachineError if the disk of `folder` has too little free space for a build."""
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if free < NEEDED_BYTES:
        raise MachineError(
            f"{folder} has {free / 1e6:.0f} MB free and a kernel's build needs {NEEDED_BYTES / 1e6:.0f} MB",
            MAKE_ROOM,
        )
