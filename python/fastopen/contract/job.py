"""Define a job for the world program: one emulated network (a world), and the page loads to run in it. Check
that the settings of client, servers and network are compatible, in jobs and in experiments.

These models define the contract between Python and Rust code. From their types, bounds and docstrings,
tools/generate.py makes the schemas that both are tested against, and the tables of docs/dev/contract.md."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from fastopen.common.errors import any_of
from fastopen.common.pydantic_errors import conflict
from fastopen.contract.client import Client, require
from fastopen.contract.client_kinds import CHROMIUM, CLIENTS
from fastopen.contract.network import ENCRYPTED_NAMES, QUIC_CONGESTION_CONTROLS, Network, Tcp
from fastopen.contract.origins import Origins, Tls
from fastopen.contract.part import NotEmpty, Part
from fastopen.pages import Page
from fastopen.pages.model import Microseconds
from fastopen.pages.url import target_of

CONTRACT: Final = 2
HEAD_MAX_BYTES: Final = 262_144
TARGET_MAX_BYTES: Final = 65_534
ARRIVALS_MAX: Final = 100_000
LOAD_TIMEOUT_MAX_US: Final = 3_600_000_000
DURATION_MAX_US: Final = 600_000_000
Transport = Literal["tcp", "tfo", "tls", "tls+tfo"]
Cookies = Literal["cold", "warm"] | None
ArrivalCount = Annotated[int, Field(ge=1, le=ARRIVALS_MAX)]


class Tolerance(Part):
    """The largest accepted deviations of the emulated network from the requested network."""

    rtt_us: Microseconds = 1000
    """The largest deviation of the measured RTT from the requested RTT. A larger deviation is an error."""
    rate_fraction: Annotated[float, Field(ge=0, le=1)] = 0.02
    """The largest deviation of a measured rate, as a fraction of the requested rate."""
    late_us: Microseconds | None = None
    """The largest delay of a packet after its release was due. A load with a later packet is invalid. null: a
    tenth of the RTT, but at least 5,000."""


class Flood(Part):
    """A SYN flood of the page's first host during transactions, from four addresses that never answer."""

    rate_per_s: Annotated[int, Field(ge=1, le=20_000)]
    """SYNs per second."""
    cookies: Literal["none", "invalid", "valid"]
    """The content of the SYNs. `none`: neither cookie nor data; `invalid`: data with an invalid cookie;
    `valid`: data with the cookies that the server gave to these addresses earlier."""


class Transactions(Part):
    """A load test of a server. Each transaction opens a connection, requests the next resource of the page,
    and ends with the server's FIN. The server may use SYN cookies or get a new TFO key."""

    arrivals: Annotated[
        dict[Literal["rate_per_s", "clients"], ArrivalCount], Field(min_length=1, max_length=1)
    ]
    """`{"rate_per_s": ...}`: transactions begin at this rate, at equal intervals, independently of earlier
    transactions (open loop). `{"clients": ...}`: each of this number of clients makes transactions in
    sequence (closed loop)."""
    duration_us: Annotated[int, Field(ge=1, le=DURATION_MAX_US)]
    """The period in which transactions begin. Afterwards, running transactions have ten seconds to end."""
    late_us: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    """A transaction is late if it begins more than this time after it was due. If more than one in a hundred
    is late, the load generator was the limit, not the server, and the record is invalid."""
    syncookies: Annotated[int, Field(ge=0, le=2)] = 0
    """`net.ipv4.tcp_syncookies` of the origins. 0: no SYN cookies; 1: if a queue is full; 2: always."""
    new_key: Literal["replace", "add"] | None = None
    """A new cookie key that the server gets in the middle of `duration_us`. `replace`: instead of the old
    key; `add`: in addition, so that old cookies stay valid. null: no new key."""
    flood: Flood | None = None
    """A SYN flood during the transactions. Half-open connections remain, so no load may follow in the job."""


class LoadSpec(Part):
    """One page load of a job or, if `transactions` is set, one load test of a server."""

    id: NotEmpty
    """The id, repeated in the load's record."""
    transport: Transport
    """The use of TCP Fast Open by the kernels, and of TLS by the origins. With TLS, every origin uses TLS on
    its port, even for http URLs, and synthetic bodies refer to https URLs. But if `security` is `recorded`,
    only origins of https URLs use TLS."""
    cookies: Cookies = None
    """TFO cookies that the client has when the load begins: required with `tfo` and `tls+tfo`, forbidden with
    other transports. With `transactions`: `cold` gives each transaction its own client address, without
    cookies; with `warm`, all transactions share one address, with a cookie of each host."""
    transactions: Transactions | None = None
    """A load test, in cleartext and without the job's client, instead of a page load; null: a page load."""

    @model_validator(mode="after")
    def _transport_fits(self) -> Self:
        if self.transactions is not None and self.transport in ("tls", "tls+tfo"):
            raise ValueError("transactions are made only in cleartext")
        if (self.transport in ("tfo", "tls+tfo")) != (self.cookies is not None):
            raise ValueError("cookies is cold or warm with tfo and tls+tfo, and null with tcp and tls")
        return self


