"""Serve `fastopen browse` on a thread of the test's process, and send requests to it as a browser does."""

import asyncio
import http.client
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

from fastopen.apps.browse.guard import PART
from fastopen.apps.browse.serving import serve


@dataclass
class Answer:
    """The response to a request."""

    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass
class Visitor:
    """An HTTP client that knows the server's address and keeps cookies."""

    address: str
    cookies: SimpleCookie = field(default_factory=SimpleCookie)

    @property
    def host(self) -> str:
        """Return host and port of the address."""
        return urlsplit(self.address).netloc

    @property
    def base(self) -> str:
        """Return the address without path and token."""
        return f"http://{self.host}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Send a request with the cookies received so far. Redirects are not followed."""
        kept = "; ".join(f"{name}={one.value}" for name, one in self.cookies.items())
        known = {"Host": self.host, **({"Cookie": kept} if kept else {}), **headers}
        connection = http.client.HTTPConnection(self.host, timeout=180)
        try:
            connection.request(method, path, headers=known)
            answer = connection.getresponse()
            self.cookies.load(answer.headers.get("Set-Cookie", ""))
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def part(self, path: str) -> Answer:
        """Request a part of a page with the header that the page's script sends."""
        return self.ask(path, **{PART: "1"})

    def enter(self) -> "Visitor":
        """Open the printed address, which gives this client its cookie."""
        parts = urlsplit(self.address)
        assert self.ask(f"{parts.path}?{parts.query}").status == 303
        return self


@contextmanager
def browsed(folder: Path) -> Iterator[Visitor]:
    """Serve the runs of a folder until the block ends."""
    addresses: queue.Queue[str] = queue.Queue()
    ended: list[asyncio.Event] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serving() -> None:
        ended.append(asyncio.Event())
        loops.append(asyncio.get_running_loop())
        await serve(folder, 0, addresses.put, ended[0])

    thread = threading.Thread(target=lambda: asyncio.run(serving()), daemon=True)
    thread.start()
    address = addresses.get(timeout=180)
    try:
        yield Visitor(address)
    finally:
        loops[0].call_soon_threadsafe(ended[0].set)
        thread.join()
