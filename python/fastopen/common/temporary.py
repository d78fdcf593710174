"""Open temporary files that have no name, and that the system deletes when the process ends."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from fastopen.common.errors import MachineError


def temporary_file() -> IO[bytes]:
    """Open an empty temporary file, which the caller must close. Raises MachineError if it cannot be created.
    Write to the file in a block `with filling():`, so that a full disk also raises MachineError."""
    with filling():
        return tempfile.TemporaryFile(prefix="fastopen-")


@contextmanager
def filling() -> Iterator[None]:
    """Convert an OSError raised in the `with` block into a MachineError about a temporary file."""
    try:
        yield
    except OSError as error:
        place = tempfile.gettempdir() if tempfile.tempdir else "the folder for temporary files"
        message = f"{place}: a temporary file cannot be written: {error.strerror or error}"
        raise MachineError(message, "free some space there, or set TMPDIR to another folder") from None
