"""Build exchanges (requests with their responses) from the HTTP messages that archives contain.

Decode the content codings of bodies, so that their texts can be searched."""

import re
import zlib
from collections.abc import Callable
from typing import Final

import brotli
import zstandard

from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.importers import coerce, kinds
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import (
    MAX_HEADER_BYTES,
    TYPICAL_REQUEST,
    TYPICAL_RESPONSE,
    Exchange,
    freshness_of,
    head_of,
    is_redirect,
)
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import MAX_BYTES, HttpVersion, body_is_empty
from fastopen.pages.recording import StoredBody

# Maximum number of bytes to which a body is decoded, because a small body may decode to any size.
MAX_TEXT_BYTES: Final = 16 * 2**20
_DAMAGE: Final = (zlib.error, brotli.error, zstandard.ZstdError)
_METHODS: Final = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
# Crawlers request this path from each host first (RFC 9309), but browsers never do.
_RULES_FOR_CRAWLERS: Final = "/robots.txt"
# Number of bytes that are enough to detect if a body has a content coding.
_BEGINNING_BYTES: Final = 4096
# The line before the content of a chunk: its size in hexadecimal, and extensions.
_CHUNK: Final = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
# Browsertrix, ArchiveWeb.page and Common Crawl store decoded bodies, and rename Content-Encoding.
_RENAMED_CODINGS: Final = ("x-orig-content-encoding", "x-crawler-content-encoding")


def unpacked(body: bytes, codings: str) -> bytes | None:
    """Decode a body that has the Content-Encoding `codings`, such as `gzip`. Return None if this fails. If
    the body was cut short, return the part before the cut. If it is text that is not encoded, return it
    unchanged: some archivers decode bodies but keep the header, and browsers ignore unknown codings."""
    for coding in reversed([name.strip().lower() for name in codings.split(",") if name.strip()]):
        if coding == "identity":
            continue
        try:
            body = _DECODERS[coding](body)
        except (KeyError, *_DAMAGE):
            # Markup and scripts have no bytes below 9 (tab). Most encoded bodies have some near the start.
            return body if body and all(byte >= 9 for byte in body[:512]) else None
        budget.spend(len(body))
    return body


def is_coded(body: bytes, codings: str) -> bool:
    """Return True if a body that begins with `body` really has the content coding that its Content-Encoding
    names, and False if the archiver has decoded it. Return True for codings that fastopen cannot decode."""
    decode = _DECODERS.get(codings.rpartition(",")[2].strip().lower())
    if decode is None or not body:
        return decode is None
    try:
        decode(body)
    except _DAMAGE:
        return False
    return True


def packed(body: bytes) -> bytes:
    """Compress a body with gzip, as servers do, at zlib's default level 6."""
    packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(body) + packer.flush()


def _gzip(body: bytes) -> bytes:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, MAX_TEXT_BYTES)


def _deflate(body: bytes) -> bytes:
    """Decode deflate with zlib's header, as RFC 9110 requires, or without it, as some servers send it."""
    try:
        return _gzip(body)
    except zlib.error:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(body, MAX_TEXT_BYTES)


_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    **dict.fromkeys(("gzip", "x-gzip"), _gzip),
    "deflate": _deflate,
    "br": lambda body: bytes(brotli.Decompressor().process(body, output_buffer_limit=MAX_TEXT_BYTES)),
    "zstd": lambda body: zstandard.ZstdDecompressor().stream_reader(body).read(MAX_TEXT_BYTES),
}


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
    cut: bool = False,
    recorded: str = "",
    page: str = "",
    http: HttpVersion | None = None,
) -> Exchange | None:
    """Return a recorded HTTP request and its response as an Exchange. For a request that cannot be part of a
    page, such as one for robots.txt, count the reason in `notes` and return None. `sent` and `got` are the
    headers of request and response. `body` is the response's body without chunked framing, and `cut` is True
    if its end is missing. If the recording lacks the body, `lost_body_bytes` is its length. If a header's
    size is None, a typical size is assumed. `recorded` is the recorder's name for the resource type, and
    `page` its ID of the page, if known."""
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
    named = recorded.lower() if recorded.lower() in kinds.RECORDED else None
    if kinds.is_event_stream(mime, named):
        notes.add("event_stream")
        return None
    of_type = kinds.type_of(url, mime, lower_sent, named)
    location = coerce.header(lower_got, "location") if is_redirect(status) else None
    referer = coerce.header(lower_sent, "referer")
    if body_is_empty(method, status):
        body, lost_body_bytes = None, None
    coding = coerce.header(lower_got, "content-encoding") or ""
    # Browsers pass decoded bodies to archivers. Some archivers keep Content-Encoding, others rename it.
    renamed = (coerce.header(lower_got, name) for name in _RENAMED_CODINGS)
    sent_as = coding or next(filter(None, renamed), "")
    text = None
    if body is not None and sent_as and not is_coded(body.read(_BEGINNING_BYTES), sent_as):
        text, body, coding = body, body.store.add(packed(body.read())), "gzip"
        others = [pair for pair in got if pair[0].lower() not in ("content-encoding", *_RENAMED_CODINGS)]
        got = [*others, ("Content-Encoding", coding)]
    declared = coerce.size(coerce.header(lower_got, "content-length")) or 0
    if body is not None and text is None and (cut or body.length < declared):
        notes.add("short")
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
        delays_load_event=kinds.delays_load_event(of_type, method, lower_sent, named),
        page=page,
        notes=Notes(repacked=int(text is not None)),
    )


def head_bytes(first_line: str, headers: Pairs) -> int:
    """Return the size in bytes of the head of a message as HTTP/1.1 text: first line, fields, blank line."""
    written = sum(len(f"{name}: {value}\r\n".encode("utf-8", "replace")) for name, value in headers)
    return len(first_line.encode("utf-8", "replace")) + 2 + written + 2


def without_chunks(body: bytes) -> tuple[bytes, bool]:
    """Remove chunked framing (RFC 9112 section 7.1) from a body. Return the content, and False if the last
    chunk is missing. Return a body without framing unchanged."""
    parts, at = [], 0
    while (chunk := _CHUNK.match(body, at)) and (size := int(chunk[1], 16)):
        budget.work()
        start, end = chunk.end(), chunk.end() + size
        if end < len(body) and not body.startswith(b"\r\n", end):
            chunk = None  # a text that only begins like a chunk
            break
        parts.append(body[start:end])
        at = end + 2
    parts.append(b"" if chunk else body[at:])
    return b"".join(parts), chunk is not None or at == 0
