"""Search texts for known URLs, which may be relative, shortened or escaped there.

UrlIndex reads each text once for all URLs, so that the time grows linearly with the length of the texts.
"""

import html
import posixpath
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Final
from urllib.parse import unquote, urlsplit

from fastopen.common.grouping import grouped
from fastopen.pages import budget

_SHORTEST: Final = 12
_URL_ENDS: Final = rb"(?![\w.~%-])"


def find_reference(text: bytes, url: str, base: str) -> int | None:
    """Search the text of the resource at `base` for `url`. Return the offset in bytes at which the URL ends
    in the text, or None if the text does not contain it, or if the search would exceed the input's limit.

    The text may contain the URL without its scheme, its host or its query, relative to `base`, or escaped."""
    # Queries and `;` parameters differ between loads, and scripts may add the host, so texts may lack them.
    last = _in_every_spelling(url)
    if last is not None and last not in text:
        return None
    spellings = _spellings(url, base)
    if not budget.may_search(len(text) * len(spellings)):
        return None
    for spelling in spellings:
        offset = text.find(spelling)
        # The URL of a folder is also the beginning of the URLs in this folder.
        if offset >= 0 and spelling.endswith(b"/"):
            found = re.search(re.escape(spelling) + _URL_ENDS, text[offset:])
            offset = offset + found.start() if found else -1
        if offset >= 0:
            return offset + len(spelling)
    return None


@lru_cache(maxsize=8192)
def _in_every_spelling(url: str) -> bytes | None:
    """Return the last segment of the URL's path, if every text with the URL contains this segment unchanged.
    Return None if a text may contain the segment in an escaped form."""
    last = urlsplit(url).path.partition(";")[0].rpartition("/")[2]
    return last.encode("utf-8", "replace") if unquote(last) == last and html.escape(last) == last else None


def _spellings(url: str, base: str) -> list[bytes]:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    paths = [path for path in (target, parts.path.partition(";")[0]) if len(path) >= _SHORTEST]
    with_host = [f"//{parts.netloc}{path}" for path in (target, *paths)]
    found: list[str] = []
    for name in (*with_host, *paths, *_relative(parts.path, url, base)):
        found += [name, unquote(name), html.escape(name, quote=False), name.replace("/", "\\/")]
    return [name.encode("utf-8", "replace") for name in dict.fromkeys(found)]


def _relative(path: str, url: str, base: str) -> list[str]:
    here = urlsplit(base)
    if here.netloc != urlsplit(url).netloc or len(path) < 2:
        return []
    relative = posixpath.relpath(path, posixpath.dirname(here.path) or "/")
    # Modules of JavaScript write "./x.js" instead of "x.js".
    names = [relative, path] if relative.startswith("..") else [relative, path, f"./{relative}"]
    return [mark + name for name in names for mark in "(\"'"]


# Characters that percent-encoding, HTML escaping and string escaping all leave unchanged.
_RUN: Final = re.compile(r"[A-Za-z0-9_.-]+")
_SPACES_BETWEEN: Final = bytes(byte if _RUN.fullmatch(chr(byte)) else 0x20 for byte in range(256))
_BYTES_A_STEP: Final = 64
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


class UrlIndex:
    """An index of `urls` that quickly finds the URLs that a text may contain, even if relative or escaped."""

    # The key of a URL is the longest word in the last segment of its path, which every spelling contains.

    def __init__(self, urls: Iterable[str]) -> None:
        self._with_word = grouped((_word(url), number) for number, url in enumerate(urls))

    def candidates_in(self, text: bytes) -> list[int]:
        """Return the indices in `urls` of all URLs that the text may contain, in ascending order."""
        budget.work(len(text) // _BYTES_A_STEP)
        # URLs without a word have the key b"". Any text may contain such a URL.
        words = self._with_word.keys() & {b"", *text.translate(_SPACES_BETWEEN).split()}
        return sorted(chain.from_iterable(self._with_word[word] for word in words))


def _word(url: str) -> bytes:
    """Return the longest run of letters, digits, `_`, `.` and `-` in the last segment of the URL's path. A
    text that contains the URL in an escaped form contains this run unchanged."""
    parts = [part for part in urlsplit(url).path.partition(";")[0].split("/") if part]
    runs = _RUN.findall(_ESCAPE.sub(" ", parts[-1])) if parts else []
    return max(runs, key=len, default="").encode()
