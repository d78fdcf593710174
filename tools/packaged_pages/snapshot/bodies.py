"""The saved bodies: which file is whose, and how large each was on the wire when servers compressed text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_HASHED: Final = re.compile(r"[0-9a-f]{32}\Z")
_TEXT: Final = re.compile(r"text/|javascript|json|xml")


def is_text(mime: str) -> bool:
    """Whether servers compress it."""
    return bool(_TEXT.search(mime))


def file_of(url: str, renamed: Mapping[str, str], folder: Path) -> Path | None:
    """The file that holds the body of `url`. Long names were replaced by hashes: `renamed` says of what."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    whole = path + (f"#{parts.fragment}" if parts.fragment else "")
    spellings = [whole, path, path.replace("/?", "/index.html?", 1)]
    names = [renamed[spelling] for spelling in spellings if spelling in renamed]
    names += [path.lstrip("/"), path.lstrip("/") + "index.html", path.lstrip("/") + "/index.html"]
    host = folder / (parts.hostname or "")
    for name in names:
        try:
            if (host / name).is_file():
                return host / name
        except OSError:  # a name too long for the file system
            continue
    return None


def url_of(file: Path, folder: Path, renamed: Mapping[str, str]) -> str | None:
    """The URL that a saved file was fetched from, or None where only a hash of it is known."""
    host, _, name = file.relative_to(folder).as_posix().partition("/")
    if _HASHED.match(name):
        path = next((path for path, hashed in renamed.items() if hashed == name), None)
        if path is None:
            return None
        name = path.partition("#")[0].lstrip("/")
    if name.startswith("index.html"):
        name = name.removeprefix("index.html")
    return f"http://{host}/{name}"


@dataclass(frozen=True)
class Body:
    """A saved body, as the page's programs saw it: decompressed."""

    data: bytes
    mime: str

    def deflated(self) -> int:
        """Bytes under zlib's level 6, which servers use for gzip, and the 12 more of gzip's frame."""
        return len(zlib.compress(self.data, 6)) + 12


def never_compressed(bodies: Sequence[Body], count: int, total: int) -> frozenset[int]:
    """Which `count` of the text bodies, of `total` bytes together, came uncompressed: the subset nearest it.

    The browser logged only how many text bodies came uncompressed and their average size. Several subsets may
    fit; the total on the wire is the same for all of them. Of each number and sum the first subset is kept.
    """
    indices = [i for i, body in enumerate(bodies) if is_text(body.mime) and body.data]
    reached: list[dict[int, tuple[int, ...]]] = [{} for _ in range(count + 1)]
    reached[0][0] = ()
    slack = 2 * count + 64
    for index in indices:
        size = len(bodies[index].data)
        for taken in range(count - 1, -1, -1):
            for total_so_far, chosen in list(reached[taken].items()):
                grown = total_so_far + size
                if grown <= total + slack and len(reached[taken + 1]) < _MAX_SUMS:
                    reached[taken + 1].setdefault(grown, (*chosen, index))
    for sums in reversed(reached):
        if sums:
            nearest = min(sums, key=lambda found: (abs(found - total), found))
            return frozenset(sums[nearest])
    return frozenset()


_MAX_SUMS: Final = 20_000
