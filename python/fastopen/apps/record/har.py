"""Convert page loads of Chromium to HAR 1.2. If the format leaves a choice, do as Chrome does.

The specification: http://www.softwareishard.com/blog/har-12-spec/"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from fastopen.apps.record.events import Log, NetworkExchange

_VERSIONS: Final = {"h2": "HTTP/2.0", "h3": "h3", "http/1.1": "HTTP/1.1", "http/1.0": "HTTP/1.0"}


@dataclass(frozen=True)
class Loaded:
    """A recorded page load. `log` has its requests. `handshakes_ms` maps each host without a recorded TCP
    handshake to a handshake time that was measured after the load. `screenshot` is a PNG, or None."""

    url: str
    title: str
    log: Log
    handshakes_ms: Mapping[str, float] = field(default_factory=dict)
    screenshot: bytes | None = None


def har_of(pages: Sequence[Loaded], browser: str) -> dict[str, Any]:
    """Return a HAR document of the given page loads. `browser` is the version of the browser."""
    entries = []
    described = []
    for number, page in enumerate(pages, start=1):
        identity = f"page_{number}"
        of_page = [
            _entry(one, identity)
            for one in page.log.exchanges
            if urlsplit(one.request_event["request"]["url"]).scheme in ("http", "https")
        ]
        described.append(_page(page, identity, of_page))
        entries += of_page
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "fastopen", "version": metadata.version("fastopen")},
            "browser": {"name": "Chromium", "version": browser},
            "pages": described,
            "entries": entries,
        }
    }


def round_trips_ms(entries: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Map each host to its shortest handshake of TCP or QUIC in HAR entries, in ms, without TLS over TCP."""
    found: dict[str, float] = {}
    for entry in entries:
        timings = entry["timings"]
        if timings["connect"] > 0:
            # The handshake of QUIC is that of TLS, so Chromium reports both times for it.
            over_quic = entry["response"]["httpVersion"] == "h3"
            took = timings["connect"] - (0 if over_quic else max(timings["ssl"], 0))
            host = urlsplit(entry["request"]["url"]).hostname or ""
            found[host] = round(min(found.get(host, took), took), 3)
    return found


