"""Convert an entry of a HAR into an exchange, even if the HAR deviates from HAR 1.2 in a known way."""

import re
from collections.abc import Iterator, Mapping
from http import HTTPMethod
from typing import Any, Final, NamedTuple

from fastopen.common.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.importers import coerce, kinds
from fastopen.pages.importers.exchange import Exchange, HarPage, Times, freshness_of, is_redirect
from fastopen.pages.importers.har.parts import HarEntry, sizes_of
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import body_is_empty
from fastopen.pages.recording import StoredBody

_METHODS: Final = frozenset([*HTTPMethod, "PROPFIND", "REPORT"])
# MIME types of certificate checks (RFC 6960 appendix C, RFC 2585 section 4, RFC 5280).
_CERTIFICATE_CHECKS: Final = frozenset([
    "application/ocsp-request", "application/ocsp-response", "application/pkix-crl",
    "application/x-pkcs7-crl", "application/pkix-cert", "application/x-x509-ca-cert",
])  # fmt: skip
# Chrome's types of requests that open connections for scripts.
_SOCKETS: Final = frozenset(["websocket", "webtransport", "directsocket"])
_MAX_STACK: Final = 200
_Timings = Mapping[str, float | None]
# URLs with a host that browsers accept, even if neither DNS nor TLS accepts it, such as `-a.test`.
_NAMED_HOST: Final = re.compile(r"\s*https?://[\w.-]+([:/?#]|\s*\Z)", re.IGNORECASE)


class Writer(NamedTuple):
    """The ways in which a program that writes HARs is known to deviate from the HAR 1.2 specification."""

    tls_counted_twice: bool = False
    """True if an entry's `time` contains the TLS handshake twice: as `ssl`, and as a part of `connect`."""
    queue_counted_twice: bool = False
    """True if `send` includes `blocked` on a reused connection, so that only the total `time` is reliable."""
    load_event_of_inspector: bool = False
    """True if `onLoad` counts from the start of the recording instead of the start of the page."""
    is_proxy: bool = False
    """True if an entry starts when a proxy gets the request. By then, the proxy has connected to the server
    if the scheme is https, and else `wait` includes `connect`."""


# The deviations of known programs, by the beginning of `creator.name` in lower case, and their source files.
WRITERS: Final = {
    "playwright": Writer(tls_counted_twice=True),  # harTracer.ts, all versions up to 1.57
    # HARBuilder.js, TimelineManager.js
    "webkit web inspector": Writer(queue_counted_twice=True, load_event_of_inspector=True),
    "mitmproxy": Writer(is_proxy=True),  # savehar.py, har_dump.py
}


