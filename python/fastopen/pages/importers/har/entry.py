"""One entry of a HAR, read whatever its maker's habits: what was asked, when, how large, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastopen.common.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.bodies import StoredBody
from fastopen.pages.importers import fields, kinds
from fastopen.pages.importers.caching import UNKNOWN_FRESHNESS, Freshness, freshness_of
from fastopen.pages.importers.har import sizes
from fastopen.pages.importers.har.writers import UNKNOWN, Writer
from fastopen.pages.importers.har_notes import HarNotes
from fastopen.pages.model import ResourceType, body_is_empty

_METHODS: Final = frozenset(
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND", "REPORT"]
)


@dataclass(eq=False)
class Entry:
    """A request that crossed the network. Times are ms since 1970.

    `start` is when the browser asked for it: waiting for a connection, name and handshake come after it.
    """

    order: int
    raw: Mapping[str, Any]
    url: str
    method: str
    status: int
    type: ResourceType
    mime: str
    start: float
    sent: float
    first_byte: float
    end: float
    connect_ms: float | None
    wait_ms: float | None
    sizes: sizes.Sizes
    referer: str | None
    location: str | None
    body: StoredBody | None
    freshness: Freshness = UNKNOWN_FRESHNESS
    # The body as programs saw it.
    content: StoredBody | None = field(default=None, repr=False)
    pushed: bool = False
    # Whether an element or a frame asked for it.
    delays_load_event: bool = True
    # The entry whose answer sent the browser here: a redirect, or the preflight that allowed the request.
    before: Entry | None = field(default=None, repr=False)
    # Whose record of the initiator holds: a preflight has that of the request it is for.
    asked_like: Entry | None = field(default=None, repr=False)
    # What was guessed of it: counts only if the entry is kept.
    notes: HarNotes = field(default_factory=HarNotes, repr=False)

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400 and self.status != 304

    def move(self, by_ms: float) -> None:
        """Moves all times of the entry."""
        self.start, self.sent = self.start + by_ms, self.sent + by_ms
        self.first_byte, self.end = self.first_byte + by_ms, self.end + by_ms

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS"


# When an entry started, was sent, answered and ended: ms since 1970.
Span = tuple[float, float, float, float]


def read_entry(
    raw: object,
    order: int,
    place: str,
    page_start: float | None,
    previous: float | None,
    notes: HarNotes,
    writer: Writer = UNKNOWN,
) -> Entry | None:
    """The entry, or None if it did not cross the network (counted in `notes`). InputError where it is broken.

    `place` names the entry for errors; `page_start` is when its page started, `previous` when the
    last entry did.
    """
    if not isinstance(raw, dict):
        raise InputError("not an object", place)
    request, response = _parts(raw, place)
    raw_url = request["url"]
    reason = _not_on_the_network(raw_url)
    if reason is not None:
        notes.add(reason)
        return None
    status = int(fields.number(response.get("status")) or 0)
    method = fields.text(request.get("method")).strip().upper()
    if method not in _METHODS:
        method = "GET"
    if status == 101 or fields.text(raw.get("_resourceType")).lower() == "websocket":
        notes.add("websocket")
        return None
    if not 200 <= status <= 599 or method == "CONNECT":
        notes.add("failed")
        return None
    if kinds.is_event_stream(raw):
        notes.add("event_stream")
        return None
    if kinds.is_certificate_check(raw):
        notes.add("certificate")
        return None
    url = urls.cleaned(raw_url)
    if url is None:
        raise InputError(f"{raw_url[:80]!r} is not a URL that can be asked for", f"{place}.request.url")
    return _entry(raw, order, url, method, status, page_start, previous, writer)


def _parts(raw: dict[str, Any], place: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    request = raw.get("request")
    if not isinstance(request, dict):
        raise InputError("missing" if request is None else "not an object", f"{place}.request")
    url = request.get("url")
    if not isinstance(url, str) or not url.strip():
        raise InputError("missing" if url is None else "not a URL", f"{place}.request.url")
    response = raw.get("response")
    if not isinstance(response, dict):
        raise InputError("missing" if response is None else "not an object", f"{place}.response")
    return request, response


def _not_on_the_network(url: str) -> str | None:
    scheme = urls.scheme_of(url)
    if scheme in ("ws", "wss"):
        return "websocket"
    if scheme and scheme not in urls.DEFAULT_PORTS:
        return "scheme"
    return None


def _entry(
    raw: dict[str, Any],
    order: int,
    url: str,
    method: str,
    status: int,
    page_start: float | None,
    previous: float | None,
    writer: Writer,
) -> Entry:
    notes = HarNotes()
    request, response = raw["request"], raw["response"]
    timings = fields.mapping(raw.get("timings"))
    start, sent, first_byte, end = _span(raw, timings, page_start, previous, notes, writer)
    mime = kinds.mime_of(response)
    text = fields.mapping(response.get("content")).get("text")
    kept = text if isinstance(text, StoredBody) else None
    found = sizes.sizes_of(raw, url, method, status, notes)
    if found.body <= 1:
        # What a body whose first byte is its last took to receive is the browser's, before what follows.
        end = first_byte
    of_type = kinds.type_of(raw, url, mime)
    location = fields.text(response.get("redirectURL")) or fields.header(
        fields.headers(response.get("headers")), "location"
    )
    redirects = 300 <= status < 400 and status != 304
    referer = fields.header(fields.headers(request.get("headers")), "referer")
    return Entry(
        order=order,
        raw=raw,
        url=url,
        method=method,
        status=status,
        type=of_type,
        mime=mime,
        start=start,
        sent=sent,
        first_byte=first_byte,
        end=end,
        connect_ms=_connect(raw, timings, url, writer),
        wait_ms=fields.milliseconds(timings.get("wait")),
        sizes=found,
        referer=urls.cleaned(referer) if referer else None,
        location=urls.cleaned(location, base=url) if location and redirects else None,
        freshness=freshness_of(method, status, fields.headers(response.get("headers")), end),
        body=None if body_is_empty(method, status) else _recorded_body(kept, mime, found.body),
        content=kept,
        notes=notes,
        pushed=bool(fields.number(raw.get("_was_pushed"))),
        delays_load_event=kinds.delays_load_event(raw, of_type),
    )


def _span(
    raw: Mapping[str, Any],
    timings: Mapping[str, Any],
    page_start: float | None,
    previous: float | None,
    notes: HarNotes,
    writer: Writer,
) -> Span:
    tested = _webpagetest_span(raw, page_start)
    if tested is not None:
        return tested
    start = fields.moment_ms(raw.get("startedDateTime"))
    if start is None:
        notes.add("started")
        start = previous if previous is not None else page_start or 0.0
    spent = _spent(timings)
    if not spent:
        notes.add("timings")
    lasted = 0.0 if writer.tls_counted_twice else fields.milliseconds(raw.get("time")) or 0.0
    end = start + max(spent, lasted)
    first_byte = end - (fields.milliseconds(timings.get("receive")) or 0.0)
    sent = first_byte - (fields.milliseconds(timings.get("wait")) or 0.0)
    # chrome-har writes when the request left the browser's own queue; the browser asked for it before.
    asked = start - (fields.milliseconds(timings.get("_queued")) or 0.0)
    return asked, sent, first_byte, end


def _spent(timings: Mapping[str, Any]) -> float:
    """The parts of an entry's time together, in ms; ssl is a part of connect."""
    names = ("blocked", "dns", "connect", "send", "wait", "receive")
    return sum(fields.milliseconds(timings.get(name)) or 0.0 for name in names)


