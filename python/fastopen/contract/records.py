"""Define the output of fastopen's Rust program fastopen-world, which emulates networks and loads pages.

Each line is a JSON record with its kind in `type`. Unknown keys are ignored: a newer program may add some
without a new version of this format. Known keys are validated strictly. Old field names stay readable for
stored runs. tools/generate.py makes a JSON schema and tables in docs/dev/contract.md from these models."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fastopen.common.pydantic_errors import Items, problems_of
from fastopen.contract.invalid_kinds import Invalid
from fastopen.contract.job import CONTRACT, Cookies, Transport
from fastopen.contract.load_record import Counters, Link, LoadRecord
from fastopen.contract.part import Count, RecordPart

EngineName = Literal["host", "virtual"]
# A bin of a histogram: a value, and its number of occurrences.
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]


class MeasuredRtt(RecordPart):
    """RTTs in microseconds: requested, expected (with the transmission time of probes), and measured."""

    asked: Count
    """The job's RTT."""
    expected: Count
    """The job's RTT plus the transmission time of the probe's own packets."""
    median: Count
    """The median RTT of the answered probes (TCP handshakes), including the probes' transmission time."""
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
    """The rate at which a burst of back-to-back probe packets arrived; null: not measured."""


class Measured(RecordPart):
    """Measurements of the emulated network, made with probes (test packets). For probes, the link has a
    tail-drop queue and no loss, jitter or reordering. If the job has a packet trace (`trace_ms`) instead of a
    rate, the link has no rate limit for probes."""

    rtt_us: MeasuredRtt
    """The RTT of the access link."""
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(RecordPart):
    """Kernel settings by name, read from the network namespaces of the client and of the origins."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(RecordPart):
    """The TCP settings that the kernel uses for a new connection."""

    congestion_control: str
    initial_window_segments: Count
    """The initial congestion window."""


class Routes(RecordPart):
    """The TCP settings for new connections in the network namespaces of the client and of the origins."""

    client: Route
    origins: Route


class FidelityGaps(RecordPart):
    """The indices of resources that a browser requests too early, too late or never with synthetic bodies."""

    left_out: list[Count]
    """Resources to which no body refers, because the bodies are too small."""
    relocated: list[Count]
    """Resources requested after their initiator's response instead of during it: its body lacked room."""
    early: list[Count]
    """Resources requested too early, without the page's processing time before the request."""


class WorldRecord(RecordPart):
    """The emulated network of a job (its world), as built and measured before the loads."""

    type: Literal["world"]
    job: str
    contract: Count
    """The version of the format of jobs and records that the program uses."""
    engine: EngineName
    """The clock of the loads: this machine's clock (`host`), or that of a separate kernel (`virtual`)."""
    link: Literal["program", "kernel"]
    """The implementation of the link: the world program or the kernel."""
    kernel: str
    """The kernel's version, as in `uname -r`."""
    program: str
    """The program's version."""
    hosts: dict[str, str]
    """Maps host names to IP addresses: to IPv6 addresses if the hosts have addresses of both versions."""
    path_hosts: list[str] | None = None
    """The hosts behind the middlebox; null: there is no middlebox."""
    sysctls: Sysctls
    routes: Routes
    nice: int
    """The nice value of the world's processes: -20 as root, otherwise unchanged."""
    measured: Measured
    fidelity_gaps: FidelityGaps | None = None
    """Deviations of synthetic bodies from the page; null: bodies are not synthetic."""
    setup_us: Count
    """The time to build and measure the emulated network."""


class ServerCore(RecordPart):
    """CPU use (`/proc/stat`) of the server's core, which also receives its packets if `steered` is true."""

    number: Count
    """The number of the core to which the server's threads are pinned."""
    steered: bool
    """True if the kernel receives the server's packets on this core (`net.core.rps_default_mask`)."""
    elapsed_us: Count
    """The wall-clock time over which the CPU times in this record were measured."""
    idle_us: Count
    """Idle time, exact if the kernel stops its tick on an idle core (NO_HZ)."""
    user_us: Count
    """Time in processes of normal or higher priority. Like `nice_us`, `system_us` and `interrupts_us`, it is
    counted in ticks."""
    nice_us: Count
    """Time in processes of a lower priority. The server is not among these processes."""
    system_us: Count
    """Time in the kernel, for processes."""
    interrupts_us: Count
    """Time in interrupts and softirqs."""
    stolen_us: Count
    """Time that the hypervisor spent on other work (steal time)."""
    server_threads_us: Count
    """Time in which the server's threads ran (`schedstat`), including interrupts while they ran. It covers
    all work for the server, except softirqs on a core that was idle."""


