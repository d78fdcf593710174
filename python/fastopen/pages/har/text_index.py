"""The recorded texts of a page, searched for the names of what it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from fastopen.pages.har.entry import Entry
from fastopen.pages.references import find_reference

_CODE: Final = ("document", "stylesheet", "script")
_IN_MEMORY: Final = 32


@dataclass(frozen=True)
class Naming:
    """`owner` (an index) names it after this share of its text."""

    owner: int
    share: float


class TextIndex:
    """Which text names what, for entries in order of their start."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._owners = [i for i, e in enumerate(entries) if e.content is not None and e.type in _CODE]
        self._text = lru_cache(maxsize=_IN_MEMORY)(self._read)

    def naming(self, index: int) -> Naming | None:
        """The text that names an entry: the last that had come by its start, else the first started."""
        entry = self._entries[index]
        started = [i for i in self._owners if i < index and self._entries[i].start < entry.start]
        ended = [i for i in started if self._entries[i].end <= entry.start]
        ended.sort(key=lambda i: (self._entries[i].end, i), reverse=True)
        for owner in (*ended, *(i for i in started if self._entries[i].end > entry.start)):
            text = self._text(owner)
            offset = find_reference(text, entry.url, self._entries[owner].url) if text else None
            if offset is not None:
                return Naming(owner, offset / len(text))
        return None

    def _read(self, owner: int) -> bytes:
        content = self._entries[owner].content
        return content.read() if content is not None else b""