def read_entry(raw: object, order: int, place: str, page: HarPage, writer: Writer) -> Exchange | None:
    """Convert the HAR entry `raw`, a request and its response, into the next exchange of `page`. If the
    request cannot be replayed, for example because it opens a WebSocket, count the reason in the page's notes
    and return None. `order` is the entry's index in the HAR. Raises InputError if the entry is invalid."""
    entry = _har_entry(raw, place)
    raw = entry.raw
    status = int(coerce.number(entry.response.get("status")) or 0)
    method = coerce.text(entry.request.get("method")).strip().upper()
    if method not in _METHODS:
        method = "GET"
    named = (coerce.text(raw.get(key)).lower() for key in ("_resourceType", "_request_type"))
    recorded = next((name for name in named if name in kinds.RECORDED), None)
    left_out = _left_out(entry, status, method, recorded)
    if left_out is not None:
        page.notes.add(left_out)
        return None
    written = entry.request["url"]
    url = urls.cleaned(written)
    if url is None and _NAMED_HOST.match(written):
        page.notes.add("no_host")
        return None
    if url is None:
        raise InputError(f"{written[:80]!r} is not a valid URL", f"{place}.request.url")
    guessed = Notes()
    sent, got, text = entry.request_headers, entry.response_headers, entry.text
    pushed = bool(coerce.number(raw.get("_was_pushed")))
    version = entry.version("response")
    if version not in ("2", "3") and (pushed or coerce.number(raw.get("_http2_stream_id"))):
        version = "2"
    times = _times(entry, url, page, guessed, writer)
    if version == "3":
        # The handshake of QUIC includes that of TLS. Recorders name it `connect`, `ssl` or both.
        times.connect = max(times.connect, times.tls)
        times.tcp, times.tls = times.connect or None, 0.0
    mime = kinds.mime_of(coerce.text(entry.content.get("mimeType")), got)
    sizes = sizes_of(entry, url, method, status, guessed)
    if sizes.body_bytes <= 1:
        # A body of 0 or 1 bytes ends at its first byte. Any time after that was spent in the browser.
        times.end = times.first_byte
    of_type = kinds.type_of(url, mime, sent, recorded)
    location = coerce.text(entry.response.get("redirectURL")) or coerce.header(got, "location")
    referer = coerce.header(sent, "referer")
    destination = kinds.destination_of(sent)
    # chrome-har and WebPageTest write the type of the initiator into a field of its own.
    asked_by = coerce.mapping(raw.get("_initiator")).get("type") or raw.get("_initiator_type")
    is_frame = recorded in ("subdocument", "iframe") or destination in ("iframe", "frame")
    return Exchange(
        url=url,
        type=of_type,
        method=method,
        status=status,
        mime=mime,
        **sizes._asdict(),
        recorded=None if body_is_empty(method, status) else _recorded_body(text, mime, sizes.body_bytes),
        text=text,
        http=version,
        freshness=freshness_of(method, status, got, times.end),
        referer=urls.cleaned(referer) if referer else None,
        location=urls.cleaned(location, base=url) if location and is_redirect(status) else None,
        navigated=destination == "document" and not kinds.is_fetched_ahead(sent),
        times=times,
        initiators=initiator_urls(raw),
        document=urls.cleaned(coerce.text(raw.get("_documentURL"))),
        base_page=raw.get("_is_base_page") in (True, "true", 1),
        embedded=is_frame or coerce.text(asked_by).lower() in ("script", "parser"),
        delays_load_event=kinds.delays_load_event(of_type, method, sent, recorded),
        pushed=pushed,
        connection=_connection_id(raw),
        order=order,
        notes=guessed,
    )


def _har_entry(raw: object, place: str) -> HarEntry:
    if not isinstance(raw, dict):
        raise InputError("is not an object", place)
    request, response = raw.get("request"), raw.get("response")
    if not isinstance(request, dict):
        raise InputError("missing" if request is None else "is not an object", f"{place}.request")
    url = request.get("url")
    if not coerce.text(url).strip():
        raise InputError("missing" if url is None else "is not a string", f"{place}.request.url")
    if not isinstance(response, dict):
        raise InputError("missing" if response is None else "is not an object", f"{place}.response")
    return HarEntry(raw)


def _left_out(entry: HarEntry, status: int, method: str, recorded: str | None) -> str | None:
    """Return the reason why a recorded request cannot be replayed, as a key of notes.SENTENCES, such as
    `failed`. Return None if it can be replayed. `recorded` is the recorder's name for the resource type."""
    if entry.raw.get("_apiRequest") is True:  # Playwright
        return "api"
    scheme = urls.scheme_of(entry.request["url"])
    if scheme in ("ws", "wss"):
        return "websocket"
    if scheme and scheme not in urls.DEFAULT_PORTS:
        return "scheme"
    if status == 101 or coerce.text(entry.raw.get("_resourceType")).lower() in _SOCKETS:
        return "websocket"
    if not 200 <= status <= 599 or method == "CONNECT":
        return "failed"
    mime = kinds.mime_of(coerce.text(entry.content.get("mimeType")), entry.response_headers)
    if kinds.is_event_stream(mime, recorded):
        return "event_stream"
    posted = coerce.text(coerce.mapping(entry.request.get("postData")).get("mimeType"))
    headers = (entry.request_headers, entry.response_headers)
    declared = (coerce.header(fields, "content-type") or "" for fields in headers)
    # The browser checked a certificate, using OCSP, a CRL or an issuer's certificate.
    return "certificate" if _CERTIFICATE_CHECKS & {*map(kinds.essence, (mime, posted, *declared))} else None


def _connection_id(raw: Mapping[str, Any]) -> str | None:
    # Chrome writes the server's port into `connection`, as HAR 1.2 permits, if it writes `_connectionId`.
    for key in ("_connectionId", "connection", "_socket"):
        value = raw.get(key)
        known = isinstance(value, (str, int)) and not isinstance(value, bool)
        if known and (name := str(value).strip()) not in ("", "0", "-1"):  # Chrome writes 0 for none
            return name
    return None


