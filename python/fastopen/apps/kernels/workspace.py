"""The folder a build works in: one build at a time, and nothing left of it, whatever happens."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from fastopen.common.errors import MachineError

LOCK: Final = ".lock"
PREFIX: Final = ".build-"


@contextlib.contextmanager
def workspace(folder: Path, waiting: Callable[[], None]) -> Iterator[Path]:
    """A new folder inside `folder`, held alone: a second build calls `waiting` and waits for the first.

    What builds that were killed have left is removed. Raises MachineError where nothing can be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("wb")
    except OSError as error:
        raise MachineError(
            f"{folder} cannot be written: {error}", "set XDG_CACHE_HOME to another folder"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