def _webpagetest_span(raw: Mapping[str, Any], page_start: float | None) -> Span | None:
    """WebPageTest's startedDateTime is when the request was sent; what came before has fields of its own.

    All are ms since the page started. `_created` is when the browser asked, in recordings since about 2019;
    before, name lookup and handshake tell it, where they ended when the request was sent (else they belonged
    to a connection that was opened ahead of time). 0 and -1 mean: did not happen.
    """
    sent, waited = fields.milliseconds(raw.get("_load_start")), fields.milliseconds(raw.get("_ttfb_ms"))
    if page_start is None or sent is None or waited is None:
        return None
    lasted = fields.milliseconds(raw.get("_load_ms"))
    asked = fields.milliseconds(raw.get("_created"))
    if not asked or asked > sent:
        asked = sent
        for name in ("ssl", "connect", "dns"):
            started, ended = (fields.milliseconds(raw.get(f"_{name}_{edge}")) for edge in ("start", "end"))
            if started and ended and started <= ended <= asked <= ended + 5:
                asked = started
    end = sent + max(lasted if lasted is not None else waited, waited)
    return page_start + asked, page_start + sent, page_start + sent + waited, page_start + end


def _connect(raw: Mapping[str, Any], timings: Mapping[str, Any], url: str, writer: Writer) -> float | None:
    """The TCP handshake in ms: one RTT. HAR 1.2 counts TLS into connect, and gives it as ssl too.

    Firefox does not: its entries last as long as all parts together, ssl included.

    0 means a connection of before. An https connection whose TLS was not written down spent at least one more
    RTT on it, so that half of it bounds the RTT from above.
    """
    connect, tls = fields.milliseconds(timings.get("connect")), fields.milliseconds(timings.get("ssl")) or 0.0
    if not connect:
        return None
    lasted = fields.milliseconds(raw.get("time")) or 0.0
    if tls and not writer.tls_counted_twice and lasted >= _spent(timings) + tls - 1:
        return connect
    if tls and tls < connect:
        return connect - tls
    return connect / 2 if url.startswith("https:") else connect


