"""Which resource made the browser ask for each: as recorded, else by name in texts, type and time."""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastopen.common import json_memory
from fastopen.pages import url as urls
from fastopen.pages.importers import fields
from fastopen.pages.importers.har.entry import Entry
from fastopen.pages.importers.har_notes import HarNotes
from fastopen.pages.importers.text_index import Naming, TextIndex
from fastopen.pages.model import Initiators, ResourceType

_MAX_STACK: Final = 200
_CLOCK_SLACK_MS: Final = 1.0
# While a document arrives, and this long after, its parser asks for things; later ones are a script's doing.
_PARSING_MS: Final = 50.0
# A parser that asks this long after its document ended was waiting for something else.
HELD_BACK_MS: Final = 100.0
_BLOCKING: Final[tuple[ResourceType, ...]] = ("script", "stylesheet")
# Who may ask for what, other than the document itself.
_ASKERS: Final[dict[ResourceType, tuple[ResourceType, ...]]] = {
    "font": ("stylesheet",),
    "image": ("stylesheet", "script"),
    "stylesheet": ("stylesheet", "script"),
}


class InitiatorResolver:
    """Finds initiators for entries that are given in order of start, the root document first."""

    def __init__(self, entries: Sequence[Entry], document: int) -> None:
        """`document` is the index of the main document, where the root's redirects lead."""
        self._entries = entries
        self._document = document
        self._index = {entry: index for index, entry in enumerate(entries)}
        self._by_url: defaultdict[str, list[int]] = defaultdict(list)
        self._by_origin: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
        self._targets: dict[int, int] = {}
        # (frame, type) to (end, index) of what has started so far, in order of end.
        self._ended: defaultdict[tuple[int, ResourceType], list[tuple[float, int]]] = defaultdict(list)
        self.frames: list[int] = []
        self._texts = TextIndex(entries)
        # Index to the text that names it, where no initiator was recorded.
        self.namings: dict[int, Naming] = {}
        self._held = 0

    def find_all(self, notes: HarNotes) -> tuple[list[int | None], Initiators]:
        """For each entry the index of its initiator (None for the first), and how they are known."""
        found: list[int | None] = []
        known = {"recorded": 0, "named": 0, "inferred": 0, "chained": 0}
        for index, entry in enumerate(self._entries):
            frame = self._frame_of(index)
            initiator: int | None = None
            if index:
                initiator, how = self._initiator(index, entry, frame)
                known[how] += 1
            found.append(initiator)
            self._remember(index, entry, frame)
        for how, count in known.items():
            if count:
                notes.add(how, count)
        if self._held:
            notes.add("held", self._held)
        if not known["inferred"] and not known["named"]:
            return found, "recorded"
        return found, "mixed" if known["recorded"] else "inferred"

    def _remember(self, index: int, entry: Entry, frame: int) -> None:
        self._by_url[entry.url].append(index)
        if entry.before is not None:
            self._targets[self._index[entry.before]] = index
        if entry.type == "document" and not entry.is_redirect:
            self._by_origin[urls.origin_of(entry.url)].append(index)
            frame = index
        self.frames.append(frame)
        if not entry.is_redirect:
            insort(self._ended[frame, entry.type], (entry.end, index))

    def _initiator(self, index: int, entry: Entry, frame: int) -> tuple[int, str]:
        if entry.before is not None and self._index[entry.before] < index:
            return self._index[entry.before], "chained"
        recorded = self._recorded(index, entry)
        if recorded is not None:
            return self._held_back(index, entry, recorded), "recorded"
        naming = self._texts.naming(index)
        if naming is not None:
            self.namings[index] = naming
            return self._held_back(index, entry, naming.owner), "named"
        return self._inferred(index, entry, frame), "inferred"

    def _resolve(self, url: str, before: int) -> int | None:
        """The latest entry of this URL that started before, or where its redirects had led by then."""
        known = self._by_url.get(url)
        if not known or before <= known[0]:
            return None
        index = known[-1]
        while index in self._targets and self._entries[index].is_redirect:
            index = self._targets[index]
        return index

    def _recorded(self, index: int, entry: Entry) -> int | None:
        """The recorded initiator. Of a call stack, the resource that arrived last: it was waited for."""
        source = entry.asked_like or entry
        named = (urls.cleaned(url) for url in recorded_urls(source.raw))
        resolved = [self._resolve(url, index) for url in dict.fromkeys(named) if url is not None]
        found = [candidate for candidate in resolved if candidate is not None]
        if not found:
            return None
        limit = entry.start + _CLOCK_SLACK_MS
        arrived = [candidate for candidate in found if self._entries[candidate].end <= limit]
        return max(arrived, key=lambda i: (self._entries[i].end, i)) if arrived else found[0]

    def _held_back(self, index: int, entry: Entry, recorded: int) -> int:
        """What arrived last before a document's parser went on, where it asked long after the document ended.

        A parser stops at scripts, layout (which asks for backgrounds) at stylesheets: waiting for them is of
        the network, and as "processing" it would stay the same over every network.
        """
        document = self._entries[recorded]
        if document.type != "document" or entry.start - document.end <= HELD_BACK_MS:
            return recorded
        latest = (document.end, recorded)
        for kind in _BLOCKING:
            latest = max(latest, self._latest(recorded, kind, entry, index) or latest)
        if latest[1] != recorded:
            self._held += 1
        return latest[1]

    def _latest(self, frame: int, kind: ResourceType, entry: Entry, index: int) -> tuple[float, int] | None:
        """End and index of the resource of this frame and type that had ended last when `entry` started."""
        ended = self._ended[frame, kind]
        place = bisect_right(ended, (entry.start + _CLOCK_SLACK_MS, index))
        return ended[place - 1] if place else None

    def _frame_of(self, index: int) -> int:
        """The document that the entry belongs to, out of its referer or what WebPageTest says of it."""
        if index <= self._document:
            return 0
        entry = self._entries[index]
        for url in (entry.referer, urls.cleaned(fields.text(entry.raw.get("_documentURL")))):
            if url is None:
                continue
            found = self._resolve(url, index)
            if found is not None:
                return self.frames[found]
            # Browsers send only the origin to other hosts (referrer policy strict-origin-when-cross-origin).
            documents = self._by_origin.get(urls.origin_of(url)) if urls.target_of(url) == "/" else None
            if documents:
                return documents[-1]
        return self._document

    def _inferred(self, index: int, entry: Entry, frame: int) -> int:
        kinds = _ASKERS.get(entry.type, ("script",))
        if entry.referer is not None:
            named = self._resolve(entry.referer, index)
            # Only stylesheets other than documents send a referer of their own.
            if named is not None and self._entries[named].type == "stylesheet":
                return named
        document = self._entries[frame]
        parsing = entry.start <= document.end + _PARSING_MS
        if parsing and entry.type not in ("xhr", "font"):
            return frame
        latest = (document.end, frame)
        for kind in kinds:
            found = self._latest(frame, kind, entry, index)
            if found is not None and (found > latest or parsing):
                latest = found
        return latest[1]


def recorded_urls(raw: Mapping[str, Any]) -> list[str]:
    """The URLs that an entry's maker names as initiator; for a script the whole call stack, nearest first.

    Chrome writes an object into `_initiator`, chrome-har the same as a string into `_initiator_detail`,
    WebPageTest and chrome-har a URL into `_initiator`.
    """
    found: list[str] = []
    for key in ("_initiator", "_initiator_detail"):
        value = raw.get(key)
        if isinstance(value, str) and value.startswith("{"):
            try:
                if json_memory.is_too_much(value):
                    continue
                value = json.loads(value)
            except (ValueError, RecursionError):
                continue
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            found.extend(_stack_urls(value.get("stack")))
            found.append(fields.text(value.get("url")))
    return [url for url in found if url]


def _stack_urls(stack: object) -> Iterator[str]:
    """The URL of every frame, then of those that the call was scheduled from."""
    seen = 0
    while isinstance(stack, dict) and seen < _MAX_STACK:
        frames = stack.get("callFrames")
        for frame in frames if isinstance(frames, list) else ():
            seen += 1
            yield fields.text(fields.mapping(frame).get("url"))
        seen += 1
        stack = stack.get("parent")