def _page(page: Loaded, identity: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    first = page.log.exchanges[0].request_event

    def after(moment: float | None) -> float:
        return -1 if moment is None else round((moment - first["timestamp"]) * 1000, 3)

    return {
        "id": identity,
        # As in HARs of Chrome, the title is the requested URL.
        "title": page.url,
        "startedDateTime": _moment(first["wallTime"]),
        "pageTimings": {"onContentLoad": after(page.log.content_at), "onLoad": after(page.log.load_at)},
        "_documentTitle": page.title,
        "_roundTrips": {**page.handshakes_ms, **round_trips_ms(entries)},
    }


def _entry(exchange: NetworkExchange, page: str) -> dict[str, Any]:
    request_event, response = exchange.request_event, exchange.response or {}
    timings = _timings(exchange)
    prefetched = "prefetch" if response.get("fromPrefetchCache") else None
    entry = {
        "pageref": page,
        "startedDateTime": _moment(request_event["wallTime"]),
        "time": round(sum(ms for name, ms in timings.items() if ms > 0 and name != "ssl"), 3),
        "request": _request(exchange),
        "response": _response(exchange),
        "cache": {},
        "timings": timings,
        "_initiator": request_event.get("initiator", {}),
        "_resourceType": str(request_event.get("type", "Other")).lower(),
        "_fromCache": "disk" if response.get("fromDiskCache") else prefetched,
        "serverIPAddress": str(response.get("remoteIPAddress", "")).strip("[]"),
        "connection": str(response.get("connectionId") or ""),
    }
    return {key: value for key, value in entry.items() if value not in (None, "")}


def _timings(exchange: NetworkExchange) -> dict[str, float]:
    """Return the `timings` of a HAR entry in ms, -1 if not applicable. `connect` includes TLS (HAR 1.2)."""
    asked_s, ended_s = exchange.request_event["timestamp"], exchange.ended
    timing = (exchange.response or {}).get("timing")
    whole = 0.0 if ended_s is None else max(0.0, (ended_s - asked_s) * 1000)
    if not timing:
        missing = {"dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": 0, "receive": 0}
        return {"blocked": round(whole, 3), **missing}

    def length(name: str) -> float:
        started, ended = timing.get(f"{name}Start", -1), timing.get(f"{name}End", -1)
        return ended - started if started >= 0 else -1

    begins = [
        timing[f"{name}Start"] for name in ("dns", "connect", "send") if timing.get(f"{name}Start", -1) >= 0
    ]
    queued = (timing["requestTime"] - asked_s) * 1000 + min(begins, default=0)
    # The time of the response's first byte, if the browser reports it, or else of its head's last byte.
    answered = timing.get("receiveHeadersStart", -1)
    answered = answered if answered > 0 else timing["receiveHeadersEnd"]
    ended = timing["receiveHeadersEnd"] if ended_s is None else (ended_s - timing["requestTime"]) * 1000
    parts = {
        "blocked": max(0.0, queued),
        "dns": length("dns"),
        "connect": length("connect"),
        "ssl": length("ssl"),
        "send": max(0.0, length("send")),
        "wait": max(0.0, answered - timing["sendEnd"]),
        "receive": max(0.0, ended - answered),
    }
    return {name: round(ms, 3) for name, ms in parts.items()}


def _request(exchange: NetworkExchange) -> dict[str, Any]:
    request, response = exchange.request_event["request"], exchange.response or {}
    posted = request.get("postData")
    fields = request.get("headers", {})
    mime = next((value for name, value in fields.items() if name.lower() == "content-type"), "")
    return {
        "method": request["method"],
        "url": request["url"],
        "httpVersion": _version(response),
        "headers": _headers(exchange.request_headers or response.get("requestHeaders") or fields),
        "queryString": [
            {"name": name, "value": value}
            for name, value in parse_qsl(urlsplit(request["url"]).query, keep_blank_values=True)
        ],
        "cookies": [],
        "headersSize": -1,
        "bodySize": len(posted.encode()) if posted else 0,
        **({"postData": {"mimeType": mime, "text": posted}} if posted else {}),
    }


def _response(exchange: NetworkExchange) -> dict[str, Any]:
    response = exchange.response or {}
    fields = _headers(exchange.response_headers or response.get("headers", {}))
    # In a response, Chromium's `encodedDataLength` counts the bytes up to the end of the head.
    head = int(response.get("encodedDataLength") or 0)
    wire = int(exchange.received_bytes or 0)
    body = 0 if exchange.redirected else max(0, wire - head)
    text, encoded = exchange.body or ("", False)
    size = len(text) * 3 // 4 - text[-2:].count("=") if encoded else len(text.encode("utf-8", "replace"))
    # Chromium discards some bodies, for example of broken pictures. Use the size on the wire for these.
    content: dict[str, Any] = {"size": size or body, "mimeType": response.get("mimeType", "")}
    if text:
        content["text"] = text
        content |= {"encoding": "base64"} if encoded else {}
    location = next((f["value"] for f in fields if f["name"].lower() == "location"), "")
    return {
        "status": int(response.get("status", 0)),
        "statusText": response.get("statusText", ""),
        "httpVersion": _version(response),
        "headers": fields,
        "cookies": [],
        "content": content,
        "redirectURL": location if exchange.redirected else "",
        "headersSize": head if _version(response).startswith("HTTP/1") and head else -1,
        "bodySize": body if wire else -1,
        "_transferSize": wire,
        "_error": exchange.failed,
    }


def _version(response: Mapping[str, Any]) -> str:
    text = str(response.get("protocol", ""))
    return _VERSIONS.get(text.lower(), text)


def _headers(fields: Mapping[str, str]) -> list[dict[str, str]]:
    """Return header fields in HAR's format. Split repeated fields, which Chromium joins with line feeds."""
    return [{"name": name, "value": line} for name, value in fields.items() for line in value.split("\n")]


def _moment(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
