"""Explains a slower load by more bytes on a direction of the link that was busy."""

from collections.abc import Iterator
from typing import Final

from fastopen.common.phrases import NBSP, plural, share, size, time
from fastopen.contract import LoadRecord, Network

# A direction that is busy for less of a load has room for more.
BUSY_MIN: Final = 0.75
# What crosses it in addition explains a slower load if it takes so much of the difference.
EXPLAINS_MIN: Final = 0.5
# Of UDP: what datagrams with Initial packets are padded to (RFC 9000 section 14.1).
PADDED_BYTES: Final = 1200


def fuller_link(network: Network, before: LoadRecord, after: LoadRecord) -> str:
    """Why `after` took longer than `before` over the same network, if a busy link says it; else empty."""
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
            # The last packets may wait in the queue when the load ends.
            busy = share(min(1.0, busy_ns / after.plt_ns))
            of_which = "; ".join(_of_which(way, before, after))
            why = f" ({of_which})" if of_which else ""
            return (
                f"the {name} is busy for {busy} of the load and carries {size(now - was)} more"
                f" ({size(now)}), which costs {time(more_ns / 1e6)}{why}"
            )
    return ""


def _of_which(way: str, before: LoadRecord, after: LoadRecord) -> Iterator[str]:
    """Yield the kinds of bytes that there are more of, by the evidence of the sending end."""
    was, now = _initial_packets(way, before), _initial_packets(way, after)
    if now > was:
        against = f" against {was}" if was else ""
        connections = plural(sum(one.quic is not None for one in after.connections), "connection")
        yield (
            f"{now} Initial packets of QUIC{against}, on {connections}, in datagrams padded to"
            f" {PADDED_BYTES:,}{NBSP}bytes"
        )
    was, now = _sent_again(way, before), _sent_again(way, after)
    if now > was:
        yield f"{now} TCP segments retransmitted, compared with {was}"


def _initial_packets(way: str, record: LoadRecord) -> int:
    quics = (connection.quic for connection in record.connections if connection.quic is not None)
    ends = (quic.client if way == "up" else quic.origin for quic in quics)
    return sum(end.sent.initial for end in ends if end is not None)


def _sent_again(way: str, record: LoadRecord) -> int:
    ends = (one.client if way == "up" else one.origin for one in record.connections)
    return sum(end.retransmits for end in ends if end is not None)
