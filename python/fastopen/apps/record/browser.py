"""Load pages in Chromium, each in a fresh profile, and record the DevTools protocol's events."""

import base64
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from fastopen.apps.record.events import EVENTS, Log, NetworkExchange
from fastopen.apps.record.har import Loaded
from fastopen.common.closing import Closing
from fastopen.common.errors import MachineError, pip_install
from fastopen.contract.client_kinds import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page, ViewportSize

# With the first two, frames of other sites stay in the page's process, whose session reports their requests.
ARGUMENTS: Final = (
    "--disable-features=IsolateOrigins,site-per-process",
    "--disable-site-isolation-trials",
    "--disable-background-networking",
    "--no-first-run",
)
BODIES_BYTES: Final = 512 * 2**20
BODY_BYTES: Final = 128 * 2**20
# Limits for a page, because all its requests and bodies are kept in memory and in files.
MAX_RECEIVED_BYTES: Final = 2**30
MAX_REQUESTS: Final = 20_000
STEP_MS: Final = 50
TURN_MS: Final = 8000
HANDSHAKE_TIMEOUT_S: Final = 3.0
# The viewport of Chromium's window in a world (docs/dev/chromium.md).
VIEWPORT: Final["ViewportSize"] = {"width": 1366, "height": 681}


class LoadError(Exception):
    """Raised if a page could not be recorded. The message gives the reason."""


class Recorder(Closing):
    """A Chromium browser that records pages one at a time. Leaving its `with` block ends the browser."""

    def __init__(
        self, arguments: Sequence[str] = (), *, insecure: bool = False, netlog: Path | None = None
    ) -> None:
        """Start the browser with additional `arguments`. If `insecure` is True, it accepts any certificate.

        If `netlog` is given, Chromium writes a network log with all bodies into this file, and `record`
        returns a screenshot instead of bodies. Raises MachineError if the browser does not start."""
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            message = "recording needs playwright, which is not installed"
            raise MachineError(message, pip_install("playwright")) from None
        self._insecure, self._netlog = insecure, netlog
        logged = [] if netlog is None else [f"--log-net-log={netlog}", "--net-log-capture-mode=Everything"]
        chromium = CHROMIUM.find()
        # Chromium's sandbox does not work for root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._playwright = sync_playwright().start()
        try:
            self._browser = self._playwright.chromium.launch(
                executable_path=chromium, args=[*ARGUMENTS, *sandbox, *logged, *arguments]
            )
        except Exception as error:
            self._playwright.stop()
            fatal = re.search(r":FATAL:[^\]]*\] *(.+)", str(error))
            message = f"{chromium} does not start: {fatal[1] if fatal else _first_line(error)}"
            raise MachineError(message, "try to start it with --headless") from None
        self.version = self._browser.version

    def close(self) -> None:
        try:
            self._browser.close()
        finally:
            self._playwright.stop()

    def record(self, url: str, *, timeout_s: float, settle_s: float) -> Loaded:
        """Load a page, wait for its load event and for the end of all requests, and return the recording.

        Wait at most `timeout_s` for the load event, and `settle_s` for later requests. Raises LoadError if
        the page cannot be recorded."""
        from playwright.sync_api import Error

        context = self._browser.new_context(
            ignore_https_errors=self._insecure, viewport=VIEWPORT, accept_downloads=False
        )
        try:
            page = context.new_page()
            session = context.new_cdp_session(page)
            log = Log()
            for name in EVENTS:
                session.on(name, lambda event, name=name: log.on_event(name, event))
            bounds = {"maxTotalBufferSize": BODIES_BYTES, "maxResourceBufferSize": BODY_BYTES}
            session.send("Network.enable", bounds)
            session.send("Page.enable")
            page.goto(url, wait_until="commit", timeout=timeout_s * 1000)
            if not _wait_until(lambda: log.load_at is not None, page, log, timeout_s):
                still = f"{log.open_requests()} requests open"
                raise LoadError(f"no load event within {timeout_s:g} s ({still}); --timeout gives more")
            _wait_until(lambda: not log.open_requests(), page, log, settle_s)
            _wait_for_turn(page)
            log.assign_header_fields()
            screenshot = None
            if self._netlog is None:
                for exchange in log.exchanges:
                    exchange.body = _body(session, exchange)
            else:
                taken = session.send("Page.captureScreenshot", {"format": "png"})
                screenshot = base64.b64decode(taken["data"])
            return Loaded(url, page.title(), log, missing_handshakes_ms(log.exchanges), screenshot)
        except Error as error:
            first = _first_line(error)
            raise LoadError(first.partition("Page.goto: ")[2] or first) from None
        finally:
            context.close()


def _wait_for_turn(page: "Page") -> None:
    """Wait until no script blocks the page; otherwise later calls hang. Raise LoadError after TURN_MS."""
    from playwright.sync_api import TimeoutError as TimedOut

    try:
        page.wait_for_function("true", polling=STEP_MS, timeout=TURN_MS)
    except TimedOut:
        raise LoadError(f"its script blocked the page for {TURN_MS // 1000} s") from None


def _wait_until(done: Callable[[], bool], page: "Page", log: Log, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline:
            return False
        page.wait_for_timeout(STEP_MS)
        if log.received_bytes > MAX_RECEIVED_BYTES:
            raise LoadError(f"it sent more than {MAX_RECEIVED_BYTES >> 20:,} MiB")
        if len(log.exchanges) > MAX_REQUESTS:
            raise LoadError(f"it made more than {MAX_REQUESTS:,} requests")
    return True


def _body(session: "CDPSession", exchange: NetworkExchange) -> tuple[str, bool] | None:
    """Return a response's body as text, and True if the text is base64; None if the browser has no body."""
    from playwright.sync_api import Error

    if exchange.redirected or exchange.failed or exchange.ended is None:
        return None
    try:
        found: dict[str, Any] = session.send("Network.getResponseBody", {"requestId": exchange.id})
    except Error:
        return None
    return found["body"], bool(found["base64Encoded"])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def missing_handshakes_ms(exchanges: Iterable[NetworkExchange]) -> dict[str, float]:
    """Measure TCP handshakes with hosts that have none in `exchanges`. Return times in ms, keyed by host."""
    seen: set[str] = set()
    addresses: dict[str, tuple[str, int]] = {}
    for exchange in exchanges:
        response = exchange.response or {}
        host = urlsplit(exchange.request_event["request"]["url"]).hostname or ""
        timing = response.get("timing") or {}
        if timing.get("connectEnd", -1) > timing.get("connectStart", -1):
            seen.add(host)
        if response.get("remoteIPAddress") and response.get("remotePort"):
            addresses[host] = (response["remoteIPAddress"].strip("[]"), int(response["remotePort"]))
    found = {host: _handshake_ms(address) for host, address in addresses.items() if host not in seen}
    return {host: took for host, took in found.items() if took is not None}


def _handshake_ms(address: tuple[str, int]) -> float | None:
    started = time.perf_counter()
    try:
        with socket.create_connection(address, HANDSHAKE_TIMEOUT_S):
            return round((time.perf_counter() - started) * 1000, 3)
    except OSError:
        return None
