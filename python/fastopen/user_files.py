"""Files that users name: what goes wrong with them is an InputError that names the file."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

from fastopen.atomic import write_atomic
from fastopen.errors import InputError, unreadable, unwritable

# Traces of an hour at 1 Gbit/s, and TOML with the inline networks of a large study, have less.
MAX_TEXT_BYTES: Final = 256 * 2**20


def open_file(path: Path) -> BufferedReader:
    """A regular file, to be read: a pipe or a device may have no end. Raises InputError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return open(descriptor, "rb")
        os.close(descriptor)
        if stat.S_ISDIR(kind):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise unreadable(path, error) from None
    raise InputError("a pipe or device, no file", str(path), "write what it gives into a file")


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """All of a file of at most `limit` bytes. Raises InputError."""
    try:
        with open_file(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(data) > limit:
        raise InputError(f"is larger than {limit / 2**20:,.0f} MiB", str(path))
    return data


def read_text(path: Path, form: str) -> str:
    """A text in UTF-8; `form` says what else it should be. Raises InputError."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", str(path), form) from None


def write_file(path: Path, content: str | bytes) -> None:
    """As `write_atomic`. Raises InputError where the file cannot be written."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise unwritable(path, error) from None
