"""Find the sizes in bytes of a recorded request and its response, as HTTP/1.1 would send them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastopen.pages import url as urls
from fastopen.pages.bodies import StoredBody
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import MAX_HEADER_BYTES, TYPICAL_REQUEST, TYPICAL_RESPONSE
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import body_is_empty

_COMPRESSED: Final = ("gzip", "br", "deflate", "zstd", "compress", "x-gzip")
_COMPRESSIBLE: Final = re.compile(r"^text/|javascript|json|xml")
# gzip and brotli compress text to about a third (the HTTP Archive's Web Almanac 2022, chapter
# Compression, has medians of 70 to 75 % saved for HTML, CSS and scripts; JSON and small files save less).
_COMPRESSED_SHARE: Final = 3


@dataclass(frozen=True)
class Sizes:
    """Sizes of one entry in bytes, with headers as HTTP/1.1 text."""

    request_header: int
    request_body: int
    response_header: int
    body: int


def is_written_out(entry: Mapping[str, Any]) -> bool:
    """Return True if an entry used HTTP/2 or later, so that the recorded sizes are of compressed headers."""
    request, response = (
        coerce.mapping(entry.get("request")),
        coerce.mapping(entry.get("response")),
    )
    versions = (entry.get("_protocol"), request.get("httpVersion"), response.get("httpVersion"))
    if any(_is_binary(coerce.text(version)) for version in versions):
        return True
    return any(coerce.has_pseudo_headers(side.get("headers")) for side in (request, response))


def _is_binary(version: str) -> bool:
    name = version.lower().strip()
    return name.startswith(("h2", "h3", "http/2", "http/3", "spdy", "quic", "http2", "hq"))


def sizes_of(entry: Mapping[str, Any], url: str, method: str, status: int, notes: Notes) -> Sizes:
    """Return the sizes of an entry. `notes` counts guessed sizes, response bodies sized from Content-Length,
    and HTTP/2 and HTTP/3 headers measured as HTTP/1.1 text."""
    request, response = (
        coerce.mapping(entry.get("request")),
        coerce.mapping(entry.get("response")),
    )
    sent, got = (
        coerce.headers(request.get("headers")),
        coerce.headers(response.get("headers")),
    )
    binary = is_written_out(entry)
    request_header = _request_header(request, sent, method, url, binary, notes)
    response_header = _response_header(response, got, status, binary, notes)
    return Sizes(
        request_header=request_header,
        request_body=_request_body(request, sent, method),
        response_header=response_header,
        body=_body(entry, response, got, method, status, notes),
    )


def _request_header(
    request: Mapping[str, Any], sent: Pairs, method: str, url: str, binary: bool, notes: Notes
) -> int:
    line = len(f"{method} {urls.target_of(url)} HTTP/1.1\r\n")
    host = 0 if coerce.header(sent, "host") is not None else len(f"host: {urls.host_of(url)}\r\n")
    written = line + host + _written(sent) + 2
    least = line + len(f"host: {urls.host_of(url)}\r\n") + 2
    return max(least, _header(request, sent, written, TYPICAL_REQUEST, binary, notes, "request_headers"))


def _response_header(response: Mapping[str, Any], got: Pairs, status: int, binary: bool, notes: Notes) -> int:
    reason = HTTPStatus(status).phrase if status in _STATUSES else coerce.text(response.get("statusText"))
    line = len(f"HTTP/1.1 {status} {reason}\r\n")
    written = line + _written(got) + 2
    return max(line + 2, _header(response, got, written, TYPICAL_RESPONSE, binary, notes, "response_headers"))


_STATUSES: Final = frozenset(status.value for status in HTTPStatus)


def _header(
    side: Mapping[str, Any],
    listed: Pairs,
    written: int,
    typical: int,
    binary: bool,
    notes: Notes,
    subject: str,
) -> int:
    """Return the size of headers as HTTP/1.1 text: `written` if they are listed, and are `binary` or have no
    plausible recorded size; otherwise the plausible recorded size; otherwise `typical`."""
    recorded = coerce.size(side.get("headersSize"))
    # Old versions of Chrome write the size of only a status line if they did not see the headers.
    least = written // 2 if listed else written + 8
    if recorded is not None and not least <= recorded <= MAX_HEADER_BYTES:
        recorded = None
    if listed and (binary or recorded is None):
        if binary:
            notes.add("written_out")
        return min(written, MAX_HEADER_BYTES)
    if recorded is not None:
        return recorded
    notes.add(subject)
    return typical


def _written(listed: Pairs) -> int:
    return sum(len(name) + len(value.encode("utf-8", "replace")) + 4 for name, value in listed)


def _request_body(request: Mapping[str, Any], sent: Pairs, method: str) -> int:
    """Return the size of the request's body: the recorded size, or else Content-Length, or else the size of
    the recorded text or form fields. 0 for GET and HEAD without recorded data."""
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
        return len(coerce.text(data.get("text")).encode("utf-8", "replace"))
    params = data.get("params")
    pairs = [coerce.mapping(p) for p in params] if isinstance(params, list) else []
    return sum(
        len(coerce.text(p.get("name")).encode("utf-8", "replace"))
        + len(coerce.text(p.get("value")).encode("utf-8", "replace"))
        + 2
        for p in pairs
    )


def _body(
    entry: Mapping[str, Any], response: Mapping[str, Any], got: Pairs, method: str, status: int, notes: Notes
) -> int:
    """Return the size of the response's body as sent: the recorded size, or instead a slightly smaller
    Content-Length or size of unencoded content. If no size was recorded, estimate the size."""
    if body_is_empty(method, status):
        return 0
    content = coerce.mapping(response.get("content"))
    length = coerce.size(coerce.header(got, "content-length"))
    recorded = _recorded_body(entry, response, content)
    if recorded is not None:
        # Chrome's size includes the compressed headers of HTTP/2. Chunked bodies have no Content-Length.
        if length is not None and length < recorded <= length + 4096:
            return length
        whole = coerce.size(content.get("size"))
        if whole and not _is_encoded(got) and whole < recorded <= whole + 4096:
            return whole
        return recorded
    return _guessed_body(entry, content, got, length, notes)


def _recorded_body(
    entry: Mapping[str, Any], response: Mapping[str, Any], content: Mapping[str, Any]
) -> int | None:
    """Return bodySize or else WebPageTest's object size; None if unknown, or 0 although there is content."""
    for value in (response.get("bodySize"), entry.get("_objectSize")):
        found = coerce.size(value)
        empty = not coerce.size(content.get("size")) and not content.get("text")
        if found or (found == 0 and empty):
            return found
    return None