def _recorded_body(content: StoredBody | None, mime: str, body_bytes: int) -> StoredBody | None:
    """The recorded content if it is as long as the body on the wire, so that it can be served as it is.

    Recorders write texts as Unicode: they may have been in another charset on the wire.
    """
    if content is None or not body_bytes:
        return None
    if content.length == body_bytes:
        return content
    charset = fields.charset(mime)
    if charset is None or not body_bytes <= content.length <= 3 * body_bytes:
        return None
    try:
        body = content.read().decode().encode(charset)
    except (UnicodeError, ValueError):
        return None
    return content.store.add(body) if len(body) == body_bytes else None


def is_cached(entry: Entry, timed: bool) -> bool:
    """Whether the recorder's cache answered. `timed`: other entries of the file have times on the network.

    Chrome says so (`_fromCache`) or writes a transfer of no bytes with a content of some; its oldest versions
    write neither a time for sending nor one for waiting. Safari says so (`_fetchType`). Firefox writes
    times of 0 and no transferred size, or the stored size, headers of 0 bytes and no server address.
    """
    raw = entry.raw
    response, timings = fields.mapping(raw.get("response")), fields.mapping(raw.get("timings"))
    if raw.get("_fromCache") or response.get("_fromCache") or raw.get("fromCache") is True:
        return True
    if "cache" in fields.text(raw.get("_fetchType")).lower():
        return True
    if timed and _took_no_time(raw, timings) and not raw.get("serverIPAddress"):
        return True
    body = fields.number(response.get("bodySize"))
    content = fields.size(fields.mapping(response.get("content")).get("size"))
    if body is not None and body > 0:
        return False
    if content and fields.number(response.get("_transferSize")) == 0:
        return True
    if entry.connect_ms or not timed:
        return False
    wait, send = fields.number(timings.get("wait")), fields.number(timings.get("send"))
    if (wait is None or wait < 0) and (send is None or send < 0):
        return True
    return bool(content) and entry.end <= entry.start


def _took_no_time(raw: Mapping[str, Any], timings: Mapping[str, Any]) -> bool:
    """Return True if all that is written of times and headers is 0, and something is."""
    headers = [
        fields.number(fields.mapping(raw.get(side)).get("headersSize")) for side in ("request", "response")
    ]
    written = [fields.number(value) for value in (raw.get("time"), *timings.values())]
    return headers == [0, 0] and bool(timings) and all(value == 0 for value in written)
