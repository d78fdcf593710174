"""Define the record of a world: its properties and measurements before its loads."""

from typing import Literal

from fastopen.contract.record_part import Count, RecordPart

EngineName = Literal["host", "virtual"]


class MeasuredRtt(RecordPart):
    """The requested and the measured RTT in microseconds."""

    asked: Count
    """The job's RTT."""
    expected: Count
    """The job's RTT plus the transmission time of the probe's own packets."""
    median: Count
    """The median of the measured RTTs."""
    samples: Count
    """The number of probes that were answered."""

    @property
    def net(self) -> int:
        """Return the measured RTT without the transmission time of the probe's own packets."""
        return self.median - (self.expected - self.asked)


class MeasuredRate(RecordPart):
    """The requested and the measured rate in bit/s."""

    asked: Count | None
    """The job's rate; null: no limit."""
    median: Count | None
    """The median of the measured rates; null: not measured."""


class Measured(RecordPart):
    """The measured network of this world. Probes cross the requested link without loss, jitter or reordering,
    and with a tail-drop queue. An unlimited rate replaces a requested trace, because a probe may arrive at
    any point of the trace."""

    rtt_us: MeasuredRtt
    """The RTT of the access link."""
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(RecordPart):
    """Kernel settings of both namespaces: names mapped to values, as read back."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(RecordPart):
    """The TCP settings that the kernel uses for a new connection."""

    congestion_control: str
    initial_window_segments: Count
    """The initial congestion window."""


class Routes(RecordPart):
    """The TCP settings for new connections in both namespaces."""

    client: Route
    origins: Route


class FidelityGaps(RecordPart):
    """Differences between the requests that a browser makes with synthetic bodies and the page's description,
    in some of the job's loads. Each key lists the indices of resources."""

    left_out: list[Count]
    """Resources to which no body refers, because no body has room for the reference."""
    relocated: list[Count]
    """Resources whose reference is earlier than in the page."""
    early: list[Count]
    """Resources that are requested without the page's processing time."""


class WorldRecord(RecordPart):
    """The world as it was built and measured, before its loads."""

    type: Literal["world"]
    job: str
    contract: Count
    """The version of the contract that the program speaks."""
    engine: EngineName
    """The clock of the loads: that of this machine (`host`), or of a separate kernel (`virtual`)."""
    link: Literal["program", "kernel"]
    """The implementation of the link."""
    kernel: str
    """The kernel's version, as in `uname -r`."""
    program: str
    """The program's version."""
    hosts: dict[str, str]
    """Maps the names of hosts to their addresses."""
    path_hosts: list[str] | None = None
    """The hosts behind the middlebox; null: there is no middlebox."""
    sysctls: Sysctls
    routes: Routes
    nice: int
    """The nice value of the world's processes: -20 with root, otherwise as started."""
    measured: Measured
    fidelity_gaps: FidelityGaps | None = None
    """Deviations of synthetic bodies; null: bodies are not synthetic."""
    setup_us: Count
    """The time to build and measure the world."""
