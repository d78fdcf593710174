"""Read users' files as text. Gzip and byte order marks are detected from a file's content."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path, PurePath

from fastopen.common.closing import Closing, on_error
from fastopen.common.errors import InputError, os_errors_as, unreadable
from fastopen.common.files import open_file
from fastopen.pages import budget

# A callback that gets the amount of an input that has been read, and the total amount, in bytes or files.
Progress = Callable[[int, int], None]
# A callback that gets the current input, the amount of all inputs that has been read, and the total amount.
FileProgress = Callable[[str, int, int], None]

GZIP = b"\x1f\x8b"
_PIECE = 2**20
_SNIFFED = 4096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def silent(done: int, total: int) -> None:
    """Do nothing. Callers that do not show progress use this callback."""


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Return a progress callback for input `number` (from 0) of `parts` inputs of equal size. The callback
    converts progress in this input to progress in all inputs, and passes it on to `progress`."""
    return lambda done, total: progress(number * total + done, parts * total)


class TextFile(Closing):
    """A context manager that reads the text of a file, which may be compressed with gzip, piece by piece.

    Raises InputError if the file cannot be read or is damaged gzip. With `lenient`, the text of a damaged
    gzip file ends at the damage, and InputError is raised only if there is no text before the damage."""

    # Bytes that cannot be decoded become U+FFFD, because recordings contain bodies in any encoding.

    def __init__(self, path: Path, *, lenient: bool = False, progress: Progress = silent) -> None:
        self._path = path
        self._lenient = lenient
        self._progress = progress
        self._taken = 0
        self._ahead = ""
        self._raw = open_file(path)
        self._size = os.fstat(self._raw.fileno()).st_size
        self._file: gzip.GzipFile | BufferedReader = self._raw
        with on_error(self.close), os_errors_as(unreadable, path):
            if self._raw.peek(2).startswith(GZIP):
                self._file = gzip.GzipFile(fileobj=self._raw)
            start = self._bytes(_SNIFFED)
        mark, encoding = next(((m, e) for m, e in _BOMS if start.startswith(m)), (b"", "utf-8"))
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ahead = self._decoder.decode(start[len(mark) :])

    def close(self) -> None:
        self._file.close()
        self._raw.close()

    def first(self) -> str:
        """Peek at the next character that is not white space. Raises InputError at the end of the file."""
        while not self._ahead.strip():
            self._ahead = ""  # otherwise read() would return this white space again
            self._ahead = self.read(_SNIFFED)
            if not self._ahead:
                raise InputError("the file is empty", str(self._path), "export it again")
        return self._ahead.lstrip()[0]

    def read(self, size: int) -> str:
        """Return the next characters, decoded from about `size` bytes; "" at the end of the file."""
        text, self._ahead = self._ahead, ""
        ended = False
        while not text and not ended:
            data = self._bytes(size)
            ended = not data
            text = self._decoder.decode(data, ended)
        return text

    def rest(self, limit: int) -> str:
        """Return the rest of the text. Raises InputError if it is longer than `limit` characters."""
        parts: list[str] = []
        left = limit
        while piece := self.read(_PIECE):
            left -= len(piece)
            if left < 0:
                raise InputError(f"is larger than {budget.mebibytes(limit)}", str(self._path))
            parts.append(piece)
        return "".join(parts)

    def _bytes(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the file or before damage."""
        parts: list[bytes] = []  # read with `read1`: `GzipFile.read` would lose the bytes before damage
        missing = size
        try:
            while missing > 0 and (part := self._file.read1(missing)):
                parts.append(part)
                missing -= len(part)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not self._lenient or not (self._taken or parts):
                message = f"damaged gzip: {error}"
                raise InputError(message, str(self._path), "fetch or export it again") from None
        except OSError as error:
            raise unreadable(self._path, error) from None
        data = b"".join(parts)
        self._taken += len(data)
        if self._file is not self._raw:
            budget.spend(len(data))
        self._progress(min(self._raw.tell(), self._size), self._size)
        return data


def first_bytes(path: Path) -> bytes:
    """Return the first 4096 bytes of a file, or no bytes if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(_SNIFFED)
    except (InputError, OSError):
        return b""  # the error is reported when the whole file is read


def unpacked_start(data: bytes, most: int = 0) -> bytes:
    """Decompress the start of a gzip file to at most `most` bytes (0: no limit). Return b"" if not gzip."""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(data, most)
    except zlib.error:
        return b""


def stem_of(place: str, suffixes: tuple[str, ...]) -> str:
    """Return a name for the page in the file or folder `place`: its base name after removing each of
    `suffixes` in turn. Return `page` if no printable character is left."""
    name = PurePath(place).name
    for suffix in suffixes:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return "".join(c for c in name if c.isprintable()) or "page"
