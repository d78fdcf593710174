"""Run the web server of `fastopen browse` on the loopback address. Requests need a random access token."""

import asyncio
import errno
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tornado.httpserver import HTTPServer

from fastopen.apps.browse.guard import TOKEN, ServerState
from fastopen.apps.browse.handlers import application
from fastopen.apps.browse.kept import Kept
from fastopen.common.errors import InputError, MachineError

ADDRESS: Final = "127.0.0.1"
TOKEN_BYTES: Final = 32


async def serve(
    folder: Path, port: int, announce: Callable[[str], None], stop: asyncio.Event | None = None
) -> None:
    """Serve the runs of `folder` over HTTP until `stop` is set (by default, by SIGINT, SIGTERM or SIGHUP).

    `announce` is called with the URL when the server is ready. Raises InputError if `port` cannot be used, or
    MachineError if `port` is 0 (any port) and no port is free."""
    try:
        listening = socket.create_server((ADDRESS, port))
    except OSError as error:
        words = "in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        if port == 0:
            raise MachineError(f"no free port on {ADDRESS}: {error.strerror}") from None
        raise InputError(words, f"--port {port}", "leave it out to use a free one") from None
    listening.setblocking(False)
    port = listening.getsockname()[1]
    state = ServerState(Kept(folder), secrets.token_urlsafe(TOKEN_BYTES), port)
    server = HTTPServer(application(state))
    server.add_socket(listening)
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
    announce(f"http://{ADDRESS}:{port}/?{TOKEN}={state.token}")
    try:
        await stop.wait()
    finally:
        server.stop()
        await server.close_all_connections()
