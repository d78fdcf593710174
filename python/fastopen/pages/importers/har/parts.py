"""Reduce the memory of HAR entries: drop unused keys, move bodies to a store, store equal headers once."""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastopen.pages import budget
from fastopen.pages.bodies import BodyStore, StoredBody
from fastopen.pages.importers import coerce

# Bytes of memory of a header in `_seen`, without its characters: a tuple, two strings, a dictionary entry.
_PAIR_BYTES: Final = 300
_DROPPED: Final = frozenset(["cache", "cookies", "queryString", "comment"])


class Headers(list[tuple[str, str]]):
    """Header fields with names in lower case. `binary` is True if the HAR also had HTTP/2 pseudo-headers."""

    binary = False


@dataclass
class BodyStripper:
    """Reduces the memory of a HAR's entries: moves bodies to `store`, and stores equal headers only once."""

    store: BodyStore = field(default_factory=BodyStore)
    _seen: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def __call__(self, raw: object) -> object:
        """Return a copy of the HAR entry `raw` with its body moved to `store`, and without keys that pages do
        not need. If `raw` is not an object, return it unchanged."""
        if not isinstance(raw, dict):
            return raw
        found = {key: value for key, value in raw.items() if key not in _DROPPED}
        for side in ("request", "response"):
            if isinstance(raw.get(side), dict):
                found[side] = self._side(raw[side])
        return found

    def _side(self, side: Mapping[str, Any]) -> dict[str, Any]:
        found = {key: value for key, value in side.items() if key not in _DROPPED}
        listed = side.get("headers")
        members = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        found["headers"] = headers = Headers()
        headers.binary = any(coerce.text(one.get("name")).startswith(":") for one in members)
        taken = 0
        for pair in coerce.lowered((one.get("name"), one.get("value")) for one in members):
            if pair not in self._seen:
                self._seen[pair] = pair
                taken += _PAIR_BYTES + len(pair[0]) + len(pair[1])
            headers.append(self._seen[pair])
        budget.keep(taken)
        content = side.get("content")
        if isinstance(content, dict) and content.get("text"):
            found["content"] = content | {"text": self._kept(content)}
        return found

    def _kept(self, content: Mapping[str, Any]) -> StoredBody | None:
        text = content["text"]
        if not isinstance(text, str):
            return None
        if coerce.text(content.get("encoding")).lower() != "base64":
            return self.store.add(text.encode("utf-8", "replace"))
        try:
            return self.store.add(binascii.a2b_base64(text))
        except ValueError:
            return None


class HarEntry:
    """An entry of a HAR: a request, its response and their times. Missing or invalid parts are empty."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.request = coerce.mapping(raw.get("request"))
        self.response = coerce.mapping(raw.get("response"))
        self.request_headers: Headers = self.request.get("headers", Headers())
        self.response_headers: Headers = self.response.get("headers", Headers())
        self.content = coerce.mapping(self.response.get("content"))
        self.timings = coerce.mapping(raw.get("timings"))
        kept = self.content.get("text")
        self.text = kept if isinstance(kept, StoredBody) else None
        sizes = (self.response.get("_transferSize"), raw.get("_transferSize"), raw.get("_bytesIn"))
        self.transferred = next(filter(None, map(coerce.size, sizes)), None)
        """Bytes of the response as sent, headers included (Chrome, WebPageTest); None if unknown or 0."""
