"""The registry of factors: all that varies, and where a new one is added (CONTRIBUTING.md).

Their order is that of options, columns of tables and phrases. In tables the RTT comes last.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from fastopen.contract import Origins, Tls
from fastopen.contract.client import PROFILES
from fastopen.contract.client_types import LOADER
from fastopen.experiments import quantities as q
from fastopen.experiments.arms import ARMS
from fastopen.experiments.clients import KINDS, usual_heads, with_bodies_for
from fastopen.experiments.factor import Factor, Part, Point
from fastopen.experiments.model import AskedEngine, default_queue_bytes
from fastopen.experiments.named_networks import NAMED_NETWORKS, RATES_BY_DEFAULT
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.experiments.transports import SESSION_WORDS, TRANSPORT_WORDS

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


def _heads_for_client(point: Point) -> tuple[Any, ...]:
    return (usual_heads(point.setup.client.type),)


def _recorded_http(point: Point) -> tuple[Any, ...]:
    return ("1.1" if point.setup.tls is None else "recorded",)


def _todays_tls(_: Point) -> tuple[Any, ...]:
    return ("1.3",)


def _security_by_default(point: Point) -> tuple[Any, ...]:
    return (None if point.setup.tls is None else "recorded",)


_RATES: Final = NAMED_NETWORKS[RATES_BY_DEFAULT]

# fmt: off
RTT: Final = Factor(
    "rtt", "network", ("rtt_us",), q.DURATION, "Round-trip time of the access link.", example="20ms,100ms",
    default="20ms,100ms,200ms", header="RTT\nms", phrase="{} ms", full="RTT {} ms", columns=("rtt_ms",),
)
_NETWORK: Final = (
    RTT,
    Factor(
        "down", "network", ("down.rate_bit_per_s",), q.RATE, "Rate to the client, or none.",
        example="2mbit,4mbit", default=_RATES.down, header="down\nMbit/s",
        phrase="{} Mbit/s down", label="down{}mbit", columns=("down_bit_per_s",),
    ),
    Factor(
        "up", "network", ("up.rate_bit_per_s",), q.RATE, "Rate from the client, or none.",
        example="256kbit,1mbit", default=_RATES.up, header="up\nMbit/s",
        phrase="{} Mbit/s up", label="up{}mbit", columns=("up_bit_per_s",),
    ),
    Factor(
        "down_trace", "network", ("down.trace_ms",), q.TRACE,
        "Mahimahi trace in place of the rate to the client.", example="FILE", columns=("down_trace",),
    ),
    Factor(
        "up_trace", "network", ("up.trace_ms",), q.TRACE,
        "Mahimahi trace in place of the rate from the client.", example="FILE", columns=("up_trace",),
    ),
    Factor(
        "queue", "network", ("down.queue_bytes", "up.queue_bytes"), q.QUEUE,
        "What the queue of each direction holds, or none: any number of packets.", example="96kB,256kB",
        otherwise="256 kB or 100 ms, the larger", header="queue\nkB", phrase="a queue of {} kB",
        label="queue{}kB", columns=("down_queue_bytes", "up_queue_bytes"), natural=_default_queues,
    ),
    Factor(
        "aqm", "network", ("down.aqm", "up.aqm"), q.TEXT,
        "Queueing: none (one queue, drops at the tail), codel, fq_codel, or drr (--queue for each flow).",
        example="none,codel,drr", header="AQM", phrase="AQM {}",
    ),
    Factor(
        "loss", "network", ("down.loss", "up.loss"), q.FRACTION, "Random loss in each direction.",
        example="0%,1%", header="loss\n%", phrase="{} % loss", label="loss{}%", chance=bool,
    ),
    Factor(
        "jitter", "network", ("down.jitter", "up.jitter"), q.JITTER,
        "How the delay of each direction varies: normal by this deviation, or uniform, or none.",
        example="none,2ms,uniform:2ms", header="jitter", phrase="jitter {}", label="jitter{}",
        chance=bool,
    ),
    Factor(
        "reorder", "network", ("down.reorder", "up.reorder"), q.FLAG,
        "Whether packets overtake each other where their delay varies (--jitter).", example="on,off",
        header="re-\norder", phrase="reordering {}", absent_phrase="no jitter", needs=("down.jitter", None),
    ),
    Factor(
        "cross", "network", ("cross",), q.CROSS,
        "Cross traffic: a long TCP flow during each load, down=bulk, up=bulk, down=bulk+up=bulk, or none.",
        example="none,down=bulk,up=bulk", header="cross", phrase="cross traffic {}",
    ),
    Factor(
        "extra_rtt", "network", ("host_extra_rtt_us",), q.EXTRA_RTTS,
        "A host that is further away; repeatable.", example="HOST=RTT", columns=("extra_rtt_ms",),
        repeatable=True,
    ),
    Factor(
        "path", "network", ("path",), q.TEXT,
        "What a middlebox behind the link does to TCP Fast Open or QUIC (docs/paths.md).",
        example="none,drop-syn-data,strip-both", header="path", phrase="path {}", label="{}",
        question=True,
    ),
    Factor(
        "path_hosts", "network", ("path_hosts",), q.WORDS,
        "The hosts behind that middlebox, of all pages.", example="HOST,HOST", otherwise="all hosts",
        needs=("path", "none"),
    ),
    Factor(
        "path_share", "network", ("path_share",), q.FRACTION,
        "Share of these hosts that lie behind it, drawn anew for each repeat.", example="10%,50%",
        header="behind\n%", phrase="{} % of hosts behind it", absent_phrase="no host behind it",
        label="behind{}%", needs=("path", "none"), chance=lambda share: 0 < share < 1,
    ),
    Factor(
        "names", "network", ("names",), q.TEXT,
        "How the client learns addresses: none (it knows them), do53 (UDP), tcp, dot (TLS), doh (HTTPS).",
        example="none,do53,dot", header="names", phrase="names {}", label="names-{}",
    ),
    Factor(
        "resolver_rtt", "network", ("resolver_rtt_us",), q.DURATION_OR_NONE,
        "RTT to the resolver.", example="5ms,20ms", otherwise="that of the link", header="resolver\nms",
        phrase="resolver at {} ms", absent_phrase="no resolver RTT", label="resolver{}ms",
        columns=("resolver_rtt_ms",), needs=("names", "none"),
    ),
    Factor(
        "resolver", "network", ("resolver",), q.TEXT,
        "What the resolver does: it answers, drops the first query for a name, is silent, or knows no name.",
        example="answers,drop-first", header="resolver", phrase="resolver {}", needs=("names", "none"),
    ),
    Factor(
        "mtu", "network", ("mtu_bytes",), q.BYTES, "MTU of the links, with IP and TCP headers.",
        example="1280,1500", header="MTU\nbytes", phrase="an MTU of {} bytes", label="mtu{}",
    ),
    Factor(
        "link", "network", ("link",), q.TEXT,
        "Who makes the link: fastopen's program, or the kernel (auto: that of the virtual engine).",
        example="program,kernel", header="link", phrase="link {}",
    ),
)
_CLIENT: Final = (
    Factor(
        "client", "client", ("label",), q.choice(*KINDS), f"What loads the pages: of {', '.join(KINDS)}.",
        example="loader,chromium", default=LOADER.label, header="client", columns=("client",), question=True,
        key="client.kind",
    ),
    Factor(
        "command", "client", ("command",), q.COMMAND,
        "The command line of the client command; {urls}: all of the page's.", example="'CMD {url}'",
    ),
    Factor(
        "view", "client", ("view",), q.TEXT,
        "Chromium's first visit, or one with the cache that a first visit left.", example="first,repeat",
        header="view", phrase="{} view", question=True,
    ),
    Factor(
        "profile", "client", ("profile",), q.TEXT,
        "How the loader loads: as a browser of today, or as the paper's mget.", example="browser,mget",
        header="profile",
    ),
    Factor(
        "keep_alive", "client", ("keep_alive",), q.FLAG, "Whether the client uses connections again.",
        example="on,off", otherwise="as the profile", header="keep-\nalive",
        called="keep-alive", phrase="keep-alive {}",
        natural=_of_profile("keep_alive"),
    ),
    Factor(
        "connections_per_host", "client", ("connections_per_host",), q.COUNT,
        "Connections to one host at once.", example="2,6", otherwise="the profile's",
        header="conns\na host",
        called="connections a host", phrase="{} connections a host",
        natural=_of_profile("connections_per_host"),
    ),
    Factor(
        "connections_total", "client", ("connections_total",), q.COUNT, "Connections to all hosts at once.",
        example="17,256", otherwise="the profile's", header="conns\nin all",
        called="connections in all", phrase="{} connections in all",
        natural=_of_profile("connections_total"),
    ),
    Factor(
        "processing_scale", "client", ("processing_scale",), q.SCALE,
        "The loader's processing takes so many times what was recorded; 0: none.", example="0,1",
        header="process-\ning", phrase="processing x {}",
    ),
    Factor(
        "phases", "client", ("phases",), q.WORDS,
        "Which resources the loader asks for: of load, async and after.", example="load,async",
    ),
    Factor(
        "h3_fallback", "client", ("h3_fallback_us",), q.DURATION_OR_NONE,
        "When the loader opens TCP as well where QUIC's handshake is not complete, or none: never.",
        example="none,300ms", header="fallback\nms", phrase="TCP {} ms after QUIC",
        absent_phrase="no fallback to TCP", label="fallback{}ms", columns=("h3_fallback_ms",),
    ),
    Factor(
        "request_heads", "client", ("request_heads",), q.TEXT,
        "Chromium's requests have heads of the recorded sizes, or the browser's own.",
        example="recorded,own", otherwise="recorded, where the client can", header="heads",
        phrase="{} heads", natural=_heads_for_client,
    ),
    Factor(
        "isolate", "client", ("isolate",), q.FLAG,
        "A command sees programs, libraries and fonts alone, not all of your files.", switch=True,
    ),
    Factor(
        "fixed_scripts", "client", ("fixed_scripts",), q.FLAG,
        "Whether Chromium's scripts have the same clock and chance in each load (Date, Math.random).",
        example="on,off", header="fixed\nscripts", phrase="fixed scripts {}",
    ),
    Factor(
        "screenshots", "client", ("screenshot",), q.FLAG,
        "Keep what Chromium shows at each load's end (fastopen export --format png).", switch=True,
    ),
    Factor(
        "filmstrip", "client", ("filmstrip",), q.FLAG,
        "Keep what Chromium shows while it loads (fastopen export --format filmstrip).", switch=True,
    ),
)
_ORIGINS_AND_TLS: Final = (
    Factor(
        "http", "origins", ("http",), q.TEXT, "Version of HTTP: 1.0, 1.1, 2, 3 (over QUIC), or recorded.",
        example="1.1,2", otherwise="recorded, by host; 1.1 in cleartext", header="HTTP",
        called="version of HTTP", phrase="HTTP/{}", question=True, natural=_recorded_http,
    ),
    Factor(
        "http2_hosts", "origins", ("http2_hosts",), q.WORDS,
        "Hosts that speak HTTP/2, whatever the others speak.", example="HOST,HOST",
    ),
    Factor(
        "http3_hosts", "origins", ("http3_hosts",), q.WORDS,
        "Hosts that speak HTTP/3, whatever the others speak.", example="HOST,HOST",
    ),
    Factor(
        "tls", "tls", ("version",), q.TEXT_OR_NONE,
        "Every origin over TLS, whatever its URL, or none: all in the clear.", example="none,1.3,1.2",
        otherwise="1.3; none with transports tcp, tfo and with a server", header="TLS", natural=_todays_tls,
        called="use of TLS", phrase="TLS {}", absent_phrase="cleartext", columns=("tls",), question=True,
    ),
    Factor(
        "security", "tls", ("security",), q.TEXT,
        "Which URLs are served over TLS: tls (all), or recorded (those that are https).",
        example="tls,recorded", otherwise="recorded, or tls with another factor of TLS", header="secu-\nrity",
        phrase="security {}", natural=_security_by_default,
    ),
    Factor(
        "key_share", "tls", ("key_share",), q.TEXT,
        "In the loader's ClientHello: x25519mlkem768 (browsers'; no SYN holds it), x25519.",
        example="x25519,x25519mlkem768", header="key\nshare", phrase="key share {}",
        natural=_of_tls("key_share"),
    ),
    Factor(
        "session", "tls", ("session",), q.TEXT,
        "How TLS begins: none (full handshakes), resumed (with tickets of an earlier visit), early (0-RTT).",
        example="none,resumed,early", header="session", phrase="session {}", question=True,
        first_flight=True, natural=_of_tls("session"), words=SESSION_WORDS,
    ),
    Factor(
        "tickets", "tls", ("tickets",), q.COUNT,
        "Session tickets that an origin sends on a connection, each good for one more; 0: no resumption.",
        example="2,6", header="tick-\nets", phrase="{} tickets", natural=_of_tls("tickets"),
    ),
    Factor(
        "address_tokens", "tls", ("address_tokens",), q.FLAG,
        "Whether a QUIC client comes with an address token of its earlier visit, too.", example="on,off",
        header="address\ntokens", phrase="address tokens {}", natural=_of_tls("address_tokens"),
    ),
    Factor(
        "quic_retry", "tls", ("retry",), q.FLAG,
        "Whether origins send QUIC clients without an address token a Retry.", example="on,off",
        header="Retry", phrase="Retry {}", columns=("quic_retry",), natural=_of_tls("retry"),
    ),
    Factor(
        "early_data_rejected", "tls", ("early_data_rejected",), q.FLAG,
        "Whether origins reject early data, so that it has to be sent again.", example="on,off",
        header="early\nrejected",
        called="rejected early data", phrase="early data rejected {}", natural=_of_tls("early_data_rejected"),
    ),
    Factor(
        "ticket_state", "tls", ("ticket_state",), q.TEXT,
        "What became of the earlier visit's tickets: valid, stale, expired, forgotten.",
        example="valid,stale,expired,forgotten", header="tickets\nare", phrase="tickets {}",
        natural=_of_tls("ticket_state"),
    ),
    Factor(
        "chain_bytes", "tls", ("chain_bytes",), q.BYTES, "Size of the origins' certificate chain.",
        example="2000,3500", header="chain\nbytes", phrase="certificates of {} bytes",
        natural=_of_tls("chain_bytes"),
    ),
    Factor(
        "origins_keep_alive", "origins", ("keep_alive",), q.FLAG, "Whether origins keep connections open.",
        example="on,off", header="origins\nkeep",
        called="keep-alive of the origins", phrase="keep-alive of the origins {}",
        columns=("origins_keep_alive",),
    ),
    Factor(
        "think_scale", "origins", ("think_scale",), q.SCALE,
        "Origins take so many times the recorded think time; 0: none.", example="0,1", header="think",
        called="think time",
        phrase="think time x {}",
    ),
    Factor(
        "one_address", "origins", ("one_address",), q.FLAG,
        "Whether all hosts share one address, and so one TFO cookie (loader, in cleartext).",
        example="on,off", header="one\naddress", called="one address for all hosts",
        phrase="one address {}", label="one-address-{}",
    ),
    Factor(
        "tfo_queue", "origins", ("tfo_queue",), q.COUNT,
        "Half-open TFO connections that an origin's listener holds.", example="1,4096", header="TFO\nqueue",
        phrase="TFO queue {}",
    ),
    Factor(
        "server", "origins", ("server",), q.SERVER,
        "A command whose server the client meets in place of the origins (docs/servers.md).",
        example="'nginx -p . -c FILE'",
    ),
    Factor(
        "server_hosts", "origins", ("server_hosts",), q.WORDS,
        "The hosts that it serves; clients meet the origins of the others.", example="HOST,HOST",
        otherwise="all hosts",
    ),
    Factor(
        "server_listen", "origins", ("server_listen",), q.FLAG,
        "Give that server's listeners a TFO queue where they have none.", switch=True,
    ),
    Factor(
        "upstream_tfo", "origins", ("upstream_tfo",), q.FLAG,
        "Whether that server, as a proxy, may use TFO to the origins behind it, in all loads.",
        example="off,on", header="upstream\nTFO", phrase="TFO upstream {}",
    ),
    Factor(
        "upstream_rtt", "origins", ("upstream_rtt_us",), q.DURATION,
        "RTT between that server and the origins behind it.", example="0ms,20ms",
        header="upstream\nRTT ms", phrase="an upstream RTT of {} ms", label="upstream{}ms",
        columns=("upstream_rtt_ms",),
    ),
    Factor(
        "bodies", "origins", ("bodies",), q.TEXT,
        "What bodies hold: synthetic (made of the page's facts), recorded, or filler.",
        example="filler,synthetic",
        otherwise="what the client needs", header="bodies", phrase="{} bodies", natural=_bodies_for_client,
    ),
)
_TCP: Final = (
    Factor(
        "initial_window", "tcp", ("initial_window_segments",), q.COUNT,
        "Initial congestion window of both ends, in segments.", example="4,10", header="initial\nwindow",
        phrase="initial window {}",
    ),
    Factor(
        "congestion_control", "tcp", ("congestion_control",), q.TEXT,
        "Congestion control of both ends: cubic, reno, bbr, or what else the kernel has.",
        example="cubic,reno", header="conges-\ntion", called="congestion control",
    ),
    Factor(
        "slow_start_after_idle", "tcp", ("slow_start_after_idle",), q.FLAG,
        "Whether the congestion window shrinks while a connection is idle.", example="on,off",
        header="idle\nrestart", called="slow start after idle", phrase="slow start after idle {}",
    ),
    Factor(
        "blackhole_timeout", "tcp", ("blackhole_timeout_s",), q.SECONDS,
        "How long an end does without TFO after what looks like a black hole; 0s: no detection.",
        example="0s,3600s", header="black\nhole s", phrase="a pause of {} s after black holes",
        words={"0": "no detection of black holes"},
    ),
    Factor(
        "client_fastopen", "tcp", ("client_fastopen",), q.TEXT,
        "tcp_fastopen of the client, where it uses TFO: 0x1 with cookies, 0x5 always without.",
        example="0x1,0x5", header="client\nbits", phrase="client bits {}",
    ),
    Factor(
        "listener_fastopen", "tcp", ("listener_fastopen",), q.TEXT,
        "tcp_fastopen of the hosts, where the client uses TFO: 0x1 without, 0x2 with cookies, 0x202 without.",
        example="0x2,0x202", header="listener\nbits", phrase="listener bits {}",
    ),
)
ENGINE: Final = Factor(
    "engine", "engine", ("engine",), q.choice(*get_args(AskedEngine)),
    "Whose clock runs: auto, or of host and virtual.", example="host,virtual", default="auto",
    header="engine", key="engines",
)
TRANSPORT: Final = Factor(
    "transport", "arm", ("transport",), q.choice(*TRANSPORT_WORDS),
    "Arms: off,cold,warm (of TFO), all (each session, HTTP); or transports: tcp,tfo,tls,tls+tfo,recorded...",
    example="off,warm", default="off,cold,warm", named="transports", key="transports",
)
# Which option and key they come from is TRANSPORT's.
_OF_TRANSPORT: Final = (
    Factor(
        "arm", "arm", ("name",), q.choice(*ARMS),
        "The named combination of transport and cookies; off2 is off once more, the A/A control.",
        default="off,cold,warm",
        columns=("arm",), named="transports", key="transports",
    ),
    Factor(
        "cookies", "arm", ("cookies",), q.choice("none", "cold", "warm"),
        "TFO cookies that the client starts with, where it asks for TFO.", default="none,cold,warm",
        named="transports", key="transports",
    ),
)
# fmt: on
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
COLUMNS: Final[dict[str, q.Kind]] = {name: factor.kind for factor in FACTORS for name in factor.export}


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