def _guessed_body(
    entry: Mapping[str, Any], content: Mapping[str, Any], got: Pairs, length: int | None, notes: Notes
) -> int:
    if length is not None:
        notes.add("body_length")
        return length
    response = coerce.mapping(entry.get("response"))
    whole = coerce.size(content.get("size"))
    for value in (response.get("_transferSize"), entry.get("_transferSize"), entry.get("_bytesIn")):
        transferred = coerce.size(value)
        if transferred:
            head = coerce.size(response.get("headersSize")) or _written(got) + 17
            notes.add("body_transfer")
            return max(0, transferred - head)
    if whole:
        # Old versions of Chrome write a saving larger than the content if they do not know the saving.
        saved = coerce.size(content.get("compression")) or 0
        if saved > whole:
            saved = 0
        if saved < whole and (saved or not _may_be_encoded(got, content)):
            notes.add("body_content")
            return whole - saved
        notes.add("body_ratio")
        return max(1, whole // _COMPRESSED_SHARE)
    kept = content.get("text")
    if isinstance(kept, StoredBody) and kept.length:
        notes.add("body_content")
        return kept.length
    if whole is None:
        notes.add("body_zero")
    return 0


def _may_be_encoded(got: Pairs, content: Mapping[str, Any]) -> bool:
    """Return True if the body may be compressed. Without recorded headers, this is assumed for text."""
    mime = coerce.text(content.get("mimeType"))
    return _is_encoded(got) or (not got and bool(_COMPRESSIBLE.search(mime)))


def _is_encoded(got: Pairs) -> bool:
    return (coerce.header(got, "content-encoding") or "").strip().lower() in _COMPRESSED
