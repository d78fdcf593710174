"""Diagnose misconfigured machines: `unshare --user --map-root-user --net python wrong_machines.py`.

Each machine is a new network namespace, set up by a function with its name. Prints the findings as JSON.
"""

import ctypes
import json
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from fastopen.apps.diagnose.why.diagnosis import diagnose
from fastopen.apps.diagnose.why.machine import read_machine

CLONE_NEWNET = 0x4000_0000
PORT = 8080
TCP_FASTOPEN_CONNECT = 30
IPPROTO_MPTCP = 262
KEYS = ("11111111-11111111-11111111-11111111", "22222222-22222222-22222222-22222222")


def setting(name: str, value: object) -> None:
    Path(f"/proc/sys/net/ipv4/{name}").write_text(str(value))


def listener(keep: ExitStack, queue: int = 0, protocol: int = socket.IPPROTO_TCP) -> socket.socket:
    server = keep.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if queue:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, queue)
    server.bind(("127.0.0.1", PORT))
    server.listen(20)
    return server


def load(server: socket.socket) -> None:
    """Open a connection with TFO to the server, and accept it."""
    with socket.socket() as client:
        client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        client.connect(("127.0.0.1", PORT))
        client.sendall(b"hello")
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(100) == b"hello"


def works(keep: ExitStack) -> None:
    server = listener(keep, 20)
    load(server)
    load(server)


def client_off(_: ExitStack) -> None:
    setting("tcp_fastopen", 2)


def server_off(keep: ExitStack) -> None:
    setting("tcp_fastopen", 1)
    load(listener(keep, 20))


def nobody_asked(keep: ExitStack) -> None:
    load(listener(keep))


def cookie_less_client(keep: ExitStack) -> None:
    setting("tcp_fastopen", 7)
    load(listener(keep, 20))


def changed_key(keep: ExitStack) -> None:
    server = listener(keep, 20)
    setting("tcp_fastopen_key", KEYS[0])
    load(server)
    setting("tcp_fastopen_key", KEYS[1])
    load(server)


def queue_of_one(keep: ExitStack) -> None:
    load(listener(keep, 1))


def full_queue(keep: ExitStack) -> None:
    server = listener(keep, 1)
    load(server)
    # A connection leaves the queue with the final ACK of its handshake, which this delay postpones.
    rule = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "20ms"]
    subprocess.run(rule, check=True, capture_output=True)
    for _ in range(4):
        client = keep.enter_context(socket.socket())
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.sendto(b"hello", socket.MSG_FASTOPEN, ("127.0.0.1", PORT))
    for _ in range(4):
        keep.enter_context(server.accept()[0])


def mptcp(keep: ExitStack) -> None:
    listener(keep, 0, IPPROTO_MPTCP)


def mptcp_with_a_queue(keep: ExitStack) -> None:
    server = listener(keep, 20, IPPROTO_MPTCP)
    load(server)
    load(server)


def one_of_two_listeners(keep: ExitStack) -> None:
    other = keep.enter_context(socket.create_server(("127.0.0.1", PORT + 1)))
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 20)
    with socket.socket() as client:
        server = listener(keep)
        client.sendto(b"hello", socket.MSG_FASTOPEN, ("127.0.0.1", PORT))
        server.accept()[0].close()


MACHINES: tuple[Callable[[ExitStack], None], ...] = (
    *(
        works,
        client_off,
        server_off,
        nobody_asked,
        cookie_less_client,
        changed_key,
        queue_of_one,
        full_queue,
        mptcp,
        mptcp_with_a_queue,
        one_of_two_listeners,
    ),
)


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    found: dict[str, dict[str, object]] = {}
    for machine in MACHINES:
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        setting("tcp_fastopen", 3)
        with ExitStack() as keep:
            try:
                machine(keep)
            except (OSError, subprocess.CalledProcessError) as error:
                found[machine.__name__] = {"cannot": str(error)}
                continue
            seen = read_machine()
            findings = diagnose(seen, seen.counters)
            found[machine.__name__] = {one.key: [row.name for row in one.rows] for one in findings}
    print(json.dumps(found))


main()
