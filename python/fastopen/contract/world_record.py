"""The record of a world: what was made and measured before its loads."""

from typing import Literal

from fastopen.contract.record_part import Count, RecordPart

EngineName = Literal["host", "virtual"]


class MeasuredRtt(RecordPart):
    """RTT in microseconds."""

    asked: Count
    """The job's."""
    expected: Count
    """As asked, and the time that the probe's own packets take on the wire."""
    median: Count
    """As measured."""
    samples: Count
    """How many probes were answered."""

    @property
    def net(self) -> int:
        """The measured RTT without the time that the probe's own packets took on the wire."""
        return self.median - (self.expected - self.asked)


class MeasuredRate(RecordPart):
    """Rate in bit/s."""

    asked: Count | None
    """The job's; null: no limit."""
    median: Count | None
    """As measured; null: not measured."""


class Measured(RecordPart):
    """The measured network of this world.

    It is measured over the requested link without random factors, with a queue that drops at its tail, and
    without a rate limit instead of a trace, since a probe meets a trace at any point.
    """

    rtt_us: MeasuredRtt
    """Of the access link."""
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(RecordPart):
    """Settings of both namespaces, name to value as it was read back."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(RecordPart):
    """TCP as the kernel has it on a fresh connection."""

    congestion_control: str
    initial_window_segments: Count
    """Of the congestion window."""


class Routes(RecordPart):
    """Routes of both namespaces."""

    client: Route
    origins: Route


class FidelityGaps(RecordPart):
    """Resources (by index) that synthetic bodies do not have a browser ask for as the page says, in some of
    the job's loads."""

    left_out: list[Count]
    """No body has room for a reference to it."""
    relocated: list[Count]
    """Its reference stands further up than the page has it."""
    early: list[Count]
    """It is asked for without the page's processing time."""


class WorldRecord(RecordPart):
    """The world as it was built and measured, before its loads."""

    type: Literal["world"]
    job: str
    contract: Count
    """The version that the program speaks."""
    engine: EngineName
    """Whose clock runs: this machine's, or a kernel's of its own."""
    link: Literal["program", "kernel"]
    """Who makes the link."""
    kernel: str
    """As `uname -r` says it."""
    program: str
    """The program's version."""
    hosts: dict[str, str]
    """Host name to address."""
    path_hosts: list[str] | None = None
    """The hosts that lie behind the middlebox; null: there is none."""
    sysctls: Sysctls
    routes: Routes
    nice: int
    """Of the world's processes: -20 where root, else as started."""
    measured: Measured
    fidelity_gaps: FidelityGaps | None = None
    """null: bodies are not synthetic."""
    setup_us: Count
    """How long building and measuring took."""
