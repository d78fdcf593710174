"""Define exchanges: recorded requests with their responses. Compute the freshness of responses as a browser's
private cache does (RFC 9111), and build a page from exchanges whose initiators are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from fastopen.common.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import (
    MAX_FRESH_S,
    MAX_RESOURCES,
    HttpVersion,
    Initiators,
    Page,
    Phase,
    Resource,
    ResourceType,
)
from fastopen.pages.recording import ImportedPage, RecordedBodies, Recording, StoredBody

# A response without an explicit lifetime may be used for a tenth of the time since its last modification (RFC
# 9111 section 4.2.2). As in Chromium, this holds only for these statuses.
_HEURISTIC: Final = frozenset([200, 203, 206])
_HEURISTIC_SHARE: Final = 10
# Without a lifetime, responses with these statuses stay fresh (RFC 9111 4.2.2, RFC 9110 15.4.2, 15.4.9).
_FOR_GOOD: Final = frozenset([300, 301, 308, 410])
_DIRECTIVE: Final = re.compile(r'([a-z-]+)\s*(?:=\s*"?([^",]*)"?)?')
# Assumed sizes of headers that were not recorded: the defaults of Resource.
TYPICAL_REQUEST: Final = 400
TYPICAL_RESPONSE: Final = 300
# No known server accepts longer headers. A larger recorded size includes a body.
MAX_HEADER_BYTES: Final = 256 * 1024
# Maps a resource type to the types of resources that may be its initiator, in addition to documents.
ASKERS: Final[dict[ResourceType, tuple[ResourceType, ...]]] = {
    **dict.fromkeys(get_args(ResourceType), ("script",)),
    "font": ("stylesheet",),
    "image": ("stylesheet", "script"),
    "stylesheet": ("stylesheet", "script"),
}


class Freshness(NamedTuple):
    """The freshness of a response. A cache may use it for `fresh_s` seconds after its arrival; None if
    unknown. `validator` is True if a client can revalidate the response, for example by its ETag."""

    fresh_s: int | None = None
    validator: bool = False


def freshness_of(method: str, status: int, headers: Pairs, at_ms: float | None) -> Freshness:
    """Compute a response's freshness: unknown without headers, or if the method is not GET. Header names must
    be in lower case. `at_ms` is the response's arrival in ms since 1970, or None if unknown."""
    if not headers or method != "GET":
        return Freshness()
    text = ",".join(value for name, value in headers if name == "cache-control").lower()
    # Reversed, because the first of several values of a directive counts, and a dict keeps the last.
    control = {name: value.strip() for name, value in reversed(_DIRECTIVE.findall(text))}
    if "no-store" in control:
        return Freshness(0)
    validator = any(coerce.header(headers, name) for name in ("etag", "last-modified"))
    return Freshness(min(_fresh_s(status, headers, control, at_ms), MAX_FRESH_S), validator)


def _delta_s(text: str) -> int | None:
    """Parse a number of seconds, and limit it to 2**31 (RFC 9111 section 1.2.2); None if it is malformed."""
    digits = text.strip()
    return min(int(digits[:20]), 2**31) if digits.isdecimal() else None


