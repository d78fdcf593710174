"""Define the parts that several kinds of records share: kernel counters and the use of the link."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class RecordPart(BaseModel):
    """Base class of records and their parts. It ignores unknown keys and rejects values of the wrong type."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)


class Counters(RecordPart):
    """The growth of the kernel's counters during the load, keyed by their names in /proc/net/netstat (TcpExt)
    and /proc/net/snmp (Tcp). UDP counters have the prefix `Udp`. Counters that did not grow are left out."""

    client: dict[str, int]
    origins: dict[str, int]


class LinkUse(RecordPart):
    """Statistics of one direction of the link: packets, bytes, drops, lateness (0 with the kernel's link)."""

    packets: Count
    """The number of packets that were accepted: released, or still under way at the end of the load."""
    bytes: Count
    """The total size of all accepted IP packets."""
    dropped_queue: Count
    """The number of packets dropped because the queue was full, or by active queue management (`aqm`)."""
    dropped_loss: Count
    """The number of packets that were lost at random."""
    dropped_path: Count = 0
    """The number of packets that a middlebox dropped, or answered itself."""
    overruns: Count
    """The number of packets lost in the kernel on the way to the link, or because the interface was gone."""
    queue_bytes_max: Count | None
    """The largest number of bytes in the queue; null if the kernel's link does not report it."""
    late_us_p50: Count
    """Median lateness in microseconds: time from when a packet was due to leave the link until it left."""
    late_us_p99: Count
    """The 99th percentile of the lateness of packets (see `late_us_p50`), in microseconds."""
    late_us_max: Count
    """The largest lateness of a packet (see `late_us_p50`), in microseconds."""


class Link(RecordPart):
    """The use of both directions of the link during the load."""

    down: LinkUse
    up: LinkUse
