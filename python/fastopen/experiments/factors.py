"""The registry of factors: all that varies, and where a new one is added (CONTRIBUTING.md).

Their order is that of options, columns of tables and phrases. In tables the RTT comes last.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from fastopen.clients import LOADER
from fastopen.contract import Client, Network, Origins, Tls
from fastopen.contract.job import PROFILES
from fastopen.experiments.arms import ARMS
from fastopen.experiments.clients import KINDS, with_bodies_for
from fastopen.experiments.factor import Factor, Part, Point
from fastopen.experiments.model import AskedEngine, default_queue_bytes
from fastopen.experiments.quantities import (
    BYTES,
    COMMAND,
    COUNT,
    DURATION,
    EXTRA_RTTS,
    FLAG,
    FRACTION,
    JITTER,
    QUEUE,
    RATE,
    SCALE,
    TEXT,
    TRACE,
    WORDS,
    Kind,
    choice,
    or_none,
    words_of,
)
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.experiments.transports import TRANSPORT_WORDS

__all__ = [
    "ASKED", "BY_NAME", "COLUMNS", "ENGINE", "FACTORS", "RTT", "TRANSPORT", "Factor", "Part", "Point",
    "cell_columns", "flat_columns", "of_part",
]  # fmt: skip


def _default_queues(point: Point) -> tuple[int | None, ...]:
    limits = (point.network.down, point.network.up)
    rates = (
        one.rate_bit_per_s if one.trace_ms is None else mean_rate_bit_per_s(one.trace_ms) for one in limits
    )
    return tuple(default_queue_bytes(rate) for rate in rates)


def _of_profile(key: str) -> Callable[[Point], tuple[Any, ...]]:
    return lambda point: (PROFILES[point.setup.client.profile][key],)


def _of_tls(key: str) -> Callable[[Point], tuple[Any, ...]]:
    return lambda point: (None if point.setup.tls is None else getattr(Tls(), key),)


def _bodies_for_client(point: Point) -> tuple[Any, ...]:
    return (with_bodies_for(point.setup.client, Origins()).bodies,)


RTT: Final = Factor(
    name="rtt",
    part="network",
    fields=("rtt_us",),
    quantity=DURATION,
    meaning="Round-trip time of the access link.",
    columns=("rtt_ms",),
    default="20ms,100ms,200ms",
    example="20ms,100ms",
    header="RTT\nms",
    phrase="{} ms",
)
_NETWORK: Final = (
    RTT,
    Factor(
        name="down",
        part="network",
        fields=("down.rate_bit_per_s",),
        quantity=RATE,
        meaning="Rate to the client, or none.",
        columns=("down_bit_per_s",),
        default="4mbit",
        example="2mbit,4mbit",
        header="down\nMbit/s",
        phrase="{} Mbit/s down",
        label="down{}mbit",
    ),
    Factor(
        name="up",
        part="network",
        fields=("up.rate_bit_per_s",),
        quantity=RATE,
        meaning="Rate from the client, or none.",
        columns=("up_bit_per_s",),
        default="256kbit",
        example="256kbit,1mbit",
        header="up\nMbit/s",
        phrase="{} Mbit/s up",
        label="up{}mbit",
    ),
    Factor(
        name="down_trace",
        part="network",
        fields=("down.trace_ms",),
        quantity=TRACE,
        meaning="Mahimahi trace in place of the rate to the client.",
        columns=("down_trace",),
        example="FILE",
    ),
    Factor(
        name="up_trace",
        part="network",
        fields=("up.trace_ms",),
        quantity=TRACE,
        meaning="Mahimahi trace in place of the rate from the client.",
        columns=("up_trace",),
        example="FILE",
    ),
    Factor(
        name="queue",
        part="network",
        fields=("down.queue_bytes", "up.queue_bytes"),
        quantity=QUEUE,
        meaning="What the queue of each direction holds, or none: any number of packets.",
        columns=("down_queue_bytes", "up_queue_bytes"),
        otherwise="256 kB or 100 ms, the larger",
        example="96kB,256kB",
        header="queue\nkB",
        phrase="a queue of {} kB",
        label="queue{}kB",
        natural=_default_queues,
    ),
    Factor(
        name="loss",
        part="network",
        fields=("down.loss", "up.loss"),
        quantity=FRACTION,
        meaning="Random loss in each direction.",
        columns=("loss",),
        example="0%,1%",
        header="loss\n%",
        phrase="{} % loss",
        label="loss{}%",
        chance=True,
    ),
    Factor(
        name="jitter",
        part="network",
        fields=("down.jitter", "up.jitter"),
        quantity=JITTER,
        meaning="How the delay of each direction varies: normal by this deviation, or uniform, or none.",
        columns=("jitter",),
        example="none,2ms,uniform:2ms",
        header="jitter",
        phrase="jitter {}",
        label="jitter{}",
        chance=True,
    ),
    Factor(
        name="reorder",
        part="network",
        fields=("down.reorder", "up.reorder"),
        quantity=FLAG,
        meaning="Whether packets overtake each other where their delay varies (--jitter).",
        columns=("reorder",),
        example="on,off",
        header="re-\norder",
        phrase="reordering {}",
    ),
    Factor(
        name="extra_rtt",
        part="network",
        fields=("host_extra_rtt_us",),
        quantity=EXTRA_RTTS,
        meaning="A host that is further away; repeatable.",
        columns=("extra_rtt_ms",),
        example="HOST=RTT",
        repeatable=True,
    ),
    Factor(
        name="mtu",
        part="network",
        fields=("mtu_bytes",),
        quantity=BYTES,
        meaning="MTU of the links, with IP and TCP headers.",
        example="1280,1500",
        header="MTU\nbytes",
        phrase="an MTU of {} bytes",
        label="mtu{}",
    ),
    Factor(
        name="link",
        part="network",
        fields=("link",),
        quantity=words_of(Network, "link"),
        meaning="Who makes the link: fastopen's program, or the kernel (auto: that of the virtual engine).",
        example="program,kernel",
        header="link",
        phrase="link {}",
    ),
)
_CLIENT: Final = (
    Factor(
        name="client",
        part="client",
        fields=("label",),
        quantity=choice(*KINDS),
        meaning=f"What loads the pages: of {', '.join(KINDS)}.",
        columns=("client",),
        default=LOADER.label,
        example="loader,chromium",
        header="client",
        key="client.kind",
    ),
    Factor(
        name="command",
        part="client",
        fields=("command",),
        quantity=COMMAND,
        meaning="The command line of the client command; {urls}: all of the page's.",
        example="'CMD {url}'",
    ),
    Factor(
        name="view",
        part="client",
        fields=("view",),
        quantity=words_of(Client, "view"),
        meaning="Chromium's first visit, or one with the cache that a first visit left.",
        example="first,repeat",
        header="view",
        phrase="{} view",
    ),
    Factor(
        name="profile",
        part="client",
        fields=("profile",),
        quantity=words_of(Client, "profile"),
        meaning="How the loader loads: as a browser of today, or as the paper's mget.",
        example="browser,mget",
        header="profile",
    ),
    Factor(
        name="keep_alive",
        part="client",
        fields=("keep_alive",),
        quantity=FLAG,
        meaning="Whether the client uses connections again.",
        otherwise="as the profile",
        example="on,off",
        header="keep-\nalive",
        phrase="keep-alive {}",
        natural=_of_profile("keep_alive"),
    ),
    Factor(
        name="connections_per_host",
        part="client",
        fields=("connections_per_host",),
        quantity=COUNT,
        meaning="Connections to one host at once.",
        otherwise="the profile's",
        example="2,6",
        header="conns\na host",
        phrase="{} connections a host",
        natural=_of_profile("connections_per_host"),
    ),
    Factor(
        name="connections_total",
        part="client",
        fields=("connections_total",),
        quantity=COUNT,
        meaning="Connections to all hosts at once.",
        otherwise="the profile's",
        example="17,256",
        header="conns\nin all",
        phrase="{} connections in all",
        natural=_of_profile("connections_total"),
    ),
    Factor(
        name="processing_scale",
        part="client",
        fields=("processing_scale",),
        quantity=SCALE,
        meaning="The loader's processing takes so many times what was recorded; 0: none.",
        example="0,1",
        header="process-\ning",
        phrase="processing x {}",
    ),
    Factor(
        name="phases",
        part="client",
        fields=("phases",),
        quantity=WORDS,
        meaning="Which resources the loader asks for: of load, async and after.",
        example="load,async",
    ),
    Factor(
        name="screenshots",
        part="client",
        fields=("screenshot",),
        quantity=FLAG,
        meaning="Keep what Chromium shows at each load's end (fastopen export --format png).",
        switch=True,
    ),
)
_ORIGINS_AND_TLS: Final = (
    Factor(
        name="http",
        part="origins",
        fields=("http",),
        quantity=words_of(Origins, "http"),
        meaning="Version of HTTP: of 1.0, 1.1 and 2.",
        example="1.1,2",
        header="HTTP",
        phrase="HTTP/{}",
    ),
    Factor(
        name="http2_hosts",
        part="origins",
        fields=("http2_hosts",),
        quantity=WORDS,
        meaning="Hosts that speak HTTP/2, whatever the others speak.",
        example="HOST,HOST",
    ),
    Factor(
        name="tls",
        part="tls",
        fields=("version",),
        quantity=or_none(words_of(Tls, "version")),
        meaning="Every origin over TLS, whatever its URL, or none: all in the clear.",
        columns=("tls",),
        otherwise="1.3 where a transport or another factor of TLS asks for it, else none",
        example="none,1.3,1.2",
        header="TLS",
        phrase="TLS {}",
    ),
    Factor(
        name="key_share",
        part="tls",
        fields=("key_share",),
        quantity=words_of(Tls, "key_share"),
        meaning="In the loader's ClientHello: x25519mlkem768 (browsers'; no SYN holds it), x25519.",
        example="x25519,x25519mlkem768",
        header="key\nshare",
        phrase="key share {}",
        natural=_of_tls("key_share"),
    ),
    Factor(
        name="resumption",
        part="tls",
        fields=("resumption",),
        quantity=FLAG,
        meaning="Whether TLS resumes sessions within a load.",
        example="on,off",
        header="resump-\ntion",
        phrase="resumption {}",
        natural=_of_tls("resumption"),
    ),
    Factor(
        name="chain_bytes",
        part="tls",
        fields=("chain_bytes",),
        quantity=BYTES,
        meaning="Size of the origins' certificate chain.",
        example="2000,3500",
        header="chain\nbytes",
        phrase="certificates of {} bytes",
        natural=_of_tls("chain_bytes"),
    ),
    Factor(
        name="origins_keep_alive",
        part="origins",
        fields=("keep_alive",),
        quantity=FLAG,
        meaning="Whether origins keep connections open.",
        columns=("origins_keep_alive",),
        example="on,off",
        header="origins\nkeep",
        phrase="keep-alive of the origins {}",
    ),
    Factor(
        name="think_scale",
        part="origins",
        fields=("think_scale",),
        quantity=SCALE,
        meaning="Origins take so many times the recorded think time; 0: none.",
        example="0,1",
        header="think",
        phrase="think time x {}",
    ),
    Factor(
        name="tfo_queue",
        part="origins",
        fields=("tfo_queue",),
        quantity=COUNT,
        meaning="Half-open TFO connections that an origin's listener holds.",
        example="1,4096",
        header="TFO\nqueue",
        phrase="TFO queue {}",
    ),
    Factor(
        name="bodies",
        part="origins",
        fields=("bodies",),
        quantity=words_of(Origins, "bodies"),
        meaning="What stands in the bodies of a page whose own were not recorded.",
        otherwise="what the client needs",
        example="filler,synthetic",
        header="bodies",
        phrase="{} bodies",
        natural=_bodies_for_client,
    ),
)
_TCP: Final = (
    Factor(
        name="initial_window",
        part="tcp",
        fields=("initial_window_segments",),
        quantity=COUNT,
        meaning="Initial congestion window of both ends, in segments.",
        example="4,10",
        header="initial\nwindow",
        phrase="initial window {}",
    ),
    Factor(
        name="congestion_control",
        part="tcp",
        fields=("congestion_control",),
        quantity=TEXT,
        meaning="Congestion control of both ends: cubic, reno, bbr, or what else the kernel has.",
        example="cubic,reno",
        header="conges-\ntion",
    ),
)
ENGINE: Final = Factor(
    name="engine",
    part="engine",
    fields=("engine",),
    quantity=choice(*get_args(AskedEngine)),
    meaning="Whose clock runs: auto, or of host and virtual.",
    default="auto",
    example="host,virtual",
    header="engine",
    key="engines",
)
TRANSPORT: Final = Factor(
    name="transport",
    part="arm",
    fields=("transport",),
    quantity=choice(*TRANSPORT_WORDS),
    meaning="Arms: off,cold,warm (of TFO); or transports: tcp,tfo,tls,tls+tfo (with either cookies).",
    default="off,cold,warm",
    example="off,warm",
    named="transports",
    key="transports",
)
# Which option and key they come from is TRANSPORT's.
_OF_TRANSPORT: Final = (
    Factor(
        name="arm",
        part="arm",
        fields=("name",),
        quantity=choice(*ARMS),
        meaning="The named combination of transport and cookies; off2 is off once more.",
        columns=("arm",),
        default="off,cold,warm",
        named="transports",
        key="transports",
    ),
    Factor(
        name="cookies",
        part="arm",
        fields=("cookies",),
        quantity=or_none(choice("cold", "warm")),
        meaning="TFO cookies that the client starts with, where it asks for TFO.",
        default="none,cold,warm",
        named="transports",
        key="transports",
    ),
)
FACTORS: Final[tuple[Factor, ...]] = (
    *_NETWORK,
    *_CLIENT,
    *_ORIGINS_AND_TLS,
    *_TCP,
    ENGINE,
    TRANSPORT,
    *_OF_TRANSPORT,
)
# Those that have an option, a key and an argument of their own.
ASKED: Final = tuple(factor for factor in FACTORS if factor not in _OF_TRANSPORT)
BY_NAME: Final[Mapping[str, Factor]] = {factor.name: factor for factor in FACTORS}
COLUMNS: Final[dict[str, Kind]] = {name: factor.kind for factor in FACTORS for name in factor.export}


def of_part(*parts: Part) -> tuple[Factor, ...]:
    """The factors that are asked for in these parts."""
    return tuple(factor for factor in ASKED if factor.part in parts)


def cell_columns(point: Point) -> dict[str, Any]:
    """All factors of a cell, as JSON: its keys are those of exported columns."""
    return {
        name: factor.quantity.export(value)
        for factor in FACTORS
        for name, value in zip(factor.export, factor.values(point), strict=False)
    }


def flat_columns(point: Point) -> tuple[Any, ...]:
    """The same as texts, numbers and flags, in the order of COLUMNS."""
    return tuple(
        factor.quantity.flat(value)
        for factor in FACTORS
        for _, value in zip(factor.export, factor.values(point), strict=False)
    )
