"""Build exchanges (requests with their responses) from the HTTP messages that archives contain."""

import io
from typing import Final

from warcio.bufferedreaders import ChunkedDataReader

from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.bodies import StoredBody
from fastopen.pages.importers import coerce, kinds
from fastopen.pages.importers.caching import freshness_of
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import (
    MAX_HEADER_BYTES,
    TYPICAL_REQUEST,
    TYPICAL_RESPONSE,
    Exchange,
    head_of,
    is_redirect,
)
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.unpack import is_coded, packed
from fastopen.pages.model import MAX_BYTES, HttpVersion, body_is_empty

_METHODS: Final = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
# Crawlers request this path from each host first (RFC 9309), but browsers never do.
_RULES_FOR_CRAWLERS: Final = "/robots.txt"
# Number of bytes that are enough to detect if a body has a content coding.
_BEGINNING_BYTES: Final = 4096
# Browsertrix and ArchiveWeb.page rename Content-Encoding to this name, because they store decoded bodies.
_RENAMED_CODING: Final = "x-orig-content-encoding"


def http_exchange(
    raw_url: str,
    method: str,
    status: int,
    sent: Pairs,
    got: Pairs,
    body: StoredBody | None,
    notes: Notes,
    *,
    request_header_bytes: int | None = None,
    request_body_bytes: int = 0,
    response_header_bytes: int | None = None,
    lost_body_bytes: int | None = None,
    http: HttpVersion | None = None,
) -> Exchange | None:
    """Return a recorded HTTP request and its response as an Exchange. For a request that cannot be part of a
    page, such as one for robots.txt, count the reason in `notes` and return None. `sent` and `got` are the
    headers of request and response. `body` is the response's body without chunked framing. If the recording
    lacks the body, `lost_body_bytes` is its length. If a header's size is None, a typical size is assumed."""
    url = urls.cleaned(raw_url)
    method = method.upper()
    if url is None or method not in _METHODS:
        notes.add("no_http")
        return None
    if urls.target_of(url) == _RULES_FOR_CRAWLERS:
        notes.add("robots")
        return None
    if not 200 <= status <= 599:
        notes.add("unanswered")
        return None
    lower_sent, lower_got = coerce.lowered(sent), coerce.lowered(got)
    mime = kinds.mime_of("", lower_got)
    if kinds.is_event_stream(mime):
        notes.add("event_stream")
        return None
    of_type = kinds.type_of(url, mime, lower_sent)
    location = coerce.header(lower_got, "location") if is_redirect(status) else None
    referer = coerce.header(lower_sent, "referer")
    if body_is_empty(method, status):
        body, lost_body_bytes = None, None
    coding = coerce.header(lower_got, "content-encoding") or ""
    # Browsers pass decoded bodies to archivers. Some archivers keep the field, others rename it.
    sent_as = coding or coerce.header(lower_got, _RENAMED_CODING) or ""
    text = None
    if body is not None and sent_as and not is_coded(body.read(_BEGINNING_BYTES), sent_as):
        text, body, coding = body, body.store.add(packed(body.read())), "gzip"
        others = [pair for pair in got if pair[0].lower() not in ("content-encoding", _RENAMED_CODING)]
        got = [*others, ("Content-Encoding", coding)]
    size = body.length if body is not None else lost_body_bytes or 0
    return Exchange(
        url=url,
        type=of_type,
        method=method,
        status=status,
        mime=mime,
        coding=coding,
        request_header_bytes=min(request_header_bytes or TYPICAL_REQUEST, MAX_HEADER_BYTES),
        request_body_bytes=min(request_body_bytes, MAX_BYTES),
        response_header_bytes=min(response_header_bytes or TYPICAL_RESPONSE, MAX_HEADER_BYTES),
        body_bytes=min(size, MAX_BYTES),
        recorded=body,
        text=text,
        head=head_of(status, [*got] or [("Content-Type", mime)]),
        referer=urls.cleaned(referer) if referer else None,
        location=urls.cleaned(location, base=url) if location else None,
        freshness=freshness_of(method, status, lower_got, None),
        http=http,
        navigated=kinds.destination_of(lower_sent) == "document" and not kinds.is_fetched_ahead(lower_sent),
        delays_load_event=kinds.delays_load_event(of_type, method, lower_sent),
        notes=Notes(repacked=int(text is not None)),
    )


def head_bytes(first_line: str, headers: Pairs) -> int:
    """Return the size in bytes of the head of a message as HTTP/1.1 text: first line, fields, blank line."""
    written = sum(len(f"{name}: {value}\r\n".encode("utf-8", "replace")) for name, value in headers)
    return len(first_line.encode("utf-8", "replace")) + 2 + written + 2


def without_chunks(body: bytes) -> bytes:
    """Remove chunked framing (RFC 9112 section 7.1) from a body. Return a body without framing unchanged."""
    # Each chunk takes some microseconds, and has at least one line end.
    budget.work(body.count(b"\n"))
    return bytes(ChunkedDataReader(io.BytesIO(body)).read())
