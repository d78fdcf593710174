"""One request and its response as they crossed the wire, of which no times are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fastopen.pages import url as urls
from fastopen.pages.bodies import StoredBody
from fastopen.pages.importers import fields, kinds
from fastopen.pages.importers.archive_notes import ArchiveNotes
from fastopen.pages.importers.caching import UNKNOWN_FRESHNESS, Freshness, freshness_of
from fastopen.pages.importers.har.sizes import MAX_HEADER_BYTES, TYPICAL_REQUEST, TYPICAL_RESPONSE
from fastopen.pages.importers.unpack import is_coded, unpacked
from fastopen.pages.model import MAX_BYTES, HttpVersion, ResourceType, body_is_empty

Headers = Sequence[tuple[str, str]]
_METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
# What tells whether a body is coded.
_BEGINNING_BYTES = 4096


@dataclass(frozen=True, eq=False)
class Exchange:
    """Sizes in bytes as on the wire. `recorded` is the body of that size, None where only its size is known.

    `text` is the body unpacked, where it is kept otherwise than `recorded`.
    """

    url: str
    type: ResourceType
    method: str = "GET"
    status: int = 200
    mime: str = "application/octet-stream"
    charset: str | None = None
    coding: str = ""
    request_header_bytes: int = TYPICAL_REQUEST
    request_body_bytes: int = 0
    response_header_bytes: int = TYPICAL_RESPONSE
    body_bytes: int = 0
    recorded: StoredBody | None = None
    referer: str | None = None
    location: str | None = None
    freshness: Freshness = UNKNOWN_FRESHNESS
    # Whether the browser said that it asked because a person went there.
    navigated: bool = False
    text: StoredBody | None = field(default=None, repr=False)
    http: HttpVersion | None = None
    """The version that carried it; None: not known."""
    fields: Headers = ()
    """The recorded header fields of the response; none: they were not recorded."""

    def head(self) -> bytes:
        """The head of the response as HTTP/1.1 writes it; if none was recorded, what its body needs."""
        written = [*self.fields] or [("Content-Type", self.mime), ("Content-Encoding", self.coding)]
        if not self.fields and self.location is not None:
            written.append(("Location", self.location))
        lines = [f"{name}: {' '.join(value.splitlines())}" for name, value in written if value]
        return "\r\n".join([f"HTTP/1.1 {self.status}", *lines, "", ""]).encode("utf-8", "surrogateescape")

    def unpacked(self) -> bytes | None:
        """The body as programs see it; None where it is not kept or cannot be unpacked."""
        if self.text is not None:
            return self.text.read()
        return unpacked(self.recorded.read(), self.coding) if self.recorded is not None else None


def http_exchange(
    raw_url: str,
    method: str,
    status: int,
    sent: Headers,
    got: Headers,
    body: StoredBody | None,
    notes: ArchiveNotes,
    *,
    request_header_bytes: int | None = None,
    request_body_bytes: int = 0,
    response_header_bytes: int | None = None,
    lost_body_bytes: int | None = None,
    http: HttpVersion | None = None,
) -> Exchange | None:
    """An exchange out of what HTTP said, or None where it is no part of a page (counted in `notes`).

    `body` is as on the wire without chunks' frames; `lost_body_bytes` is its length where it was not kept.
    """
    url = urls.cleaned(raw_url)
    method = method.upper()
    if url is None or method not in _METHODS:
        notes.add("scheme")
        return None
    if not 200 <= status <= 599:
        notes.add("failed")
        return None
    listed_sent, listed_got = _listed(sent), _listed(got)
    raw = {"request": {"headers": listed_sent}}
    mime = kinds.mime_of({"headers": listed_got})
    lower_sent, lower_got = fields.headers(listed_sent), fields.headers(listed_got)
    redirects = 300 <= status < 400 and status != 304
    location = fields.header(lower_got, "location") if redirects else None
    referer = fields.header(lower_sent, "referer")
    if body_is_empty(method, status):
        body, lost_body_bytes = None, None
    size = body.length if body is not None else lost_body_bytes or 0
    coding = fields.header(lower_got, "content-encoding") or ""
    if body is not None and coding and not is_coded(body.read(_BEGINNING_BYTES), coding):
        coding, got = "", [(name, value) for name, value in got if name.lower() != "content-encoding"]
    return Exchange(
        url=url,
        type=kinds.type_of(raw, url, mime),
        method=method,
        status=status,
        mime=mime,
        charset=fields.charset(mime),
        coding=coding,
        request_header_bytes=_at_most(request_header_bytes or TYPICAL_REQUEST),
        request_body_bytes=min(request_body_bytes, MAX_BYTES),
        response_header_bytes=_at_most(response_header_bytes or TYPICAL_RESPONSE),
        body_bytes=min(size, MAX_BYTES),
        recorded=body,
        referer=urls.cleaned(referer) if referer else None,
        location=urls.cleaned(location, base=url) if location else None,
        freshness=freshness_of(method, status, lower_got, None),
        http=http,
        fields=tuple(got),
        navigated=(fields.header(lower_sent, "sec-fetch-dest") or "").strip().lower() == "document",
    )


def head_bytes(first_line: str, headers: Headers) -> int:
    """Bytes of a head as HTTP/1.1 text: first line, fields and the blank line."""
    written = sum(len(f"{name}: {value}\r\n".encode("utf-8", "replace")) for name, value in headers)
    return len(first_line.encode("utf-8", "replace")) + 2 + written + 2


def _listed(headers: Headers) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers]


def _at_most(size: int) -> int:
    return min(size, MAX_HEADER_BYTES)
