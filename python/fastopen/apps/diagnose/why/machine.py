"""Read the state of TCP Fast Open in this network namespace without root, and list what cannot be read."""

import ctypes
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastopen.common.closing import on_error
from fastopen.common.phrases import plural
from fastopen.common.process import output_of

SETTINGS: Final = (
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fastopen_blackhole_timeout_sec",
    "net.mptcp.enabled",
)
KEY: Final = "net.ipv4.tcp_fastopen_key"
NO_KEY: Final = "00000000-00000000-00000000-00000000"
COUNTER_FILES: Final = (("/proc/net/netstat", "TcpExt"), ("/proc/net/snmp", "Tcp"))
LISTEN: Final = "0A"
# include/uapi/linux/in.h, include/uapi/asm-generic/unistd.h
IPPROTO_MPTCP: Final = 262
SYS_PIDFD_GETFD: Final = 438
METRICS_S: Final = 10


@dataclass(frozen=True)
class LocalListener:
    """A listening TCP or MPTCP socket on this machine. `queue` is its TCP_FASTOPEN option: the maximum number
    of connections with SYN data that are not yet established; 0 for no TFO. `able` is False if the socket
    uses MPTCP and this kernel has no TFO for MPTCP (before Linux 6.2). `process` is the name of the socket's
    process. `queue` and `process` are None if this user may not inspect the process."""

    address: str
    port: int
    queue: int | None
    mptcp: bool = False
    able: bool = True
    process: str | None = None


@dataclass(frozen=True)
class Machine:
    """The TFO settings, counters and listeners of a network namespace at one moment. `settings` maps the
    names of sysctls to their values. `key` is `set` if the kernel has a key for TFO cookies, otherwise
    `none`; None if this user cannot read it. `cookies` is the number of servers whose cookies the kernel
    stores; None if unknown. `unseen` lists the facts that could not be read, each with the reason."""

    settings: Mapping[str, int]
    key: str | None
    counters: Mapping[str, int]
    """The kernel's TcpExt and Tcp counters, keyed by name. They started at 0 when the namespace was made."""
    listeners: tuple[LocalListener, ...] = ()
    cookies: int | None = None
    unseen: tuple[str, ...] = ()

    @property
    def fastopen(self) -> int:
        """Return the value of net.ipv4.tcp_fastopen; 0 if this kernel lacks it."""
        return self.settings.get(SETTINGS[0], 0)


def read_machine() -> Machine:
    """Return the TFO settings, counters and listeners of this process's network namespace. Facts that need
    root or a missing tool are listed in `unseen`."""
    unseen: list[str] = []
    texts = {name: text for name in SETTINGS if (text := sysctl(name)) is not None}
    settings = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    keys = sysctl(KEY)
    key = None if keys is None else "none" if set(keys.split(",")) <= {NO_KEY} else "set"
    if key is None:
        unseen.append(f"{KEY} (needs root outside a container)")
    listeners = tuple(_listeners())
    hidden = sum(listener.queue is None for listener in listeners)
    if hidden:
        unseen.append(f"TFO queues of {plural(hidden, 'listener')} (needs root outside a container)")
    cookies = _cookies()
    if cookies is None:
        unseen.append("cookies of the kernel (install iproute2)")
    return Machine(settings, key, read_counters(), listeners, cookies, tuple(unseen))


def read_counters() -> dict[str, int]:
    """Return the kernel's TcpExt and Tcp counters (in /proc/net/netstat and /proc/net/snmp), keyed by name;
    empty if the files cannot be read."""
    found: dict[str, int] = {}
    for path, group in COUNTER_FILES:
        rows = [line.split() for line in _lines(path) if line.startswith(f"{group}:")]
        for names, values in zip(rows[::2], rows[1::2], strict=True):
            found |= dict(zip(names[1:], map(int, values[1:]), strict=False))
    return found


def sysctl(name: str) -> str | None:
    """Return the text of a kernel setting (sysctl); None if it does not exist or may not be read."""
    text = _text(f"/proc/sys/{name.replace('.', '/')}")
    return None if text is None else text.strip()


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _lines(path: str) -> list[str]:
    return (_text(path) or "").splitlines()


def _listeners() -> Iterator[LocalListener]:
    sockets: dict[str, tuple[str, int]] = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in (line.split() for line in _lines(path)[1:]):
            if row[3] == LISTEN:
                local, _, local_port = row[1].partition(":")
                sockets[row[9]] = _shown(local), int(local_port, 16)
    seen = _inspected(set(sockets))
    mptcp_ports = {listener.port for listener in seen.values() if listener.mptcp}
    yield from (listener for inode, listener in seen.items() if listener.mptcp)
    for inode, (address, port) in sockets.items():
        if inode in seen:
            if not seen[inode].mptcp:
                yield seen[inode]
        elif port not in mptcp_ports:  # an MPTCP listener's own TCP socket has no descriptor
            yield LocalListener(address, port, None)


def _inspected(inodes: set[str]) -> dict[str, LocalListener]:
    """Map inodes to listeners that this user may inspect: TCP listeners in `inodes`, and MPTCP listeners."""
    found: dict[str, LocalListener] = {}
    own = os.readlink("/proc/self/ns/net")
    # No file lists MPTCP sockets, but this file counts them.
    rows = [line.split() for line in _lines("/proc/net/protocols")]
    mptcp = any(row[0].startswith("MPTCP") and row[2] != "0" for row in rows)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns/net") != own:
                continue
            descriptors = list((process / "fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                inode = os.readlink(descriptor).removeprefix("socket:[").removesuffix("]")
            except OSError:
                continue
            if not inode.isdecimal() or inode in found or not (mptcp or inode in inodes):
                continue
            listener = _listener(int(process.name), int(descriptor.name), is_tcp=inode in inodes)
            if listener is not None:
                found[inode] = listener
    return found


def _listener(pid: int, descriptor: int, *, is_tcp: bool) -> LocalListener | None:
    """Return the listener that process `pid` has open as `descriptor`; None if that file is not a TCP or
    MPTCP listener, or cannot be read. `is_tcp` is True if the kernel lists the socket as a TCP listener."""
    try:
        with _duplicate(pid, descriptor) as own:
            mptcp = own.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == IPPROTO_MPTCP
            if not (is_tcp or mptcp) or not own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return None
            able = True
            try:
                queue = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN)
            except OSError:
                queue, able = 0, False
            host, port = own.getsockname()[:2]
    except OSError:
        return None
    name = (_text(f"/proc/{pid}/comm") or str(pid)).strip()
    return LocalListener(host, port, queue, mptcp, able, name)


def _duplicate(pid: int, descriptor: int) -> socket.socket:
    """Duplicate a socket of process `pid`. Raises OSError if it is another type of file or inaccessible."""
    handle = os.pidfd_open(pid)
    try:
        duplicate = ctypes.CDLL(None).syscall(SYS_PIDFD_GETFD, handle, descriptor, 0)
    finally:
        os.close(handle)
    if duplicate < 0:
        raise PermissionError
    with on_error(lambda: os.close(duplicate)):
        return socket.socket(fileno=duplicate)


def _shown(address: str) -> str:
    """Format an address from /proc/net/tcp, which has 32-bit words in the machine's byte order."""
    raw = bytes.fromhex(address)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


def _cookies() -> int | None:
    tool = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if tool is None:
        return None
    try:
        done = output_of([tool, "-j", "tcp_metrics", "show"], METRICS_S)
        entries = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError):
        return None
    return None if entries is None else sum(any("cookie" in key for key in entry) for entry in entries)