class Job(Part):
    """One emulated network with its servers and client (a world), and the loads to run in it."""

    contract: Annotated[int, Field(ge=CONTRACT, le=CONTRACT)]
    """The version of the format of jobs and records."""
    id: NotEmpty
    """The id, repeated in every record."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    """The seed of every random choice."""
    page: Page
    network: Network
    tcp: Tcp = Field(default_factory=Tcp)
    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    origins: Origins = Field(default_factory=Origins)
    tls: Tls = Field(default_factory=Tls)
    loads: Annotated[list[LoadSpec], Field(min_length=1, max_length=10_000)]
    """The loads to run, in this order."""
    tolerance: Tolerance = Field(default_factory=Tolerance)
    load_timeout_us: Annotated[int, Field(ge=1, le=LOAD_TIMEOUT_MAX_US)] = 120_000_000
    """The time limit of each load."""
    start_phase_us: Annotated[int, Field(ge=0, le=60_000_000)] = 0
    """In virtual time, a load starts this long after a multiple of the kernel's timer period (16.384 s)."""
    shuffle_equal_requests: bool = False
    """True to shuffle, by the seed, the loader's requests for resources that become known at the same byte of
    a response. Otherwise, these requests are in the order of the page."""
    packets: bool = False
    """True to capture packets at both ends, and write them in `packets` records before the load's record."""
    tcp_trace: bool = False
    """True to sample TCP_INFO of the origins' ends of connections over time (`origin_samples`)."""
    fault: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """Only in soak tests: a number that selects a fault to add to the observations of each load. The checks
    of the world program must then find the load invalid."""

    @model_validator(mode="after")
    def _page_fits(self) -> Self:
        for index, resource in enumerate(self.page.resources):
            if max(resource.request_header_bytes, resource.response_header_bytes) > HEAD_MAX_BYTES:
                raise ValueError(f"page.resources[{index}]: a head is longer than {HEAD_MAX_BYTES} bytes")
            if len(resource.url) > TARGET_MAX_BYTES and len(target_of(resource.url)) > TARGET_MAX_BYTES:
                raise ValueError(f"page.resources[{index}].url: is longer than {TARGET_MAX_BYTES} bytes")
        known = set(self.page.hosts())
        for place, named in (
            ("network.host_extra_rtt_us", self.network.host_extra_rtt_us),
            ("network.path_hosts", self.network.path_hosts or []),
            ("origins.http2_hosts", self.origins.http2_hosts),
            ("origins.http3_hosts", self.origins.http3_hosts),
            ("origins.server_hosts", self.origins.server_hosts or []),
        ):
            if unknown := set(named) - known:
                raise ValueError(f"{place}: the page has no host {min(unknown)}")
        return self

    @model_validator(mode="after")
    def _settings_are_compatible(self) -> Self:
        over_tls = ["tls" in load.transport for load in self.loads]
        clear, encrypted = not all(over_tls), any(over_tls)
        check_ends(self.client, self.origins, self.tcp, self.tls, clear=clear, encrypted=encrypted)
        check_network(self.network, self.client, self.origins)
        if self.tcp_trace and self.origins.server is not None:
            raise ValueError("tcp_trace: only fastopen's own origins can be traced, not an external server")
        if self.origins.http == "recorded":
            raise ValueError("origins.http: a job names the version of each host")
        for number, load in enumerate(self.loads):
            place, encrypted = f"loads[{number}].transport", "tls" in load.transport
            if load.cookies is not None and self.origins.all_quic:
                raise ValueError(f"{place}: HTTP/3 runs over QUIC, which has no SYN for TCP Fast Open")
            if self.origins.bodies != "recorded" or (encrypted and self.tls.security == "recorded"):
                continue
            if any(one.url.startswith("https:") != encrypted for one in self.page.resources):
                message = "recorded bodies name URLs with the schemes that they were recorded with"
                raise ValueError(f"{place}: {message}: use transports recorded and recorded+tfo")
        return self


