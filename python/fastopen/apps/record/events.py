"""Assemble events of Chromium's DevTools protocol into the requests and responses of a page load.

The protocol: https://chromedevtools.github.io/devtools-protocol/tot/Network/"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

EVENTS: Final = (
    "Network.requestWillBeSent",
    "Network.requestWillBeSentExtraInfo",
    "Network.responseReceived",
    "Network.responseReceivedExtraInfo",
    "Network.dataReceived",
    "Network.loadingFinished",
    "Network.loadingFailed",
    "Page.loadEventFired",
    "Page.domContentEventFired",
)


@dataclass
class NetworkExchange:
    """A request and its response. `request_event` is the event Network.requestWillBeSent. `ended` is the
    time when the exchange ended, in seconds of the browser's clock. `received_bytes` is the response's size
    on the wire. `failed` is the reason for a failure, such as `net::ERR_ABORTED`. `body` is a pair: the
    decoded body as text, and True if this text is base64. If `on_the_wire` is True, the browser also reports
    the header fields as they were sent (`request_headers`, `response_headers`)."""

    id: str
    request_event: Mapping[str, Any]
    response: Mapping[str, Any] | None = None
    ended: float | None = None
    received_bytes: float | None = None
    failed: str | None = None
    redirected: bool = False
    body: tuple[str, bool] | None = None
    on_the_wire: bool = False
    request_headers: Mapping[str, str] | None = None
    response_headers: Mapping[str, str] | None = None


@dataclass
class Log:
    """The requests of one page load, in the order in which they began. `load_at` and `content_at` are the
    times of the events `load` and `DOMContentLoaded` in seconds of the browser's clock, None until then."""

    exchanges: list[NetworkExchange] = field(default_factory=list)
    load_at: float | None = None
    content_at: float | None = None
    received_bytes: int = 0
    """The size of all bodies that have arrived so far, before decoding."""
    _current: dict[str, NetworkExchange] = field(default_factory=dict)
    _sent: defaultdict[str, deque[Mapping[str, str]]] = field(default_factory=lambda: defaultdict(deque))
    """Maps a request id to sent header fields: an entry for each request in a redirect chain, in order."""
    _got: defaultdict[str, deque[Mapping[str, str]]] = field(default_factory=lambda: defaultdict(deque))

    def on_event(self, name: str, event: Mapping[str, Any]) -> None:
        """Process the event called `name`. Ignore events of unknown requests."""
        if name == "Page.loadEventFired":
            self.load_at = event["timestamp"]
        elif name == "Page.domContentEventFired":
            self.content_at = event["timestamp"]
        elif name == "Network.dataReceived":
            self.received_bytes += event["encodedDataLength"] or event["dataLength"]
        elif name == "Network.requestWillBeSent":
            self._asked(event)
        elif name == "Network.requestWillBeSentExtraInfo":
            self._sent[event["requestId"]].append(event["headers"])
        elif name == "Network.responseReceivedExtraInfo":
            self._got[event["requestId"]].append(event["headers"])
        elif (exchange := self._current.get(event.get("requestId", ""))) is None:
            return
        elif name == "Network.responseReceived":
            exchange.response, exchange.on_the_wire = event["response"], bool(event.get("hasExtraInfo"))
        elif name == "Network.loadingFinished":
            exchange.ended, exchange.received_bytes = event["timestamp"], event.get("encodedDataLength")
        elif name == "Network.loadingFailed":
            exchange.ended, exchange.failed = event["timestamp"], event.get("errorText") or "failed"

    def open_requests(self) -> int:
        return sum(one.ended is None for one in self.exchanges)

    def assign_header_fields(self) -> None:
        """Assign the header fields, as they were sent, to their requests. Call this after the last event."""
        for one in self.exchanges:
            if one.on_the_wire:
                sent, got = self._sent[one.id], self._got[one.id]
                one.request_headers = sent.popleft() if sent else None
                one.response_headers = got.popleft() if got else None

    def _asked(self, event: Mapping[str, Any]) -> None:
        before = self._current.get(event["requestId"])
        if before is not None and event.get("redirectResponse"):
            before.response, before.redirected = event["redirectResponse"], True
            before.ended, before.on_the_wire = event["timestamp"], bool(event.get("redirectHasExtraInfo"))
            before.received_bytes = event["redirectResponse"].get("encodedDataLength")
        made = NetworkExchange(event["requestId"], event)
        self._current[event["requestId"]] = made
        self.exchanges.append(made)
