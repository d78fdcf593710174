"""Read and write files that users name, and temporary files. Errors name the file."""

import errno
import os
import re
import secrets
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final

from fastopen.common.closing import on_error
from fastopen.common.errors import InputError, MachineError, os_errors_as, unreadable, unwritable

# The limit for text files. A page of 50,000 resources or a list of 100,000 URLs is smaller.
MAX_TEXT_BYTES: Final = 16 * 2**20
# The limit for TOML files. An experiment with 20,000 networks is smaller. tomllib needs a second for 1 MB.
MAX_TOML_BYTES: Final = 2**20
# tomllib's time for a dotted key grows with the square of the number of its parts.
_MOST_PARTS_OF_A_KEY: Final = 300
_PARTS_OF_A_KEY: Final = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*)++""", re.ASCII
)


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file atomically.

    A reader sees either the old or the new content, even if the disk is full or the process is killed. A file
    that is not regular, such as /dev/stdout, is written directly. Raises OSError if writing fails."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    with on_error(temporary.unlink):
        with os.fdopen(created, "wb") as file:
            file.write(data)
        if mode is not None:
            temporary.chmod(mode)  # the umask may have removed bits
        temporary.replace(path)


def open_file(path: Path) -> BufferedReader:
    """Open a file for reading. Raises InputError if it is unreadable, or may never end (a pipe or device)."""
    with os_errors_as(unreadable, path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return open(descriptor, "rb")
        os.close(descriptor)
        if stat.S_ISDIR(kind):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise InputError("is a pipe or device", str(path), "save its output to a file first")


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Read a whole file. Raises InputError if it cannot be read or has more than `limit` bytes."""
    with os_errors_as(unreadable, path), open_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is larger than {limit / 2**20:,.0f} MiB", str(path))
    return data


def read_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """Read a text file. Raises InputError if it cannot be read, exceeds `limit` bytes, or is not UTF-8."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not UTF-8", str(path), "save the file as UTF-8") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML document. Raises InputError if it cannot be read, is too large, or is malformed."""
    text = read_text(path, MAX_TOML_BYTES)
    for parts in _PARTS_OF_A_KEY.finditer(text):
        if parts[0].count(".") >= _MOST_PARTS_OF_A_KEY:
            line = text.count("\n", 0, parts.start()) + 1
            message = f"line {line}: a key of more than {_MOST_PARTS_OF_A_KEY} parts"
            raise InputError(f"malformed TOML: {message}", str(path))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # int() raises ValueError for thousands of digits
        raise InputError(f"malformed TOML: {error}", str(path)) from None


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are missing. Raises InputError if the path is not usable, or
    MachineError if the machine cannot write there, for example because the disk is full."""
    with os_errors_as(unwritable, path):
        path.mkdir(parents=True, exist_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically (see `write_atomic`). Raises the same errors as `make_folder`."""
    with os_errors_as(unwritable, path):
        write_atomic(path, content)


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
