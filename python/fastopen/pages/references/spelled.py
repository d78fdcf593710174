"""References by spelling: the place in the text of a document, stylesheet or script."""

import html
import posixpath
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from fastopen.pages import budget

_SHORTEST: Final = 12


def find_reference(text: bytes, url: str, base: str) -> int | None:
    """The first byte after the name of `url` in a text served from `base`, or None.

    The whole URL first, then the path alone (scripts put hosts together), then the path without what changes
    from load to load (queries, the parameters of advertisers after `;`), then as relative to `base`.
    """
    last = _in_every_spelling(url)
    if last is not None and last not in text:
        return None
    spellings = _spellings(url, base)
    if not budget.may_search(len(text) * len(spellings)):
        return None
    for spelling in spellings:
        offset = text.find(spelling)
        if offset >= 0:
            return offset + len(spelling)
    return None


@lru_cache(maxsize=8192)
def _in_every_spelling(url: str) -> bytes | None:
    """The last part of the path, where it has nothing that texts write in several ways."""
    last = urlsplit(url).path.partition(";")[0].rpartition("/")[2]
    return last.encode("utf-8", "replace") if unquote(last) == last and html.escape(last) == last else None


def _spellings(url: str, base: str) -> list[bytes]:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    whole = [f"//{parts.netloc}{target}"]
    stable = parts.path.partition(";")[0]
    shorter = [f"//{parts.netloc}{stable}"] if len(stable) >= _SHORTEST else []
    paths = [path for path in dict.fromkeys((target, stable)) if len(path) >= _SHORTEST]
    found: list[str] = []
    for name in (*whole, *shorter, *paths, *_relative(parts.path, url, base)):
        found += [name, unquote(name), html.escape(name, quote=False), name.replace("/", "\\/")]
    return [name.encode("utf-8", "replace") for name in dict.fromkeys(found)]


def _relative(path: str, url: str, base: str) -> list[str]:
    """The path as a stylesheet or document of the same host may write it."""
    here = urlsplit(base)
    if here.netloc != urlsplit(url).netloc or len(path) < 2:
        return []
    relative = posixpath.relpath(path, posixpath.dirname(here.path) or "/")
    return [f"({relative}", f'"{relative}', f"'{relative}", f"({path}", f'"{path}', f"'{path}"]
