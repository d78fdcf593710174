"""Match saved bodies with URLs, and estimate the bodies' sizes on the wire, since servers compressed text."""

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
    """Return True if servers usually compress this media type."""
    return bool(_TEXT.search(mime))


def file_of(url: str, renamed: Mapping[str, str], folder: Path) -> Path | None:
    """Return the file with the body of `url`, or None. `renamed` maps paths to hashes used as file names."""
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
    """Return the URL that a saved file was fetched from; None if only a hash of the URL is known."""
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
    """The decompressed body of a saved response."""

    data: bytes
    mime: str

    def deflated(self) -> int:
        """Return the size after gzip: zlib at level 6, which servers use, and 12 bytes for gzip's frame."""
        return len(zlib.compress(self.data, 6)) + 12


def never_compressed(bodies: Sequence[Body], count: int, total: int) -> frozenset[int]:
    """Return the indices of `count` text bodies whose sizes add up to `total` or nearly so.

    These bodies are assumed to be the uncompressed ones: the browser logged only their number and average
    size. If several subsets have the sum nearest to `total`, the first one found is returned, as the total on
    the wire is the same. If there is no subset of `count` bodies, a smaller subset is returned."""
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