def _times(entry: HarEntry, url: str, page: HarPage, notes: Notes, writer: Writer) -> Times:
    raw = entry.raw
    timings = {key: coerce.milliseconds(value) for key, value in entry.timings.items()}
    found = _webpagetest_times(raw, page.started)
    if found is None:
        start = coerce.moment_ms(raw.get("startedDateTime"))
        if start is None:
            notes.add("started")
            start = page.exchanges[-1].at.start if page.exchanges else page.started or 0.0
        lasted = 0.0 if writer.tls_counted_twice else coerce.milliseconds(raw.get("time")) or 0.0
        if writer.is_proxy and (connect := timings.get("connect")):
            if url.startswith("https:"):
                start -= connect + (timings.get("ssl") or 0.0)
            else:
                timings["wait"] = max(0.0, (timings.get("wait") or 0.0) - connect)
                lasted = 0.0
        spent = _spent(timings)
        if not spent:
            notes.add("timings")
        end = start + (lasted if lasted and writer.queue_counted_twice else max(spent, lasted))
        first_byte = end - (timings.get("receive") or 0.0)
        sent = first_byte - (timings.get("wait") or 0.0)
        # chrome-har's start is the time when the request left the browser's queue, after `_queued` ms.
        found = Times(start - (timings.get("_queued") or 0.0), sent, first_byte, end)
    found.lookup = timings.get("dns") or 0.0
    found.tcp = _tcp(raw, timings, url, writer)
    found.connect = timings.get("connect") or 0.0
    found.tls = timings.get("ssl") or 0.0
    found.send = timings.get("send") or 0.0
    found.wait = timings.get("wait")
    return found


def _spent(timings: _Timings) -> float:
    """Return the sum of an entry's timings in ms, without `ssl`, which is a part of `connect`."""
    names = ("blocked", "dns", "connect", "send", "wait", "receive")
    return sum(timings.get(name) or 0.0 for name in names)


def _webpagetest_times(raw: Mapping[str, Any], page_start: float | None) -> Times | None:
    """Return the times of a HAR entry that WebPageTest wrote, or None if another program wrote it. The entry
    has times in ms since the page's start, and `page_start` is this start in ms since 1970, if known."""
    sent, waited = (coerce.milliseconds(raw.get(key)) for key in ("_load_start", "_ttfb_ms"))
    if sent is None or waited is None:
        return None
    page_start = page_start or 0.0
    lasted = coerce.milliseconds(raw.get("_load_ms"))
    asked = coerce.milliseconds(raw.get("_created"))
    if not asked or asked > sent:
        # Entries before about 2019 lack `_created`. A time of 0 or -1 means that the step did not happen. If
        # a step ended over 5 ms before the next step, the connection was opened ahead of time.
        asked = sent
        for name in ("ssl", "connect", "dns"):
            started, ended = (coerce.milliseconds(raw.get(f"_{name}_{edge}")) for edge in ("start", "end"))
            if started and ended and started <= ended <= asked <= ended + 5:
                asked = started
    end = sent + max(lasted if lasted is not None else waited, waited)
    return Times(page_start + asked, page_start + sent, page_start + sent + waited, page_start + end)


def _tcp(raw: Mapping[str, Any], timings: _Timings, url: str, writer: Writer) -> float | None:
    """Return the duration of the TCP handshake in ms, which is one RTT; None if a connection was reused.

    In HAR 1.2, `connect` includes the duration of TLS, `ssl`, so return the difference. Firefox writes only
    the TCP handshake into `connect`. Its entries are those whose `time` is the sum of all timings plus `ssl`.
    For https without a valid `ssl`, return half of `connect`, because TLS takes at least one RTT."""
    connect, tls = timings.get("connect"), timings.get("ssl") or 0.0
    if not connect:
        return None
    lasted = coerce.milliseconds(raw.get("time")) or 0.0
    if tls and not writer.tls_counted_twice and lasted >= _spent(timings) + tls - 1:
        return connect
    if tls and tls < connect:
        return connect - tls
    return connect / 2 if url.startswith("https:") else connect


