"""Read the parts of a HAR entry: headers, body, and sizes as HTTP/1.1 would send them.

Reduce their memory: drop unused keys, move bodies to a store, and store equal headers once."""

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import MAX_HEADER_BYTES, TYPICAL_REQUEST, TYPICAL_RESPONSE
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import HttpVersion, body_is_empty
from fastopen.pages.recording import BodyStore, StoredBody

# Bytes of memory of a header in `_seen`, without its characters: a tuple, two strings, a dictionary entry.
_PAIR_BYTES: Final = 300
_DROPPED: Final = frozenset(["cache", "cookies", "queryString", "comment"])
# dcb and dcz: https://www.rfc-editor.org/rfc/rfc9842
_COMPRESSED: Final = frozenset(["gzip", "br", "deflate", "zstd", "compress", "x-gzip", "dcb", "dcz"])
_COMPRESSIBLE: Final = re.compile(r"^text/|javascript|json|xml")
# gzip and brotli compress text to about a third (the HTTP Archive's Web Almanac 2022, chapter
# Compression, has medians of 70 to 75 % saved for HTML, CSS and scripts; JSON and small files save less).
_COMPRESSED_SHARE: Final = 3
# Names of HTTP versions that recorders write, such as h2, h2c, HTTP/2.0, h3-29 and HTTP/3. SPDY counts as its
# successor HTTP/2, and Google's own QUIC as its successor HTTP/3. Old WebPageTests write `2 2`: `HTTP/2 200`.
_VERSIONS: Final[tuple[tuple[re.Pattern[str], HttpVersion], ...]] = (
    (re.compile(r"h3\b|hq\b|http[/ ]?3|3(\.0)?( |\Z)|quic|http/2(\.0)?\+quic", re.IGNORECASE), "3"),
    (re.compile(r"h2c?\b|http[/ ]?2|2(\.0)?( |\Z)|spdy", re.IGNORECASE), "2"),
    (re.compile(r"(http/)?1\.0( |\Z)", re.IGNORECASE), "1.0"),
    (re.compile(r"(http/)?1\.1( |\Z)", re.IGNORECASE), "1.1"),
)
_TYPICAL: Final = {"request": TYPICAL_REQUEST, "response": TYPICAL_RESPONSE}
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


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

    def version(self, side: str) -> HttpVersion | None:
        """Return the HTTP version that the recorder names for the `request` or the `response` (`side`)."""
        written = (coerce.mapping(self.raw.get(side)).get("httpVersion"), self.raw.get("_protocol"))
        named = [coerce.text(one).strip() for one in written]
        return next((version for rule, version in _VERSIONS if any(map(rule.match, named))), None)


class Sizes(NamedTuple):
    """Sizes of a request and its response in bytes, with headers as HTTP/1.1 text."""

    request_header_bytes: int
    request_body_bytes: int
    response_header_bytes: int
    body_bytes: int


def sizes_of(entry: HarEntry, url: str, method: str, status: int, notes: Notes) -> Sizes:
    """Return the header and body sizes of a HAR entry. A size that the entry lacks is computed from other
    values or guessed, and counted in `notes`."""
    request, response = entry.request, entry.response
    binary = entry.request_headers.binary or entry.response_headers.binary
    binary |= entry.version("request") in ("2", "3") or entry.version("response") in ("2", "3")
    request_line = len(f"{method} {urls.target_of(url)} HTTP/1.1\r\n")
    host = len(f"host: {urls.host_of(url)}\r\n")
    written = request_line + (0 if coerce.header(entry.request_headers, "host") is not None else host)
    sent = _header(entry, "request", written, binary, notes)
    phrase = _PHRASES.get(status, coerce.text(response.get("statusText")))
    status_line = len(f"HTTP/1.1 {status} {phrase}\r\n")
    got = _header(entry, "response", status_line, binary, notes)
    return Sizes(
        request_header_bytes=max(request_line + host + 2, sent),
        request_body_bytes=_request_body(request, entry.request_headers, method),
        response_header_bytes=max(status_line + 2, got),
        body_bytes=0 if body_is_empty(method, status) else _body(entry, notes),
    )


