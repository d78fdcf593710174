"""Files of users as text: compressed or not, with or without byte order mark, never trusting the name."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path, PurePath

from fastopen.errors import InputError

# A recording of a large page with all its bodies is some 100 MB; what is beyond this is no recording.
MAX_TEXT_BYTES = 2**30
_SNIFFED = 4096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read_text(path: Path) -> str:
    """The text of a file. Raises InputError where it cannot be read, is empty or is damaged gzip.

    Bytes that are not UTF-8 become U+FFFD: recorders put bodies of any encoding into their files, and one bad
    byte in a body that we may not even need is no reason to refuse the recording.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from None
    if data.startswith(b"\x1f\x8b"):
        data = _unpacked(path)
    if not data.strip():
        raise InputError("is empty", str(path))
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def first_bytes(path: Path, *, unpacked: bool = False) -> bytes:
    """How a file begins, unpacked if it is gzip and that is asked for; nothing where that cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(_SNIFFED)
    except OSError:
        return b""  # whoever reads it says why not
    if unpacked and start.startswith(b"\x1f\x8b"):
        try:
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(start, _SNIFFED)
        except zlib.error:
            return b""
    return start


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            unpacked = file.read(MAX_TEXT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"damaged gzip: {error}", str(path), "fetch or export it again") from None
    if len(unpacked) > MAX_TEXT_BYTES:
        raise InputError("unpacks to more than 1 GiB", str(path))
    return unpacked


def stem_of(place: str, suffixes: tuple[str, ...]) -> str:
    """What a page out of this file is called: the file's name without what says its form."""
    name = PurePath(place).name
    for suffix in suffixes:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return "".join(c for c in name if c.isprintable()) or "page"
