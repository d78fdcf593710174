"""The record of a world: its properties and measurements before its loads."""

from typing import Literal

from fastopen.contract.record_part import Count, RecordPart

EngineName = Literal["host", "virtual"]


class MeasuredRtt(RecordPart):
    """The RTT in microseconds."""

    asked: Count
    """The job's RTT."""
    expected: Count
    """The job's RTT, with the time that the probe's own packets take on the wire."""
    median: Count
    """The median of the measured RTTs."""
    samples: Count
    """Probes that were answered."""

    @property
    def net(self) -> int:
        """Return the measured RTT without the time that the probe's own packets took on the wire."""
        return self.median - (self.expected - self.asked)


class MeasuredRate(RecordPart):
    """The rate in bit/s."""

    asked: Count | None
    """The job's rate; null: no limit."""
    median: Count | None
    """The median of the measured rates; null: not measured."""


class Measured(RecordPart):
    """The measured network of this world.

    It is measured over the requested link without random factors, with a queue that drops at its tail, and
    without a rate limit instead of a trace, since a probe meets a trace at any point.
    """

    rtt_us: MeasuredRtt
    """The RTT of the access link."""
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(RecordPart):
    """Settings of both namespaces, name to value as it was read back."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(RecordPart):
    """The kernel's TCP settings on a fresh connection."""

    congestion_control: str
    initial_window_segments: Count
    """The initial congestion window."""


class Routes(RecordPart):
    """Routes of both namespaces."""

    client: Route
    origins: Route


class FidelityGaps(RecordPart):
    """Resources (by index) that synthetic bodies do not make a browser request as the page has it, in some of
    the job's loads.
    """

    left_out: list[Count]
    """Resources without a reference, since no body has room for it."""
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
    """The clock: this machine's, or that of a kernel of its own."""
    link: Literal["program", "kernel"]
    """The implementation of the link."""
    kernel: str
    """The kernel's version, as in `uname -r`."""
    program: str
    """The program's version."""
    hosts: dict[str, str]
    """Host name to address."""
    path_hosts: list[str] | None = None
    """The hosts behind the middlebox; null: there is none."""
    sysctls: Sysctls
    routes: Routes
    nice: int
    """The priority of the world's processes: -20 with root, else as started."""
    measured: Measured
    fidelity_gaps: FidelityGaps | None = None
    """Deviations of synthetic bodies; null: bodies are not synthetic."""
    setup_us: Count
    """The time of building and measuring."""
