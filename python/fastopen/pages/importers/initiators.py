"""Find the initiators of recorded requests: as recorded, from URLs in response texts, or from times."""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Final

from fastopen.common.grouping import grouped
from fastopen.pages import url as urls
from fastopen.pages.importers import kinds
from fastopen.pages.importers.exchange import ASKERS, Exchange
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import Initiators, ResourceType
from fastopen.pages.references import UrlIndex, find_reference

_CLOCK_SLACK_MS: Final = 1.0
# A document's parser makes requests until this long after the document has arrived. Later, scripts do.
_PARSING_MS: Final = 50.0
# A parser that makes a request this long after its document has arrived waited for a script or stylesheet.
HELD_BACK_MS: Final = 100.0
_BLOCKING: Final[tuple[ResourceType, ...]] = ("script", "stylesheet")
_TEXTS_IN_MEMORY: Final = 32
# Up to this number of searches, searching all texts takes less time than building an index of them.
_DIRECT_SEARCHES: Final = 10_000


class InitiatorResolver:
    """Finds the initiator of each exchange (request with its response) of a page."""

    def __init__(self, entries: Sequence[Exchange], document: int, notes: Notes) -> None:
        """Prepare to find initiators. `entries` lists the page's requests and responses in order of start.
        `document` is the index of the main document, which is 0 unless the first request was redirected. The
        number of requests that waited for a script or stylesheet is added to `notes`."""
        self._entries = entries
        self._document = document
        self._index = {entry: index for index, entry in enumerate(entries)}
        self._by_url: defaultdict[str, list[int]] = defaultdict(list)
        self._by_origin: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
        self._targets: dict[int, int] = {}
        # Maps (index of a frame's document, type) to (end, index) of each entry so far, in order of end.
        self._ended: defaultdict[tuple[int, ResourceType], list[tuple[float, int]]] = defaultdict(list)
        # The index of the document of each entry so far.
        self._frames: list[int] = []
        self._texts = TextIndex(entries)
        # Maps the index of each entry whose URL was found in a text to the result of TextIndex.naming.
        self.namings: dict[int, tuple[int, float]] = {}
        self._notes = notes

    def find_all(self) -> tuple[list[tuple[int | None, str]], Initiators]:
        """Find the initiator of each exchange. Return a list with a pair for each exchange: the index of its
        initiator (None for the first exchange), and the evidence, such as `named` if a text contains the URL.
        Also return the source of all initiators: `recorded`, `inferred` or `mixed`."""
        found: list[tuple[int | None, str]] = []
        for index, entry in enumerate(self._entries):
            frame = self._frame_of(index)
            found.append(self._initiator(index, entry, frame) if index else (None, ""))
            self._remember(index, entry, frame)
        evidence = {kind for _, kind in found}
        if evidence.isdisjoint(("inferred", "named")):
            return found, "recorded"
        return found, "mixed" if "recorded" in evidence else "inferred"

    def _remember(self, index: int, entry: Exchange, frame: int) -> None:
        if entry.before is not None:
            self._targets[self._index[entry.before]] = index
        if entry.wants_content:
            self._by_url[entry.url].append(index)
            if not entry.is_redirect:
                if entry.type == "document":
                    self._by_origin[urls.origin_of(entry.url)].append(index)
                    frame = index
                insort(self._ended[frame, entry.type], (entry.at.end, index))
        self._frames.append(frame)

    def _initiator(self, index: int, entry: Exchange, frame: int) -> tuple[int, str]:
        if entry.before is not None and self._index[entry.before] < index:
            return self._index[entry.before], "chained"
        recorded = self._recorded(entry)
        if recorded is not None:
            return self._held_back(index, entry, recorded), "recorded"
        naming = self._texts.naming(index)
        if naming is not None:
            self.namings[index] = naming
            return self._held_back(index, entry, naming[0]), "named"
        return self._inferred(index, entry, frame), "inferred"

    def _resolve(self, url: str) -> int | None:
        """Return the index of the last entry with this URL among those examined so far. If it begins a chain
        of redirects, return the index of the chain's last entry. Return None if no entry has this URL."""
        known = self._by_url.get(url)
        if not known:
            return None
        first = index = known[-1]
        while index in self._targets and self._entries[index].is_redirect:
            index = self._targets[index]
        if index != first:
            self._targets[first] = index  # path compression for later calls
        return index

    def _recorded(self, entry: Exchange) -> int | None:
        """Return the index of the initiator that the recorder names, if any. From the scripts in a call
        stack, choose the script that arrived last before the request, because the request waited for it."""
        named = (urls.cleaned(url) for url in (entry.asked_like or entry).initiators)
        resolved = [self._resolve(url) for url in dict.fromkeys(named) if url is not None]
        found = [candidate for candidate in resolved if candidate is not None]
        if not found:
            return None
        limit = entry.at.start + _CLOCK_SLACK_MS
        arrived = [candidate for candidate in found if self._entries[candidate].at.end <= limit]
        return max(arrived, key=lambda i: (self._entries[i].at.end, i)) if arrived else found[0]

    def _held_back(self, index: int, entry: Exchange, recorded: int) -> int:
        """If the initiator `recorded` is a document that arrived long before the request, return the index of
        the script or stylesheet for which the request probably waited, if any; else `recorded`."""
        # A parser waits for scripts, and layout, which requests background images, waits for stylesheets. If
        # this wait counted as processing, it would be equally long on every network.
        document = self._entries[recorded]
        if document.type != "document" or entry.at.start - document.at.end <= HELD_BACK_MS:
            return recorded
        latest = (document.at.end, recorded)
        for kind in _BLOCKING:
            latest = max(latest, self._latest(recorded, kind, index) or latest)
        if latest[1] != recorded:
            self._notes.add("held")
        return latest[1]

    def _latest(self, frame: int, kind: ResourceType, index: int) -> tuple[float, int] | None:
        """In a frame, find the resource of type `kind` that ended last before the request `index` started.
        Return its end in ms since 1970 and its index, or None if there is no such resource."""
        ended = self._ended[frame, kind]
        place = bisect_right(ended, (self._entries[index].at.start + _CLOCK_SLACK_MS, index))
        return ended[place - 1] if place else None

    def _frame_of(self, index: int) -> int:
        """Return the index of the document to which a request belongs: the main document or that of a frame.
        The Referer or WebPageTest's `_documentURL` names it. Without these, assume the main document."""
        if index <= self._document:
            return 0
        entry = self._entries[index]
        for url in (entry.referer, entry.document):
            if url is None:
                continue
            found = self._resolve(url)
            if found is not None:
                return self._frames[found]
            # By default (strict-origin-when-cross-origin), the Referer to another host is only an origin.
            documents = self._by_origin.get(urls.origin_of(url)) if urls.target_of(url) == "/" else None
            if documents:
                return documents[-1]
        return self._document

    def _inferred(self, index: int, entry: Exchange, frame: int) -> int:
        if entry.referer is not None:
            named = self._resolve(entry.referer)
            # Apart from documents, browsers send only stylesheets, modules and workers as the Referer.
            if named is not None and self._entries[named].type in _BLOCKING:
                return named
        document = self._entries[frame]
        parsing = entry.at.start <= document.at.end + _PARSING_MS
        if parsing and entry.type not in ("xhr", "font"):
            return frame
        latest = (document.at.end, frame)
        for kind in ASKERS[entry.type]:
            found = self._latest(frame, kind, index)
            if found is not None and (found > latest or parsing):
                latest = found
        return latest[1]