def check_ends(
    client: Client, origins: Origins, tcp: Tcp, tls: Tls | None, *, clear: bool, encrypted: bool
) -> None:
    """Raise an error, with a remedy, if settings contradict each other. `clear` is True if any load uses
    cleartext, and `encrypted` if any load uses TLS. `tls` may be None if no load uses TLS."""
    label = client.label
    if encrypted and not client.type.http_over_tls:
        remedy = "use another --client, or --transports=tcp,tfo without --tls"
        raise conflict(f"{label} does not speak TLS", remedy, "client.kind", "tls.version")
    for version in origins.versions:
        _check_version(client, origins, version, clear=clear)
    if tls is not None:
        message = f"fastopen cannot give {label} a session of an earlier visit"
        require(client, lambda one: tls.session in one.sessions, message, "--session=none", "tls.session")
        if tls.ticket_state in ("stale", "expired"):
            message = f"fastopen cannot set the clock of {label} ahead of its tickets"
            require(client, lambda one: one.ours, message, "--ticket-state=valid", "tls.ticket_state")
    if origins.bodies == "recorded" and not client.type.reads_bodies:
        remedy = f"use --client={CHROMIUM.label}, or --bodies=synthetic/filler"
        message = f"{label} does not parse bodies, so recorded ones have no effect"
        raise conflict(message, remedy, "client.kind", "origins.bodies")
    if origins.one_address:
        message = f"requests of {label} do not show the host behind a shared address"
        require(client, lambda one: one.ours, message, "drop --one-address", "origins.one_address")
    if origins.server is not None:
        message = f"fastopen does not run {label} against an external server"
        require(client, lambda one: one.works_with_servers, message, "drop --server", "origins.server")
    for key, subject in (("one_address", "one address for all hosts"), ("server", "an external server")):
        if encrypted and getattr(origins, key):
            keys = (f"origins.{key}", "tls.version", "transports")
            remedy = "use --transports=tcp,tfo without --tls"
            raise conflict(f"{subject} works only without TLS", remedy, *keys)
    if origins.quic:
        _check_quic(tcp, tls, origins.remedy_without("3"))


def check_network(network: Network, client: Client, origins: Origins) -> None:
    """Raise an error, with a remedy, if the client or the origins cannot work in this network."""
    if network.names in ENCRYPTED_NAMES and not client.type.encrypts_lookups:
        able = "/".join(one.label for one in CLIENTS.values() if one.encrypts_lookups)
        message = f"{client.label} sends lookups in cleartext, but --names={network.names} encrypts them"
        remedy = f"use --names=do53/tcp, or --client={able}"
        raise conflict(message, remedy, "client.kind", "network.names")
    if network.ip == "4+6" and not client.type.chooses_address:
        message = f"{client.label} does not choose between IPv4 and IPv6 addresses"
        remedy = "use --ip=4,6, or --client=chromium/curl"
        raise conflict(message, remedy, "client.kind", "network.ip")
    least = network.quic_mtu_min_bytes
    if network.mtu_bytes < least and origins.quic:
        message = f"HTTP/3 runs over QUIC, which needs an MTU of at least {least} bytes"
        remedy = "use a larger --mtu, or another version of HTTP"
        raise conflict(message, remedy, "origins.http", "network.mtu")


def _check_quic(tcp: Tcp, tls: Tls | None, otherwise: str) -> None:
    if tls is not None and tls.version != "1.3":
        remedy = f"use --tls=1.3, or {otherwise}"
        raise conflict("HTTP/3 runs over QUIC, which needs TLS 1.3", remedy, "origins.http", "tls.version")
    if tcp.congestion_control not in QUIC_CONGESTION_CONTROLS:
        message = f"HTTP/3 works only with {' or '.join(QUIC_CONGESTION_CONTROLS)}"
        remedy = f"use --congestion-control={'/'.join(QUIC_CONGESTION_CONTROLS)}, or {otherwise}"
        raise conflict(message, remedy, "origins.http", "tcp.congestion_control")


def _check_version(client: Client, origins: Origins, version: str, *, clear: bool) -> None:
    label, can = client.label, client.type
    key = "origins.http" if origins.http == version else f"origins.http{version}_hosts"
    ending = origins.remedy_without(version)
    message = f"fastopen runs {label} with HTTP/{any_of(sorted(can.http_versions))}, not with HTTP/{version}"
    require(client, lambda one: version in one.http_versions, message, ending, key)
    if clear and version not in can.http_in_the_clear:
        over_tls = "tls,tls+tfo" if version == "2" else "tls"
        message = "HTTP/3 always uses TLS"
        if version != "3":
            message = f"fastopen runs {label} with HTTP/{version} only over TLS"
        remedy = f"use --transports={over_tls} and not --tls=none, or {ending}"
        raise conflict(message, remedy, "client.kind", key, "tls.version")
