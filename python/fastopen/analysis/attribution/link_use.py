"""Explain a slower load by additional bytes in a direction of the link that was busy for most of the load."""

from collections.abc import Iterator
from typing import Final

from fastopen.common.phrases import NBSP, plural, share, size, time
from fastopen.contract import LoadRecord, Network

# A direction of the link that is busy for a smaller part of the load has room for more bytes.
BUSY_MIN: Final = 0.75
# Additional bytes explain a slower load if sending them takes at least this part of the additional load time.
EXPLAINS_MIN: Final = 0.5
# Datagrams with QUIC Initial packets are padded to at least this size (RFC 9000 section 14.1).
PADDED_BYTES: Final = 1200


def fuller_link(network: Network, before: LoadRecord, after: LoadRecord) -> str:
    """Return why `after` took longer than `before` on the same network; empty if no busy link explains it."""
    if before.plt_ns is None or after.plt_ns is None:
        return ""
    slower_ns = after.plt_ns - before.plt_ns
    for name, way in (("uplink", "up"), ("downlink", "down")):
        rate = getattr(network, way).rate_bit_per_s
        was, now = (getattr(record.link, way).bytes for record in (before, after))
        if not rate or slower_ns <= 0:
            continue
        busy_ns, more_ns = (8e9 * count / rate for count in (now, now - was))
        if busy_ns >= BUSY_MIN * after.plt_ns and more_ns >= EXPLAINS_MIN * slower_ns:
            # Capped at 100 %, because the last packets may still be queued when the load ends.
            busy = share(min(1.0, busy_ns / after.plt_ns))
            of_which = "; ".join(_of_which(way, before, after))
            why = f" ({of_which})" if of_which else ""
            return (
                f"the {name} is busy for {busy} of the load and carries {size(now - was)} more"
                f" ({size(now)}), which costs {time(more_ns / 1e6)}{why}"
            )
    return ""


def _of_which(way: str, before: LoadRecord, after: LoadRecord) -> Iterator[str]:
    """Yield phrases on packets that the sending end sent more often in `after` than in `before`: QUIC Initial
    packets and retransmitted TCP segments."""
    was, now = _initial_packets(way, before), _initial_packets(way, after)
    if now > was:
        against = f" against {was}" if was else ""
        connections = plural(sum(one.quic is not None for one in after.connections), "connection")
        yield (
            f"{now} Initial packets of QUIC{against}, on {connections}, in datagrams padded to"
            f" {PADDED_BYTES:,}{NBSP}bytes"
        )
    was, now = _retransmitted(way, before), _retransmitted(way, after)
    if now > was:
        yield f"{now} TCP segments retransmitted, compared with {was}"


def _initial_packets(way: str, record: LoadRecord) -> int:
    quics = (connection.quic for connection in record.connections if connection.quic is not None)
    ends = (quic.client if way == "up" else quic.origin for quic in quics)
    return sum(end.sent.initial for end in ends if end is not None)


def _retransmitted(way: str, record: LoadRecord) -> int:
    ends = (one.client if way == "up" else one.origin for one in record.connections)
    return sum(end.retransmits for end in ends if end is not None)
