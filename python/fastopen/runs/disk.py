"""Flush commits to the disk in a thread. A power cut loses only the commits of about a tenth of a second."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

INTERVAL_S: Final = 0.1


class DiskSync:
    """A thread that flushes a file soon after each `wake`, at most once in INTERVAL_S.

    The caller of `wake` does not wait, because a flush takes as long as a load in virtual time. The kernel
    holds the data of a commit until the flush. If the machine stops before, resuming repeats the lost loads.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk-sync", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._dirty.set()

    def close(self) -> None:
        self._closing.set()
        self._dirty.set()
        self._thread.join()
        self._flush()
        os.close(self._descriptor)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            self._flush()
            self._closing.wait(INTERVAL_S)

    def _flush(self) -> None:
        # If the disk fails here, the next commit fails, too, and reports the error.
        with contextlib.suppress(OSError):
            os.fdatasync(self._descriptor)