def _fresh_s(status: int, headers: Pairs, control: dict[str, str], at_ms: float | None) -> int:
    """Return the remaining freshness in s (RFC 9111 4.2). Ignore `s-maxage`, which is for shared caches."""
    never = "no-cache" in control or (coerce.header(headers, "vary") or "").strip() == "*"
    if never or (not control and "no-cache" in (coerce.header(headers, "pragma") or "").lower()):
        return 0
    age_s = _delta_s(coerce.header(headers, "age") or "") or 0
    date_ms = coerce.moment_ms(coerce.header(headers, "date"))
    if date_ms is None:
        date_ms = at_ms
    if (max_age_s := _delta_s(control.get("max-age", ""))) is not None:
        return max(max_age_s - age_s, 0)
    expires = coerce.header(headers, "expires")
    if expires is not None:
        # An invalid date counts as a time in the past (RFC 9111 section 5.3).
        return max(_seconds(date_ms, coerce.moment_ms(expires)) - age_s, 0)
    if status in _FOR_GOOD:
        return MAX_FRESH_S
    if status in _HEURISTIC and "must-revalidate" not in control:
        unchanged_s = _seconds(coerce.moment_ms(coerce.header(headers, "last-modified")), date_ms)
        return max(unchanged_s // _HEURISTIC_SHARE - age_s, 0)
    return 0


def _seconds(since_ms: float | None, until_ms: float | None) -> int:
    return 0 if since_ms is None or until_ms is None else max(int((until_ms - since_ms) / 1000), 0)


@dataclass
class Times:
    """Times of a request and its response. `start`, `sent`, `first_byte` and `end` are in ms since 1970. All
    other fields are durations in ms, such as the `wait` for a response's first byte (None: not recorded)."""

    start: float
    """Time at which the page made the request, before the wait for a connection, lookup and handshakes."""
    sent: float
    first_byte: float
    end: float
    lookup: float = 0.0
    tcp: float | None = None
    """Duration of the TCP handshake, without TLS; None if it is unknown or a connection was reused."""
    connect: float = 0.0
    """Recorded duration of opening the connection, which may include TLS."""
    tls: float = 0.0
    send: float = 0.0
    """Time that the browser took to pass the request to the operating system."""
    wait: float | None = None

    def move(self, by_ms: float) -> None:
        self.start, self.sent = self.start + by_ms, self.sent + by_ms
        self.first_byte, self.end = self.first_byte + by_ms, self.end + by_ms


@dataclass(eq=False)
class Exchange:
    """A recorded request and its response. Sizes are in bytes, as sent. Fields whose values were not recorded
    have their defaults. `coding` is the response's Content-Encoding, such as `gzip`."""

    url: str
    type: ResourceType
    method: str = "GET"
    status: int = 200
    mime: str = "application/octet-stream"
    coding: str = ""
    request_header_bytes: int = TYPICAL_REQUEST
    request_body_bytes: int = 0
    response_header_bytes: int = TYPICAL_RESPONSE
    body_bytes: int = 0
    recorded: StoredBody | None = field(default=None, repr=False)
    """The body as sent, `body_bytes` bytes long; None: empty, or not recorded exactly as sent."""
    text: StoredBody | None = field(default=None, repr=False)
    """The body without its content coding; None: not stored, or stored only as `recorded`."""
    head: bytes | None = field(default=None, repr=False)
    """The head of the response (status line and headers) as HTTP/1.1 text."""
    http: HttpVersion | None = None
    """The HTTP version that the recorder names; None: not known."""
    freshness: Freshness = field(default_factory=Freshness)
    referer: str | None = None
    location: str | None = None
    navigated: bool = False
    """True if the browser marked the request as the navigation of a whole page (Fetch Metadata)."""
    times: Times | None = None
    initiators: Sequence[str] = ()
    """The URLs that the recorder names as initiator; for scripts, the call stack, innermost first."""
    document: str | None = None
    """The URL of the document to which the exchange belongs, as the recorder names it."""
    page: str = ""
    """The recorder's ID of the page to which the exchange belongs; "" if unknown."""
    base_page: bool = False
    """True if the recorder marks the exchange as the page's document."""
    embedded: bool = False
    """True if the recorder names a script, an element or a frame that made the request."""
    delays_load_event: bool = True
    """True if an element or a frame made the request, so that the load event waits for the response."""
    pushed: bool = False
    connection: str | None = None
    """The recorder's name for the connection that carried the request."""
    order: int = 0
    """The index of the exchange in the recording."""
    before: Exchange | None = field(default=None, repr=False)
    """The exchange whose response made the browser send this request: a redirect, or a CORS preflight."""
    led_by: tuple[Exchange, int] | None = field(default=None, repr=False)
    """Cached by chains.py: an earlier exchange in the chain of `before` links, and the steps back to it."""
    asked_like: Exchange | None = field(default=None, repr=False)
    """For a preflight: the request that follows it. The preflight gets the request's recorded initiator."""
    notes: Notes = field(default_factory=Notes, repr=False)
    """Counts of guesses about this exchange. Each page that contains the exchange gets these notes."""

    @property
    def is_redirect(self) -> bool:
        return is_redirect(self.status)

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS"

    @property
    def wants_content(self) -> bool:
        """Return False for HEAD and OPTIONS, whose responses contain no page and no references."""
        return self.method not in ("HEAD", "OPTIONS")

    @property
    def host(self) -> str:
        return urls.host_of(self.url)

    @property
    def at(self) -> Times:
        """Return `times`, which must not be None."""
        assert self.times is not None
        return self.times


@dataclass
class HarPage:
    """A page in a HAR: its entry in `log.pages`, and its requests."""

    id: str
    title: str = ""
    started: float | None = None
    """Start of the page, in ms since 1970."""
    on_load: float | None = None
    """Time of the load event, in ms since the start of the page."""
    inspector_clock: bool = False
    """True if `on_load` counts from the start of the recording, not from the start of the page."""
    down_bit_per_s: int | None = None
    up_bit_per_s: int | None = None
    network: Mapping[str, Any] | None = None
    """The emulated network of the recording, as in a job's `network`, if fastopen recorded it without TFO."""
    members: list[int] = field(default_factory=list)
    """The indices of the page's entries in the HAR."""
    exchanges: list[Exchange] = field(default_factory=list)
    """The page's requests that used the network."""
    notes: Notes = field(default_factory=Notes)
    """Counts of guesses and left-out entries. Page loads that are split from one page share them."""


def bodies_of(exchanges: Mapping[int, Exchange]) -> RecordedBodies:
    """Return the recorded bodies and response heads of `exchanges`, with the same keys as `exchanges`."""
    bodies = {index: one.recorded for index, one in exchanges.items() if one.recorded is not None}
    heads = {index: one.head for index, one in exchanges.items() if one.head is not None}
    return RecordedBodies(bodies, heads)


def is_redirect(status: int) -> bool:
    """Return True if a client follows the Location of a response with this status."""
    return 300 <= status < 400 and status != 304


def head_of(status: int, headers: Pairs) -> bytes:
    """Return the head of a response as HTTP/1.1 text, without fields that have an empty value."""
    lines = [f"{name}: {' '.join(value.splitlines())}" for name, value in headers if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Edge:
    """The link from a request to its initiator: the earlier request whose response led to it. The browser
    needs `processing_us` before it makes the request. The server waits `think_us` before it responds, and
    takes `send_us` to send the body. `phase` is `load` if the load event waits for the request."""

    initiator: int | None
    """The index of the initiator; None for the page's first request."""
    at_bytes: int | None = None
    """Number of the initiator's body bytes that must arrive before the request; None: all."""
    type: ResourceType | None = None
    """The resource type implied by the initiator's reference, such as `<img>`; None if it implies none."""
    evidence: str = "referenced"
    """The evidence for the initiator: a key of notes.SENTENCES."""
    processing_us: int = 0
    phase: Phase = "load"
    think_us: int = 0
    send_us: int = 0


def check_size(requests: int, place: str) -> None:
    """Raise InputError if a page has too many requests. `place` names the file."""
    if requests > MAX_RESOURCES:
        message = f"{requests:,} requests in one page are too many; the limit is {MAX_RESOURCES:,}"
        raise InputError(message, place)


def page_of(
    exchanges: Sequence[Exchange],
    edges: dict[int, Edge],
    name: str,
    source: str,
    notes: Notes,
    *,
    initiators: Initiators = "inferred",
    alternatives: Mapping[int, tuple[str, ...]] | None = None,
    load_event_processing_us: int = 0,
    recorded_plt_us: int | None = None,
    recording: Recording | None = None,
) -> ImportedPage:
    """Build a page from the exchanges (requests with their responses) whose indices are keys of `edges`. Each
    edge links an exchange to its initiator, which must precede it. The first exchange is the page's document.
    `initiators` is the source of these links, such as `recorded`. `alternatives` maps exchanges to other URLs
    with the same response. The exchanges' notes are added to `notes`, which become the page's notes."""
    positions = {None: None} | {index: position for position, index in enumerate(edges)}
    kept = [exchanges[index] for index in edges]
    for edge in list(edges.values())[1:]:
        notes.add(edge.evidence)
    for one in kept:
        notes.update(one.notes)
    types = {index: edge.type or exchanges[index].type for index, edge in edges.items()}
    types[next(iter(edges))] = "document"
    # A redirect has the type of its target, because its own MIME type is arbitrary.
    for index, edge in reversed(edges.items()):
        if edge.initiator is not None and exchanges[edge.initiator].location == exchanges[index].url:
            types[edge.initiator] = types[index]
    resources = tuple(
        Resource(
            url=one.url,
            method=one.method,
            status=one.status,
            type=types[index],
            mime=one.mime,
            http=one.http,
            request_header_bytes=one.request_header_bytes,
            request_body_bytes=one.request_body_bytes,
            response_header_bytes=one.response_header_bytes,
            body_bytes=one.body_bytes,
            server_think_us=edge.think_us,
            server_send_us=edge.send_us,
            initiator=positions[edge.initiator],
            initiator_at_bytes=edge.at_bytes,
            processing_us=edge.processing_us,
            phase=edge.phase,
            redirect_to=one.location,
            fresh_s=one.freshness.fresh_s,
            validator=one.freshness.validator,
            alternatives=(alternatives or {}).get(index, ()),
        )
        for one, (index, edge) in zip(kept, edges.items(), strict=True)
    )
    page = Page(
        format="fastopen-page/1",
        name=name,
        url=resources[0].url,
        source=source,
        initiators=initiators,
        load_event_processing_us=load_event_processing_us,
        notes=notes.sentences(),
        resources=resources,
    )
    return ImportedPage(page, bodies_of(dict(enumerate(kept))), recorded_plt_us, recording)
