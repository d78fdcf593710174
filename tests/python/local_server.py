"""An HTTP server for tests, on a free port of 127.0.0.1, with a thread for each request."""

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LocalServer(http.server.ThreadingHTTPServer):
    """A server that, when closed, does not wait for the threads that handle requests."""

    daemon_threads = True

    def __init__(self, handler: type["Handler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.closing = threading.Event()
        """Set when the test is over, so that handlers that send without end can stop."""


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler for HTTP/1.1 with persistent connections. It logs nothing."""

    protocol_version = "HTTP/1.1"
    server: LocalServer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(handler: type[Handler], certificate: Path | None = None) -> Iterator[int]:
    """Run a server until the block ends. Yields its port. It uses TLS if given a certificate with its key."""
    server = LocalServer(handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
