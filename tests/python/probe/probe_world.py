"""A client, a middlebox and a server, each in a network namespace: `unshare -Urn python probe_world.py ...`.

Arguments: what the middlebox does (`nothing`, `drop data`, `drop option`, `strip option`, `strip data`), the
server's net.ipv4.tcp_fastopen, and the command that the client runs, whose output and exit code are ours.
"""

import select
import socket
import struct
import subprocess
import sys
import threading

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
SYN, FASTOPEN_OPTION, NOP = 0x02, 34, 1
OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h: what we sent ourselves


def rewritten(frame: bytes, rule: str) -> bytes | None:
    """The frame as the middlebox hands it on; None: it drops it."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return frame
    ip, rest = bytearray(frame[14:34]), frame[34:]  # the kernel's SYNs have no IP options
    rest = rest[: int.from_bytes(ip[2:4]) - 20]  # without Ethernet's padding
    head_bytes = (rest[12] >> 4) * 4
    head, data = bytearray(rest[:head_bytes]), rest[head_bytes:]
    if head[13] & SYN:
        if (rule == "drop data" and data) or (rule == "drop option" and has_option(head)):
            return None
        if rule == "strip option":
            strip_option(head)
        if rule == "strip data":
            data = b""
    ip[2:4] = (20 + len(head) + len(data)).to_bytes(2)
    ip[10:12] = b"\0\0"
    ip[10:12] = checksum(bytes(ip))
    head[16:18] = b"\0\0"
    pseudo = ip[12:20] + struct.pack("!HH", socket.IPPROTO_TCP, len(head) + len(data))
    head[16:18] = checksum(bytes(pseudo + head) + data)
    return frame[:14] + bytes(ip) + bytes(head) + data


def options(head: bytearray) -> list[tuple[int, int, int]]:
    """Kind, place and length of each option."""
    found, at = [], 20
    while at < len(head) and head[at]:
        length = 1 if head[at] == NOP else head[at + 1]
        found.append((head[at], at, length))
        at += length
    return found


def is_fastopen(head: bytearray, kind: int, at: int) -> bool:
    """Also the experimental form (RFC 7413, section 7)."""
    return kind == FASTOPEN_OPTION or (kind in (253, 254) and head[at + 2 : at + 4] == b"\xf9\x89")


def has_option(head: bytearray) -> bool:
    return any(is_fastopen(head, kind, at) for kind, at, _ in options(head))


def strip_option(head: bytearray) -> None:
    for kind, at, length in options(head):
        if is_fastopen(head, kind, at):
            head[at : at + length] = bytes([NOP]) * length


def checksum(data: bytes) -> bytes:
    total: int = sum(struct.unpack(f"!{len(data) // 2 + len(data) % 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def forward(rule: str) -> None:
    """Hands frames on between the two sides for ever."""
    sides = []
    for name in ("m-client", "m-server"):
        side = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        side.bind((name, 0))
        sides.append(side)
    while True:
        for side in select.select(sides, [], [])[0]:
            frame, (_, _, kind, *_) = side.recvfrom(65_536)
            new = None if kind == OUTGOING else rewritten(frame, rule)
            if new is not None:
                sides[1 - sides.index(side)].send(new)


def namespace(commands: str, *command: str) -> subprocess.Popen[str]:
    """A process in a network namespace of its own, that goes on when it is told to."""
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
        threading.Thread(target=forward, args=(rule,), daemon=True).start()
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
    """Until the server's namespace has a socket that listens (state 0A)."""
    while True:
        with open(f"/proc/{pid}/net/tcp") as table:
            if any(line.split()[3] == "0A" for line in table.readlines()[1:]):
                return


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
