"""What the world program answers: one record a line, told apart by `type`.

Keys that this reader does not know are skipped, since a newer program of the same contract may add some;
keys that it needs are checked strictly. Kept runs are read under the
names of the contract that wrote them.
"""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fastopen.contract.job import CONTRACT, Cookies, Transport


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class MeasuredRtt(_Part):
    """RTT in microseconds: asked, expected (asked plus the probe's own serialisation), measured."""

    asked: int
    expected: int
    median: int
    samples: int

    @property
    def net(self) -> int:
        """The measured RTT without the time that the probe's own packets took on the wire."""
        return self.median - (self.expected - self.asked)


class MeasuredRate(_Part):
    """Rate in bit/s; null asked: no limit; null median: not measured."""

    asked: int | None
    median: int | None


class Measured(_Part):
    """What the network of this world turned out to be."""

    rtt_us: MeasuredRtt
    down_bit_per_s: MeasuredRate
    up_bit_per_s: MeasuredRate


class Sysctls(_Part):
    """Settings of both namespaces as they were read back."""

    client: dict[str, str]
    origins: dict[str, str]


class Route(_Part):
    """What the routes ask of the kernel's TCP."""

    congestion_control: str
    initial_window_segments: int


class Routes(_Part):
    """Routes of both namespaces."""

    client: Route
    origins: Route


class FidelityGaps(_Part):
    """Resources (by index) that synthetic bodies do not have a browser ask for as the page says."""

    left_out: list[int]
    relocated: list[int] = Field(validation_alias=AliasChoices("relocated", "moved"))
    early: list[int] = Field(validation_alias=AliasChoices("early", "hurried"))


class WorldRecord(_Part):
    """The world as it was built and measured, before its loads."""

    type: Literal["world"]
    job: str
    contract: int
    engine: Literal["host", "virtual"]
    link: Literal["program", "kernel"]
    kernel: str
    program: str
    hosts: dict[str, str]
    sysctls: Sysctls
    routes: Routes
    nice: int
    measured: Measured
    fidelity_gaps: FidelityGaps | None = Field(
        default=None, validation_alias=AliasChoices("fidelity_gaps", "structure")
    )
    setup_us: int


class Invalid(_Part):
    """Why a load does not count: one of the contract's kinds, and words for a person."""

    kind: str
    detail: str


class Request(_Part):
    """One request of a load; times in nanoseconds since the start of the load, null where not reached."""

    resource: int
    connection: int | None
    queued_ns: int | None
    connect_start_ns: int | None
    connected_ns: int | None
    sent_ns: int | None
    first_byte_ns: int | None
    end_ns: int | None
    status: int | None
    header_bytes: int
    body_bytes: int
    cache: Literal["fresh", "revalidated"] | None = None
    """What a client made of an answer that it had kept: used it without asking, or after the origin said that
    it is still good. None also in runs of before there were repeat views."""
    error: str | None


class Evidence(_Part):
    """What TCP_INFO said of one end of a connection."""

    syn_data_acked: bool
    options: int
    fastopen_client_fail: int
    rtt_us: int
    min_rtt_us: int
    bytes_sent: int
    bytes_received: int
    segments_out: int
    segments_in: int
    retransmits: int


class TlsSession(_Part):
    """What the TLS handshake of a connection came to; sizes in bytes on the wire."""

    secured_ns: int
    version: Literal["1.2", "1.3"]
    cipher: str
    group: str | None
    alpn: str | None
    resumed: bool
    hello_bytes: int
    sent_bytes: int
    received_bytes: int


class Connection(_Part):
    """One connection of a load, with the evidence of both ends."""

    id: int
    host: str
    port: int
    client_port: int | None
    opened_ns: int
    connected_ns: int | None
    handshake_us: int | None
    tls: TlsSession | None = None
    """None also in runs of before there was TLS."""
    multiplexed: bool = False
    """Whether it carried several requests at once (HTTP/2)."""
    requests: int
    client: Evidence | None
    origin: Evidence | None

    @property
    def carried_syn_data(self) -> bool:
        """Whether either end's kernel saw data in the SYN acknowledged."""
        return any(end is not None and end.syn_data_acked for end in (self.client, self.origin))


class GivenUp(_Part):
    """Connections that the client closed before a segment of the server came (SYN_SENT), and that carried no
    request. Browsers do so with surplus ones; no rule of evidence counts them."""

    connections: int = 0
    """How many."""
    syn_data: int = 0
    """How many of them sent data in the SYN that the origin took, though nobody waited for the answer."""


class Counters(_Part):
    """How much the kernel's counters grew during the load, by name."""

    client: dict[str, int]
    origins: dict[str, int]


class LinkUse(_Part):
    """What one direction of the link did during the load."""

    packets: int
    bytes: int
    dropped_queue: int
    dropped_loss: int
    overruns: int
    queue_bytes_max: int | None
    late_us_p50: int
    late_us_p99: int
    late_us_max: int


class Link(_Part):
    """Both directions."""

    down: LinkUse
    up: LinkUse


class Browser(_Part):
    """What a browser measured beside the requests; times in nanoseconds since the navigation's start."""

    product: str
    load_event_ns: int
    dom_content_loaded_ns: int
    first_contentful_paint_ns: int | None
    largest_contentful_paint_ns: int | None
    screenshot_png: str | None = None
    """What it showed when the load was over, in base64."""
    screenshot_error: str | None = None
    """Why there is no such picture, where one was asked for."""


class LoadRecord(_Part):
    """One load, whole: its page load time and everything that proves how it went."""

    type: Literal["load"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    invalid: list[Invalid]
    plt_ns: int | None
    started_unix_ms: int
    client_address: str
    cookies_before: int
    seen_at: Literal["client", "origins"] = "client"
    browser: Browser | None = None
    unknown_requests: int = Field(
        default=0, validation_alias=AliasChoices("unknown_requests", "strange_requests")
    )
    requests: list[Request]
    connections: list[Connection]
    given_up: GivenUp = GivenUp()
    counters: Counters
    link: Link | None

    @property
    def connection_count(self) -> int:
        """How many connections were opened and not given up."""
        return len(self.connections) - self.given_up.connections

    @property
    def syn_data_connections(self) -> int:
        """How many of these carried data in their SYN."""
        return sum(connection.carried_syn_data for connection in self.connections) - self.given_up.syn_data

    @property
    def retransmitted(self) -> int:
        """Segments that either end sent again."""
        ends = [end for connection in self.connections for end in (connection.client, connection.origin)]
        return sum(end.retransmits for end in ends if end is not None)


class EndRecord(_Part):
    """The job is done and its world is gone."""

    type: Literal["end"]
    job: str
    loads: int
    teardown_us: int


class ErrorRecord(_Part):
    """Something could not be done, and whose fault that is. The job is over."""

    type: Literal["error"]
    job: str | None
    fault: Literal["input", "machine", "world", "internal"]
    message: str
    remedy: str = ""


Record = WorldRecord | LoadRecord | EndRecord | ErrorRecord
_ADAPTER: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])


class RecordError(ValueError):
    """A line that the contract does not allow; the text says why."""


class ContractError(RecordError):
    """A world that speaks another version of the contract."""


def parse_record(line: bytes | str) -> Record:
    """One line of the program's output. Raises RecordError, and ContractError for another contract."""
    try:
        record = _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if isinstance(record, WorldRecord) and record.contract != CONTRACT:
        raise ContractError(
            f"the world program speaks contract {record.contract}, this is contract {CONTRACT}"
        )
    return record