class TransactionsRecord(RecordPart):
    """The results of a load test of a server with transactions: connections with one request each."""

    type: Literal["transactions"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """True if the evidence shows no fault, so that `invalid` is empty."""
    invalid: Items[Invalid]
    """The reasons why the results are invalid. Overload, a flood or a new key does not make them invalid."""
    started_unix_ms: Count
    """The time at which transactions began, in milliseconds since 1970 (UTC)."""
    cookies_before: Count
    """The number of hosts whose cookie the client held at the beginning."""
    begun: Count
    """The number of transactions that began."""
    not_begun: Count
    """The number of due transactions that never began, because 20,000 were running or no address was left."""
    arrived_over_us: Count
    """The time from when the first transaction was due until the last one began."""
    elapsed_us: Count
    """The time from when the first transaction was due until the last one ended."""
    answered: Count
    """The number of transactions with a complete response."""
    answered_over_us: Count
    """The time from the first complete response to the last one."""
    failures: dict[str, Count]
    """Maps the ten most frequent failures of unanswered transactions to their numbers of occurrences."""
    syn_data: Count
    """The number of transactions with data in their SYN that was acknowledged (TCPI_OPT_SYN_DATA)."""
    fallbacks: Count
    """The number of transactions with unacknowledged SYN data, retransmitted after the handshake."""
    retransmits: Count
    """The number of segments that the client's end retransmitted."""
    latency_us: list[Pair]
    """Latencies of answered transactions, from when they were due to their last byte: a histogram (HDR, four
    significant digits), as pairs of a value and its number of occurrences."""
    late: Count
    """The number of transactions that began more than `transactions.late_us` after they were due."""
    lateness_us: list[Pair]
    """Times from when transactions were due until they began, in the format of `latency_us`."""
    generator_us: Count
    """CPU time of the thread that makes transactions; 0 if computing takes no time, as in virtual time."""
    fastopen_queue: Count | None
    """The size of the smallest Fast Open queue of the server's listeners; null: it could not be read."""
    flood_syns: Count
    """The number of SYNs that the flood sent."""
    counters: Counters
    link: Link
    core: ServerCore | None
    """The server's core; null: time is virtual, or this machine has only one core."""


class PacketsRecord(RecordPart):
    """A piece of a load's packet capture, if the job requested one (`packets`): the packets at the interfaces
    of both ends, with the hosts' names and the TLS secrets. The load's record follows the last piece."""

    type: Literal["packets"]
    job: str
    id: str
    pcapng: str
    """The piece in base64. The concatenated pieces of a load are a file in the format pcapng."""
    dropped: Count
    """The number of the load's packets that were left out because the capture buffers were full."""


class EndRecord(RecordPart):
    """The end of a job, after its emulated network was removed."""

    type: Literal["end"]
    job: str
    loads: Count
    """The number of load records that were written."""
    teardown_us: Count
    """The time to remove the emulated network."""


class ErrorRecord(RecordPart):
    """The failure that ended a job."""

    type: Literal["error"]
    job: str | None
    """The id of the job; null: no job could be read."""
    fault: Literal["input", "machine", "world", "internal"]
    """The cause: the input, this machine, an emulated network that differs from the job's, or the program."""
    message: str
    """A description of the problem and its place."""
    remedy: str = ""
    """A remedy for the user; may be empty."""


Record = WorldRecord | LoadRecord | TransactionsRecord | PacketsRecord | EndRecord | ErrorRecord
RECORDS: Final[TypeAdapter[Record]] = TypeAdapter(
    Annotated[Record, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
"""A parser that selects the model of a record by its `type`."""


class RecordError(ValueError):
    """Raised if a line of the world program's output is not a valid record. The message is the reason."""


class ContractVersionError(RecordError):
    """Raised if the world program writes a version of the format that this code does not support."""


def parse_record(line: bytes | str) -> Record:
    """Parse a line of the world program's output. Raises RecordError if the line is not a valid record, and
    its subclass ContractVersionError if the format's version in a WorldRecord is not CONTRACT."""
    try:
        record = RECORDS.validate_json(line)
    except ValidationError as error:
        first = problems_of(error)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if isinstance(record, WorldRecord) and record.contract != CONTRACT:
        raise ContractVersionError(f"the world program speaks contract {record.contract}, not {CONTRACT}")
    return record
