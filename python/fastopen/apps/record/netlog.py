"""Read Chromium's log of its network (--log-net-log): requests and responses as they crossed the wire.

The DevTools protocol reports bodies as programs see them; this log has them before they are decoded."""

import base64
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ARGUMENTS: Final = ("--log-net-log={}", "--net-log-capture-mode=Everything")
_BEGIN: Final = 1
_REQUEST_HEADERS: Final = (
    "HTTP_TRANSACTION_SEND_REQUEST_HEADERS",
    "HTTP_TRANSACTION_HTTP2_SEND_REQUEST_HEADERS",
    "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS",
)

Headers = list[tuple[str, str]]


@dataclass
class WireExchange:
    """A request and its response. The body has no chunked coding and no frames of HTTP/2."""

    url: str
    method: str
    moment_s: float
    """The start of the request, in seconds since the epoch."""
    sent: Headers = field(default_factory=list)
    status: str = ""
    got: Headers = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    coded: bool = False
    """True if the browser decodes the body. It then logs the body before and after decoding."""


def wire_exchanges(log: Path, urls: Collection[str]) -> Iterator[WireExchange]:
    """Yield the answered requests for these URLs with their bytes on the wire, in order of the requests."""
    current: dict[int, WireExchange] = {}
    found: list[WireExchange] = []
    with log.open(encoding="utf-8", errors="replace") as file:
        constants = json.loads(next(file).rstrip().rstrip(",") + "}")["constants"]
        names = {number: name for name, number in constants["logEventTypes"].items()}
        for line in file:
            event = _event(line)
            if event is None:
                continue
            name, params = names.get(event["type"], ""), event.get("params") or {}
            source = event["source"]["id"]
            if name == "URL_REQUEST_START_JOB" and event["phase"] == _BEGIN:
                moment_s = (int(event["time"]) + int(constants["timeTickOffset"])) / 1000
                current[source] = WireExchange(params["url"].partition("#")[0], params["method"], moment_s)
                found.append(current[source])
            elif source in current:
                _hear(current[source], name, params)
    yield from (one for one in found if one.status and one.url in urls)


def _event(line: str) -> Any:
    """Parse the event of a line; None for lines before and after the events."""
    try:
        event = json.loads(line[: line.rindex("}") + 1])
    except ValueError:
        return None
    return event if isinstance(event, dict) and "source" in event else None


def _hear(exchange: WireExchange, name: str, params: Any) -> None:
    if name in _REQUEST_HEADERS:
        exchange.sent = _fields(params["headers"])
    elif name == "HTTP_TRANSACTION_READ_RESPONSE_HEADERS":
        exchange.status, exchange.got = params["headers"][0].partition(" ")[2], _fields(params["headers"][1:])
        exchange.body.clear()
    elif name == "URL_REQUEST_FILTERS_SET":
        exchange.coded = True
    elif name == ("URL_REQUEST_JOB_BYTES_READ" if exchange.coded else "URL_REQUEST_JOB_FILTERED_BYTES_READ"):
        exchange.body += base64.b64decode(params.get("bytes", ""))


def _fields(lines: list[str]) -> Headers:
    split = (line.partition(": ") for line in lines if not line.startswith(":"))
    return [(name, value) for name, _, value in split if name]