def _header(entry: HarEntry, side: str, first_line: int, binary: bool, notes: Notes) -> int:
    """Return the size in bytes of the header of the `request` or `response` (`side`) as HTTP/1.1 text.
    `first_line` is the size of the text before the recorded header fields. `binary` is True for HTTP/2 and
    HTTP/3, where the recorded size is not that of HTTP/1.1 text. If neither fields nor a plausible size were
    recorded, return a typical size, and count the guess in `notes`."""
    message = coerce.mapping(entry.raw.get(side))
    listed = message.get("headers", ())
    written = first_line + _written(listed) + 2
    recorded = coerce.size(message.get("headersSize"))
    # Old versions of Chrome write the size of only the first line if they did not see the headers.
    least = written // 2 if listed else written + 8
    if recorded is not None and not least <= recorded <= MAX_HEADER_BYTES:
        recorded = None
    if listed and (binary or recorded is None):
        if binary:
            notes.add("written_out")
        return min(written, MAX_HEADER_BYTES)
    if recorded is not None:
        return recorded
    notes.add(f"{side}_headers")
    return _TYPICAL[side]


def _written(listed: Pairs) -> int:
    return sum(len(name) + _utf8_bytes(value) + 4 for name, value in listed)


def _utf8_bytes(value: object) -> int:
    return len(coerce.text(value).encode("utf-8", "replace"))


def _request_body(request: Mapping[str, Any], sent: Pairs, method: str) -> int:
    recorded = coerce.size(request.get("bodySize"))
    if recorded:
        return recorded
    if method in ("GET", "HEAD") and not request.get("postData"):
        return 0
    length = coerce.size(coerce.header(sent, "content-length"))
    if length is not None:
        return length
    data = coerce.mapping(request.get("postData"))
    if coerce.text(data.get("text")):
        return _utf8_bytes(data.get("text"))
    params = data.get("params")
    fields = [coerce.mapping(param) for param in params] if isinstance(params, list) else []
    return sum(_utf8_bytes(one.get("name")) + _utf8_bytes(one.get("value")) + 2 for one in fields)


def _body(entry: HarEntry, notes: Notes) -> int:
    """Return the size in bytes of the response body as sent. Estimate it if no plausible size is recorded."""
    length = coerce.size(coerce.header(entry.response_headers, "content-length"))
    whole = coerce.size(entry.content.get("size"))
    empty = not whole and not entry.content.get("text")
    # A recorded size of 0 is not plausible if there is content. `_objectSize` is a field of WebPageTest.
    named = (coerce.size(size) for size in (entry.response.get("bodySize"), entry.raw.get("_objectSize")))
    recorded = next((size for size in named if size or (size == 0 and empty)), None)
    encoded = _is_encoded(entry.response_headers)
    # If the sizes of body and content are equal, both are the decompressed size (waterfall-tools) or the
    # compressed size (WebPageTest). The length of the recorded content shows which.
    unpacked = encoded and recorded == whole
    if recorded is None or (unpacked and entry.text is not None and entry.text.length == whole):
        return _guessed_body(entry, length, whole, notes)
    # Chrome's body sizes include compressed HTTP/2 headers. Without Content-Length, use the content's size.
    if length is not None and length < recorded and (unpacked or recorded <= length + 4096):
        return length
    if whole and not encoded and whole < recorded <= whole + 4096:
        return whole
    return recorded


def _guessed_body(entry: HarEntry, length: int | None, whole: int | None, notes: Notes) -> int:
    """Estimate the size in bytes of a response's body as sent, and count the estimate in `notes`. Use
    Content-Length (`length`). If it is missing or too large, use the number of transferred bytes. If both are
    missing, subtract the bytes that compression saved from the size of the content (`whole`)."""
    if entry.transferred is not None:
        headers = coerce.size(entry.response.get("headersSize")) or _written(entry.response_headers) + 17
        if length is None or headers < entry.transferred < length:
            notes.add("body_transfer")
            return max(0, entry.transferred - headers)
    if length is not None:
        notes.add("body_length")
        return length
    if whole:
        # Old versions of Chrome write a number above `whole` if they do not know how much compression saved.
        saved = coerce.size(entry.content.get("compression")) or 0
        if saved > whole:
            saved = 0
        # Without recorded headers, assume that text was compressed.
        mime = coerce.text(entry.content.get("mimeType"))
        fields = entry.response_headers
        may_be_encoded = _is_encoded(fields) or (not fields and _COMPRESSIBLE.search(mime))
        if saved < whole and (saved or not may_be_encoded):
            notes.add("body_content")
            return whole - saved
        notes.add("body_ratio")
        return max(1, whole // _COMPRESSED_SHARE)
    if entry.text is not None and entry.text.length:
        notes.add("body_content")
        return entry.text.length
    if whole is None:
        notes.add("body_zero")
    return 0


def _is_encoded(got: Pairs) -> bool:
    codings = (coerce.header(got, "content-encoding") or "").lower().split(",")
    return not _COMPRESSED.isdisjoint(coding.strip() for coding in codings)