class TextIndex:
    """Searches response texts for the URLs of other requests. The entries must be in order of start."""

    def __init__(self, entries: Sequence[Exchange]) -> None:
        self._entries = entries
        self._owners = [i for i, e in enumerate(entries) if e.text is not None and e.type in kinds.CODE]
        self._searches = 0
        self._text = lru_cache(maxsize=_TEXTS_IN_MEMORY)(self._read)

    def naming(self, index: int) -> tuple[int, float] | None:
        """Find a response text that contains the URL of the entry `index`. Return the index of the text's
        entry, and the URL's end as a fraction of the text's length. Return None if no text has the URL."""
        # Search the texts that had arrived when the entry started, latest first, then those still arriving.
        entry = self._entries[index]
        self._searches += len(self._owners)
        owners = self._owners if self._searches < _DIRECT_SEARCHES else self._owners_of.get(index, ())
        started = [i for i in owners if i < index and self._entries[i].at.start < entry.at.start]
        ended = [i for i in started if self._entries[i].at.end <= entry.at.start]
        ended.sort(key=lambda i: (self._entries[i].at.end, i), reverse=True)
        for owner in (*ended, *(i for i in started if self._entries[i].at.end > entry.at.start)):
            text = self._text(owner)
            offset = find_reference(text, entry.url, self._entries[owner].url) if text else None
            if offset is not None:
                return owner, offset / len(text)
        return None

    @cached_property
    def _owners_of(self) -> dict[int, list[int]]:
        """Map the index of each entry to the indices of the entries whose texts may contain its URL."""
        urls_of_all = UrlIndex(entry.url for entry in self._entries)
        candidates = ((urls_of_all.candidates_in(self._read(owner)), owner) for owner in self._owners)
        return grouped((index, owner) for indices, owner in candidates for index in indices)

    def _read(self, owner: int) -> bytes:
        content = self._entries[owner].text
        return content.read() if content is not None else b""
