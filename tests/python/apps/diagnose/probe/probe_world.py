"""Run a command behind a middlebox: `unshare -Urn python probe_world.py RULE TCP_FASTOPEN COMMAND...`.

Client, middlebox and server are in separate network namespaces. RULE is a behaviour of docs/paths.md or
`none`, TCP_FASTOPEN the server's net.ipv4.tcp_fastopen. Output and exit code are those of the client's
COMMAND.
"""

import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress

SERVER = """
import socket
listener = socket.socket()
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 10)
listener.bind(("10.9.0.2", 80))
listener.listen(10)
while True:
    client, _ = listener.accept()
    if client.recv(4096):
        client.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n")
    client.close()
"""
SYN, RST, ACK, FASTOPEN_OPTION, NOP = 0x02, 0x04, 0x10, 34, 1
OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h: packets that this process sent


class Middlebox:
    """The middlebox between client and server. It remembers flows whose SYN had data."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.after_syn: dict[bytes, int] = {}
        self.accepted: set[bytes] = set()

    def passed(self, frame: bytes, from_client: bool) -> tuple[bytes | None, bytes | None]:
        """Return the frame to pass on (None to drop it), and a frame to send back (None for nothing)."""
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return frame, None
        ip, rest = bytearray(frame[14:34]), frame[34:]  # the kernel's SYNs have no IP options
        rest = rest[: int.from_bytes(ip[2:4]) - 20]  # without Ethernet's padding
        head_bytes = (rest[12] >> 4) * 4
        head, data = bytearray(rest[:head_bytes]), rest[head_bytes:]
        flags = head[13] & (SYN | ACK)
        if from_client and flags == SYN:
            return self._syn(frame, ip, head, data)
        if not from_client and self._is_dropped(bytes(head), flags == SYN | ACK):
            return None, None
        if flags == SYN | ACK and self.rule == "drop-synack-option" and has_option(head):
            return None, None
        if flags == SYN | ACK and self.rule == "strip-synack-option":
            strip_option(head)
        return assembled(frame, ip, head, data), None

    def _syn(
        self, frame: bytes, ip: bytearray, head: bytearray, data: bytes
    ) -> tuple[bytes | None, bytes | None]:
        dropped = {"drop-syn-data": bool(data), "drop-option": has_option(head)}
        if dropped.get(self.rule):
            return None, None
        if self.rule == "rst-syn-data" and data:
            return None, reset(frame, ip, head, data)
        if data:
            self.after_syn[bytes(head[:2])] = int.from_bytes(head[4:8]) + 1
        if self.rule in ("strip-option", "strip-both"):
            strip_option(head)
        if self.rule == "break-cookie":
            break_cookie(head)
        if self.rule in ("strip-data", "strip-both"):
            data = b""
        return assembled(frame, ip, head, data), None

    def _is_dropped(self, head: bytes, synack: bool) -> bool:
        port = head[2:4]
        if port not in self.after_syn:
            return False
        if synack and int.from_bytes(head[8:12]) != self.after_syn[port]:
            self.accepted.add(port)
        if self.rule == "drop-answers":
            return not synack and port in self.accepted
        return synack and self.rule == "drop-synack"


def assembled(frame: bytes, ip: bytearray, head: bytearray, data: bytes) -> bytes:
    """Return the frame with these headers and data, and with correct checksums."""
    ip[2:4] = (20 + len(head) + len(data)).to_bytes(2)
    ip[10:12] = b"\0\0"
    ip[10:12] = checksum(bytes(ip))
    head[16:18] = b"\0\0"
    pseudo = ip[12:20] + struct.pack("!HH", socket.IPPROTO_TCP, len(head) + len(data))
    head[16:18] = checksum(bytes(pseudo + head) + data)
    return frame[:14] + bytes(ip) + bytes(head) + data


def reset(frame: bytes, ip: bytearray, head: bytearray, data: bytes) -> bytes:
    """Return the reset with which a closed port answers a SYN (RFC 9293, section 3.10.7.1)."""
    back = bytearray(ip)
    back[12:16], back[16:20] = ip[16:20], ip[12:16]
    acknowledged = int.from_bytes(head[4:8]) + 1 + len(data) & 0xFFFF_FFFF
    ports = bytes(head[2:4] + head[:2])
    answer = bytearray(ports + struct.pack("!IIBBHHH", 0, acknowledged, 5 << 4, RST | ACK, 0, 0, 0))
    return assembled(frame[6:12] + frame[:6] + frame[12:14], back, answer, b"")


def options(head: bytearray) -> list[tuple[int, int, int]]:
    """Return the kind, position and length of each TCP option."""
    found, at = [], 20
    while at < len(head) and head[at]:
        length = 1 if head[at] == NOP else head[at + 1]
        found.append((head[at], at, length))
        at += length
    return found


def is_fastopen(head: bytearray, kind: int, at: int) -> bool:
    """Return True for a Fast Open option, even in its experimental form (RFC 7413, section 7)."""
    return kind == FASTOPEN_OPTION or (kind in (253, 254) and head[at + 2 : at + 4] == b"\xf9\x89")


def has_option(head: bytearray) -> bool:
    return any(is_fastopen(head, kind, at) for kind, at, _ in options(head))


def strip_option(head: bytearray) -> None:
    for kind, at, length in options(head):
        if is_fastopen(head, kind, at):
            head[at : at + length] = bytes([NOP]) * length


def break_cookie(head: bytearray) -> None:
    """Replace the cookie with another one of the same length. A cookie request has no cookie to replace."""
    for kind, at, length in options(head):
        if is_fastopen(head, kind, at):
            first = at + (2 if kind == FASTOPEN_OPTION else 4)
            head[first : at + length] = bytes(byte ^ 0xFF for byte in head[first : at + length])


def checksum(data: bytes) -> bytes:
    total: int = sum(struct.unpack(f"!{len(data) // 2 + len(data) % 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def forward(rule: str) -> None:
    """Forward frames between client and server for ever."""
    sides, middlebox = [], Middlebox(rule)
    for name in ("m-client", "m-server"):
        side = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        side.bind((name, 0))
        sides.append(side)
    while True:
        for side in select.select(sides, [], [])[0]:
            frame, (_, _, kind, *_) = side.recvfrom(65_536)
            if kind == OUTGOING:
                continue
            onward, back = middlebox.passed(frame, side is sides[0])
            if onward is not None:
                sides[1 - sides.index(side)].send(onward)
            if back is not None:
                side.send(back)


def forward_until_they_end(rule: str) -> None:
    with suppress(OSError):
        forward(rule)


def namespace(commands: str, *command: str) -> subprocess.Popen[str]:
    """Start a shell in a new network namespace. After a line on stdin, it runs `commands`, then `command`."""
    shell = f'echo ready; read _; set -e; {commands}; exec "$@"'
    process = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", shell, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def run(rule: str, setting: str, command: list[str]) -> int:
    def set_up(side: str, address: str, value: str) -> str:
        return (
            f"ip link set lo up; ip addr add {address}/24 dev {side}; ip link set {side} up;"
            f" echo {value} > /proc/sys/net/ipv4/tcp_fastopen;"
            " echo 0 > /proc/sys/net/ipv4/tcp_fastopen_blackhole_timeout_sec"
        )

    client = namespace(set_up("client", "10.9.0.1", "1"), *command)
    server = namespace(set_up("server", "10.9.0.2", setting) + "; echo up", sys.executable, "-c", SERVER)
    try:
        for side, process in (("client", client), ("server", server)):
            link = ["ip", "link", "add", f"m-{side}", "type", "veth", "peer", "name", side]
            subprocess.run([*link, "netns", str(process.pid)], check=True)
            subprocess.run(["ip", "link", "set", f"m-{side}", "up"], check=True)
        threading.Thread(target=forward_until_they_end, args=(rule,), daemon=True).start()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.stdout.readline() == "up\n"
        wait_for_listener(server.pid)
        out, _ = client.communicate("\n", timeout=120)
        sys.stdout.write(out)
        return client.returncode
    finally:
        for process in (client, server):
            process.kill()
            process.wait()


def wait_for_listener(pid: int) -> None:
    """Wait until the server's namespace has a listening socket (state 0A in /proc/PID/net/tcp)."""
    while True:
        with open(f"/proc/{pid}/net/tcp") as table:
            if any(line.split()[3] == "0A" for line in table.readlines()[1:]):
                return


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
