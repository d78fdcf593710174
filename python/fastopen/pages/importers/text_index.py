"""The recorded texts of a page, searched for the names of what it asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from fastopen.pages.importers.har.entry import Entry
from fastopen.pages.references import NameIndex, find_reference

_CODE: Final = ("document", "stylesheet", "script")
_IN_MEMORY: Final = 32
# So many texts are searched sooner than all of them are indexed.
_DIRECT_SEARCHES: Final = 10_000


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
        self._searches = 0
        self._text = lru_cache(maxsize=_IN_MEMORY)(self._read)

    def naming(self, index: int) -> Naming | None:
        """The text that names an entry: the last that had come by its start, else the first started."""
        entry = self._entries[index]
        self._searches += len(self._owners)
        owners = self._owners if self._searches < _DIRECT_SEARCHES else self._owners_of[index]
        started = [i for i in owners if i < index and self._entries[i].start < entry.start]
        ended = [i for i in started if self._entries[i].end <= entry.start]
        ended.sort(key=lambda i: (self._entries[i].end, i), reverse=True)
        for owner in (*ended, *(i for i in started if self._entries[i].end > entry.start)):
            text = self._text(owner)
            offset = find_reference(text, entry.url, self._entries[owner].url) if text else None
            if offset is not None:
                return Naming(owner, offset / len(text))
        return None

    @cached_property
    def _owners_of(self) -> defaultdict[int, list[int]]:
        """The texts that may name each entry, in order: each text is read once for all entries."""
        names = NameIndex(entry.url for entry in self._entries)
        found: defaultdict[int, list[int]] = defaultdict(list)
        for owner in self._owners:
            for index in names.named_in(self._read(owner)):
                found[index].append(owner)
        return found

    def _read(self, owner: int) -> bytes:
        content = self._entries[owner].content
        return content.read() if content is not None else b""