def _recorded_body(content: StoredBody | None, mime: str, body_bytes: int) -> StoredBody | None:
    """Return the body as the server sent it: the HAR's `content`, or else `content` converted from UTF-8 to
    the charset of `mime`. Return None if neither has exactly `body_bytes` bytes."""
    if content is None or not body_bytes:
        return None
    if content.length == body_bytes:
        return content
    charset = coerce.charset(mime)
    if charset is None or not body_bytes <= content.length <= 3 * body_bytes:
        return None
    try:
        body = content.read().decode().encode(charset)
    except (UnicodeError, ValueError):
        return None
    return content.store.add(body) if len(body) == body_bytes else None


def answered_locally(entry: HarEntry, times: Times, timed: bool) -> str | None:
    """Return the reason why a request did not use the network: `cached`, `internal` (the browser's own
    redirect) or `mocked` (answered by a service worker or test script). Return None if it used the network.
    `timed` is True if the HAR has network times."""
    # For a request that HSTS upgrades to https, Chrome writes an internal redirect, which it marks with a
    # header and with the phrase of the status line.
    response = entry.response
    if is_redirect(int(coerce.number(response.get("status")) or 0)):
        own_phrase = coerce.text(response.get("statusText")) == "Internal Redirect"
        if coerce.header(entry.response_headers, "non-authoritative-reason") is not None or (
            own_phrase and not entry.raw.get("serverIPAddress")
        ):
            return "internal"
    # Playwright marks answers of route.fulfill. Safari marks those of service workers and local overrides.
    # Chrome marks those of service workers. They have no transfer size, even if the worker used the network.
    fetched = coerce.text(entry.raw.get("_fetchType")).lower()
    if entry.raw.get("_wasFulfilled") is True or fetched in ("service worker", "inspector override"):
        return "mocked"
    if response.get("_fetchedViaServiceWorker") is True and entry.transferred is None:
        return "mocked"
    return "cached" if _is_cached(entry, times, timed) else None


def _is_cached(entry: HarEntry, times: Times, timed: bool) -> bool:
    """Return True if the response is from the browser's cache. `timed` is True if the HAR has network times.

    For such entries, Chrome writes a mark (`_fromCache`), or content with a transfer size of 0 bytes. Old
    versions of Chrome write no times for sending and waiting. Safari writes a mark (`_fetchType`). Firefox
    writes times of 0, often with headers of 0 bytes and no server address."""
    raw, response, timings = entry.raw, entry.response, entry.timings
    if raw.get("_fromCache") or response.get("_fromCache") or raw.get("fromCache") is True:
        return True
    if "cache" in coerce.text(raw.get("_fetchType")).lower():
        return True
    if entry.transferred is not None:
        return False
    headers = [coerce.number(side.get("headersSize")) for side in (entry.request, response)]
    spent = [coerce.number(value) for value in (raw.get("time"), *timings.values())]
    took_no_time = headers == [0, 0] and bool(timings) and all(value == 0 for value in spent)
    if timed and took_no_time and not raw.get("serverIPAddress"):
        return True
    body = coerce.number(response.get("bodySize"))
    content = coerce.size(entry.content.get("size"))
    if body is not None and body > 0:
        return False
    if content and coerce.number(response.get("_transferSize")) == 0:
        return True
    if times.tcp or not timed:
        return False
    wait, send = coerce.number(timings.get("wait")), coerce.number(timings.get("send"))
    if (wait is None or wait < 0) and (send is None or send < 0):
        return True
    return bool(content) and times.end <= times.start


def initiator_urls(raw: Mapping[str, Any]) -> list[str]:
    """Return the initiator URLs of a HAR entry: for a script, those of its call stack, innermost first."""
    # Chrome writes an object into `_initiator`. chrome-har writes this object as a string into
    # `_initiator_detail`. WebPageTest and chrome-har write a URL into `_initiator`.
    found: list[str] = []
    for key in ("_initiator", "_initiator_detail"):
        value = raw.get(key)
        if isinstance(value, str) and value.startswith("{"):
            value = coerce.decoded(value)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            found.extend(_stack_urls(value.get("stack")))
            found.append(coerce.text(value.get("url")))
    return [url for url in found if url]


def _stack_urls(stack: object) -> Iterator[str]:
    seen = 0
    while isinstance(stack, dict) and seen < _MAX_STACK:
        frames = stack.get("callFrames")
        for frame in frames if isinstance(frames, list) else ():
            seen += 1
            yield coerce.text(coerce.mapping(frame).get("url"))
        seen += 1
        stack = stack.get("parent")
