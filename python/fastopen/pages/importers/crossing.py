"""How the entries of a page crossed the recorder's network: lookups, handshakes, shared connections."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastopen.pages.importers import fields
from fastopen.pages.importers.har.entry import Entry
from fastopen.pages.model import HttpVersion
from fastopen.pages.recording import Carrier, RecordedExchange

# h2, h2c, HTTP/2, HTTP/2.0, h3, h3-29, HTTP/3, SPDY and Google's own QUIC versions, as recorders write them.
_MULTIPLEXED: Final = re.compile(r"^(h[23]\b|h2c|http/[23]|spdy|quic|http/2\+quic)", re.IGNORECASE)
_QUIC: Final = re.compile(r"^(h3\b|http/3|quic|http/2\+quic)", re.IGNORECASE)
_ONE_AT_A_TIME: Final = re.compile(r"^(http/)?1\.(?P<minor>[01])$", re.IGNORECASE)
# Recorders' clocks: a request that seems to be sent this much before the last answer ended came after it.
_CLOCK_SLACK_MS: Final = 2.0


def exchanges_of(entries: Sequence[Entry]) -> tuple[RecordedExchange, ...]:
    """For entries in the order of the page's resources, the root first."""
    shared = _shared_connections(entries)
    started = entries[0].start
    return tuple(_exchange(entry, started, _connection(entry) in shared) for entry in entries)


def _exchange(entry: Entry, started: float, shared: bool) -> RecordedExchange:
    timings = fields.mapping(entry.raw.get("timings"))
    lookup = fields.milliseconds(timings.get("dns")) or 0.0
    tcp = entry.connect_ms or 0.0
    whole = fields.milliseconds(timings.get("connect")) or 0.0
    tls = fields.milliseconds(timings.get("ssl")) or 0.0
    # What came before the request was sent, at most: redirects and broken clocks move the start.
    room = max(0.0, entry.sent - entry.start)
    tcp = min(tcp, room)
    # ssl is a part of connect, but not with every recorder: see entry._connect.
    tls = min(max(whole - tcp, tls if tcp == whole else 0.0), room - tcp) if tcp else 0.0
    return RecordedExchange(
        asked=entry.start - started,
        sent=entry.sent - started,
        first_byte=entry.first_byte - started,
        end=entry.end - started,
        lookup=min(lookup, room - tcp - tls),
        tcp=tcp,
        tls=tls,
        carrier=_carrier(entry, shared),
        received_bytes=entry.sizes.response_header + entry.sizes.body,
        pushed=entry.pushed,
    )


def _carrier(entry: Entry, shared: bool) -> Carrier:
    """By the version or a stream's number; where neither tells, because its connection was `shared`."""
    versions = _versions(entry)
    if any(map(_QUIC.match, versions)):
        return "quic"
    if entry.pushed or any(map(_MULTIPLEXED.match, versions)):
        return "streams"
    if fields.number(entry.raw.get("_http2_stream_id")):
        return "streams"
    return "streams" if shared and not any(map(_ONE_AT_A_TIME.match, versions)) else "one at a time"


def version_of(entry: Entry, carrier: Carrier) -> HttpVersion | None:
    """Return the version of HTTP that carried an entry, or None if the recorder does not name it.

    SPDY counts as HTTP/2 and Google's own QUIC as HTTP/3, their successors.
    """
    if carrier == "quic":
        return "3"
    if carrier == "streams":
        return "2"
    versions = [match for version in _versions(entry) if (match := _ONE_AT_A_TIME.match(version))]
    if not versions:
        return None
    return "1.0" if versions[0].group("minor") == "0" else "1.1"


def _versions(entry: Entry) -> list[str]:
    response = fields.mapping(entry.raw.get("response"))
    named = (response.get("httpVersion"), entry.raw.get("_protocol"))
    return [fields.text(version).strip() for version in named]


def _shared_connections(entries: Sequence[Entry]) -> set[str]:
    """The connections that carried a request while another was on its way, whatever the version says."""
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        connection = _connection(entry)
        if connection is not None:
            spans[connection].append((entry.sent, entry.end))
    return {connection for connection, carried in spans.items() if _overlaps(sorted(carried))}


def _overlaps(carried: Sequence[tuple[float, float]]) -> bool:
    """Whether two of them, in order of their beginnings, were on their way at once."""
    ended = carried[0][1]
    for sent, end in carried[1:]:
        if sent < ended - _CLOCK_SLACK_MS:
            return True
        ended = max(ended, end)
    return False


def _connection(entry: Entry) -> str | None:
    """What the recorder calls the connection; None where it does not say. Chrome's 0 is none."""
    for name in _connection_names(entry.raw):
        if name not in ("", "0", "-1"):
            return name
    return None


def _connection_names(raw: Mapping[str, Any]) -> Iterator[str]:
    for key in ("connection", "_socket"):
        value = raw.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            yield str(value).strip()
