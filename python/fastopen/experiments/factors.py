"""Define all factors: the settings that can vary in an experiment. Add new factors here (CONTRIBUTING.md).

Options, table columns and phrases are in the order of FACTORS, but the RTT is the last column of a table."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_args

from fastopen.contract import Origins, Tls
from fastopen.contract.client import PROFILES
from fastopen.contract.client_kinds import LOADER
from fastopen.contract.origins import Http
from fastopen.experiments import quantities as q
from fastopen.experiments.arms import ARMS, TRANSPORT_WORDS
from fastopen.experiments.factor import DesignPoint, Factor, Part
from fastopen.experiments.model import AskedEngine, default_queue_bytes
from fastopen.experiments.named_networks import NAMED_NETWORKS, RATES_BY_DEFAULT
from fastopen.experiments.setups import KINDS, default_request_heads, with_bodies_for
from fastopen.experiments.trace import mean_rate_bit_per_s


def _default_queues(point: DesignPoint) -> tuple[int | None, ...]:
    limits = (point.network.down, point.network.up)
    rates = (mean_rate_bit_per_s(one.rate_bit_per_s, one.trace_ms) for one in limits)
    return tuple(default_queue_bytes(rate) for rate in rates)


def _of_profile(key: str) -> Callable[[DesignPoint], tuple[Any, ...]]:
    return lambda point: (PROFILES[point.setup.client.profile][key],)


def _chain_of_certificates(point: DesignPoint) -> tuple[Any, ...]:
    tls = point.setup.tls
    return (None if tls is None else Tls(certificates=tls.certificates).chain_bytes,)


_RATES: Final = NAMED_NETWORKS[RATES_BY_DEFAULT]
_RTTS: Final = "20ms,100ms,200ms"
# Words for the way in which TLS connections begin, by the value of the factor `session`.
SESSION_WORDS: Final = {"none": "full handshakes", "resumed": "resumed sessions", "early": "early data"}

# fmt: off
RTT: Final = Factor(
    "rtt", "network", q.DURATION, "Round-trip time of the access link.", paths=("rtt_us",),
    example="20ms,100ms", default=_RTTS,
    default_meaning=f"by --network; {_RTTS} with a rate or trace", header="RTT\nms",
    phrase="{} ms", full="RTT {} ms", columns=("rtt_ms",),
)
_NETWORK: Final = (
    RTT,
    Factor(
        "down", "network", q.RATE, "Rate to the client, or none.", paths=("down.rate_bit_per_s",),
        example="2mbit,4mbit", default=_RATES.down, words={"none": "no limit down"},
        default_meaning=f"by --network; {_RATES.down} with RTT, --up or trace",
        header="down\nMbit/s", phrase="{} Mbit/s down", label="down{}mbit", columns=("down_bit_per_s",),
    ),
    Factor(
        "up", "network", q.RATE, "Rate from the client, or none.", paths=("up.rate_bit_per_s",),
        example="256kbit,1mbit", default=_RATES.up, words={"none": "no limit up"},
        default_meaning=f"by --network; {_RATES.up} with RTT, --down or trace",
        header="up\nMbit/s", phrase="{} Mbit/s up", label="up{}mbit", columns=("up_bit_per_s",),
    ),
    Factor(
        "down_trace", "network", q.TRACE, "Mahimahi trace instead of the rate to the client.",
        paths=("down.trace_ms",), example="FILE", columns=("down_trace",),
    ),
    Factor(
        "up_trace", "network", q.TRACE, "Mahimahi trace instead of the rate from the client.",
        paths=("up.trace_ms",), example="FILE", columns=("up_trace",),
    ),
    Factor(
        "queue", "network", q.QUEUE, "Size of the queue in each direction, or none for no limit.",
        paths=("down.queue_bytes", "up.queue_bytes"), words={"none": "a queue without a limit"},
        default_meaning="the larger of 256 kB and 100 ms at the rate", header="queue\nkB",
        phrase="a queue of {} kB", label="queue{}kB", columns=("down_queue_bytes", "up_queue_bytes"),
        natural=_default_queues, example="96kB,256kB",
    ),
    Factor(
        "aqm", "network", q.TEXT,
        "Queueing: none (one queue, drops at the tail), codel, fq_codel, or drr (--queue for each flow).",
        paths=("down.aqm", "up.aqm"), example="none,codel,drr", header="AQM",
    ),
    Factor(
        "loss", "network", q.FRACTION, "Random loss in each direction.", paths=("down.loss", "up.loss"),
        example="0%,1%", header="loss\n%", phrase="{} % loss", label="loss{}%", chance=bool,
    ),
    Factor(
        "jitter", "network", q.JITTER,
        "Variation of the delay in each direction: a normal deviation, uniform:TIME, or none.",
        paths=("down.jitter", "up.jitter"), example="none,2ms,uniform:2ms", header="jitter", label="jitter{}",
        chance=bool,
    ),
    Factor(
        "reorder", "network", q.FLAG, "Let packets overtake each other under --jitter.",
        paths=("down.reorder", "up.reorder"), example="on,off", header="re-\norder", phrase="reordering {}",
        absent_phrase="no jitter", needs=("down.jitter", None),
    ),
    Factor(
        "cross", "network", q.CROSS,
        "Long TCP flows during each load: down=bulk, up=bulk, down=bulk+up=bulk, or none.",
        example="none,down=bulk,up=bulk", header="cross", phrase="cross traffic {}",
        words={"none": "no cross traffic"},
    ),
    Factor(
        "extra_rtt", "network", q.EXTRA_RTTS, "Extra RTT of a host; repeatable.",
        paths=("host_extra_rtt_us",), example="HOST=RTT", columns=("extra_rtt_ms",), repeatable=True,
    ),
    Factor(
        "path", "network", q.TEXT,
        "Middlebox behind the link that breaks TFO, TLS, QUIC or IPv6; see fastopen factors.",
        example="none,drop-syn-data,strip-both", header="path", label="{}", question=True,
    ),
    Factor(
        "path_hosts", "network", q.WORDS, "Hosts behind the middlebox of --path.", example="HOST,HOST",
        default_meaning="all hosts", needs=("path", "none"),
    ),
    Factor(
        "path_share", "network", q.FRACTION, "Share of hosts behind the middlebox, sampled for each repeat.",
        example="10%,50%", header="behind\n%", phrase="{} % of hosts behind it",
        absent_phrase="no host behind it", label="behind{}%", needs=("path", "none"),
        chance=lambda share: 0 < share < 1,
    ),
    Factor(
        "names", "network", q.TEXT, "Name lookups: none, do53 (UDP), tcp, dot (TLS) or doh (HTTPS).",
        example="none,do53,dot", header="names",
    ),
    Factor(
        "resolver_rtt", "network", q.DURATION_OR_NONE, "RTT to the resolver.", paths=("resolver_rtt_us",),
        example="5ms,20ms", default_meaning="RTT of the link", header="resolver\nms",
        long_name="RTT to the resolver", phrase="a resolver at {} ms", absent_phrase="no lookups",
        label="resolver{}ms", columns=("resolver_rtt_ms",), needs=("names", "none"),
    ),
    Factor(
        "resolver", "network", q.TEXT, "Behaviour of the resolver: answers, drop-first, silent or nxdomain.",
        example="answers,drop-first", header="resolver", needs=("names", "none"),
    ),
    Factor(
        "ip", "network", q.IP, "Version of IP: 4, 6 or 4+6 (both).", example="4,6", header="IP",
        phrase="IPv{}", label="ip{}",
    ),
    Factor(
        "mtu", "network", q.BYTES, "MTU of the links, with IP and TCP headers.", paths=("mtu_bytes",),
        example="1280,1500", header="MTU\nbytes", phrase="an MTU of {} bytes", label="mtu{}",
    ),
    Factor(
        "link", "network", q.TEXT,
        "Emulator of the link: fastopen's program or the kernel (auto: kernel in virtual time).",
        example="program,kernel", header="link",
    ),
)
_CLIENT: Final = (
    Factor(
        "client", "client", q.choice(*KINDS), f"Client that loads the pages: {', '.join(KINDS)}.",
        paths=("label",), example="loader,chromium", default=LOADER.label, header="client",
        columns=("client",), question=True, key="client.kind", phrase="{}",
    ),
    Factor(
        "command", "client", q.COMMAND,
        "Command line of the client command; {urls} stands for all URLs of the page.", example="'CMD {url}'",
    ),
    Factor(
        "view", "client", q.TEXT, "First visit of Chromium, or a repeat visit with its cache.",
        example="first,repeat", header="view", phrase="{} view", question=True,
    ),
    Factor(
        "profile", "client", q.TEXT, "Behaviour of the loader: browser, or mget as in two student reports.",
        example="browser,mget", header="profile", phrase="{}",
    ),
    Factor(
        "keep_alive", "client", q.FLAG, "Reuse of connections by the client.", example="on,off",
        default_meaning="as the profile", header="keep-\nalive", long_name="keep-alive",
        natural=_of_profile("keep_alive"),
    ),
    Factor(
        "connections_per_host", "client", q.COUNT, "Parallel connections to a host.", example="2,6",
        default_meaning="the profile's", header="conns\na host", long_name="connections a host",
        phrase="{} connections a host", natural=_of_profile("connections_per_host"),
    ),
    Factor(
        "connections_total", "client", q.COUNT, "Parallel connections to all hosts.", example="17,256",
        default_meaning="the profile's", header="conns\nin all", long_name="connections in all",
        phrase="{} connections in all", natural=_of_profile("connections_total"),
    ),
    Factor(
        "processing_scale", "client", q.SCALE,
        "Factor on the loader's recorded processing times; 0 for none.", example="0,1",
        header="process-\ning", phrase="processing x {}",
    ),
    Factor(
        "phases", "client", q.WORDS, "Resources that the loader requests: load, async, after.",
        example="load,async",
    ),
    Factor(
        "h3_fallback", "client", q.DURATION_OR_NONE,
        "Time without a QUIC handshake after which the loader also opens TCP, or none.",
        paths=("h3_fallback_us",), example="none,300ms", header="fallback\nms", phrase="TCP {} ms after QUIC",
        absent_phrase="no fallback to TCP", label="fallback{}ms", columns=("h3_fallback_ms",),
    ),
    Factor(
        "request_heads", "client", q.TEXT, "Heads of Chromium's requests: of the recorded sizes, or its own.",
        example="recorded,own", default_meaning="recorded, where the client can", header="heads",
        phrase="{} heads", natural=lambda point: (default_request_heads(point.setup.client.type),),
    ),
    Factor(
        "isolate", "client", q.FLAG, "Let a command see only programs, libraries and fonts.", switch=True,
    ),
    Factor(
        "fixed_scripts", "client", q.FLAG,
        "Same clock and random numbers for Chromium's scripts in each load.", example="on,off",
        header="fixed\nscripts",
    ),
    Factor(
        "screenshots", "client", q.FLAG,
        "Keep a screenshot of the end of each load (fastopen export --format png).", paths=("screenshot",),
        switch=True,
    ),
    Factor(
        "filmstrip", "client", q.FLAG,
        "Keep the pictures during each load (fastopen export --format filmstrip).", switch=True,
    ),
)
_ORIGINS_AND_TLS: Final = (
    Factor(
        "http", "origins", q.choice(*get_args(Http)),
        "Version of HTTP: 1.0, 1.1, 2, 3 (over QUIC), or recorded.", example="1.1,2",
        default_meaning="recorded, by host; 1.1 in cleartext; 1.1,2,3 with --transports all",
        header="HTTP", long_name="version of HTTP", phrase="HTTP/{}", question=True,
        words={"recorded": "HTTP as recorded"},
        natural=lambda point: ("1.1" if point.setup.tls is None else "recorded",),
    ),
    Factor(
        "http2_hosts", "origins", q.WORDS, "Hosts that always speak HTTP/2.", example="HOST,HOST",
    ),
    Factor(
        "http3_hosts", "origins", q.WORDS, "Hosts that always speak HTTP/3.", example="HOST,HOST",
    ),
    Factor(
        "tls", "tls", q.TEXT_OR_NONE, "Version of TLS for all origins, or none for cleartext.",
        paths=("version",), example="none,1.3,1.2",
        default_meaning="1.3 for https URLs; none with transports tcp, tfo or a server", header="TLS",
        natural=lambda _: ("1.3",), long_name="use of TLS", phrase="TLS {}", words={"none": "cleartext"},
        absent_phrase="cleartext",
        columns=("tls",), question=True,
    ),
    Factor(
        "security", "tls", q.TEXT, "URLs served over TLS: tls (all) or recorded (https URLs).",
        example="tls,recorded", default_meaning="recorded, or tls with another factor of TLS",
        header="secu-\nrity", words={"tls": "all URLs over TLS", "recorded": "https URLs over TLS"},
        natural=lambda point: (None if point.setup.tls is None else "recorded",),
    ),
    Factor(
        "key_share", "tls", q.TEXT, "Key share of the loader; those with mlkem do not fit into a SYN.",
        example="x25519,x25519mlkem768", header="key\nshare",
    ),
    Factor(
        "session", "tls", q.TEXT, "TLS sessions: none (full handshakes), resumed (tickets) or early (0-RTT).",
        example="none,resumed,early", default="none",
        default_meaning="none; all with --transports all or if large --certificates are compared",
        header="session", question=True, first_flight=True, words=SESSION_WORDS,
    ),
    Factor(
        "tickets", "tls", q.COUNT,
        "Session tickets that an origin sends on each connection; 0 for no resumption.", example="2,6",
        header="tick-\nets", phrase="{} tickets",
    ),
    Factor(
        "address_tokens", "tls", q.FLAG, "QUIC address tokens of the earlier visit.", example="on,off",
        header="address\ntokens",
    ),
    Factor(
        "quic_retry", "tls", q.FLAG, "Retry for QUIC clients without an address token.", paths=("retry",),
        example="on,off", header="Retry", columns=("quic_retry",),
    ),
    Factor(
        "early_data_rejected", "tls", q.FLAG, "Rejection of early data by origins.", example="on,off",
        header="early\nrejected", long_name="rejected early data", phrase="early data rejected {}",
    ),
    Factor(
        "ticket_state", "tls", q.TEXT,
        "State of the earlier visit's tickets: valid, stale, expired, forgotten.",
        example="valid,stale,expired,forgotten", header="tickets\nare", phrase="tickets {}",
    ),
    Factor(
        "certificates", "tls", q.TEXT_OR_NONE, "Kind of the origins' certificates, which sets their size.",
        example="ecdsa,ml-dsa-44", default_meaning="a chain of --chain-bytes", header="certifi-\ncates",
        phrase="{} certificates", absent_phrase="certificates of no kind",
    ),
    Factor(
        "chain_bytes", "tls", q.BYTES, "Size of the origins' certificate chain.", example="2000,3500",
        default_meaning="3500, or as --certificates", header="chain\nbytes",
        phrase="certificates of {} bytes", natural=_chain_of_certificates,
    ),
    Factor(
        "certificate_compression", "tls", q.TEXT,
        "Compression of certificates by origins and loader: none, brotli or zlib.", example="none,brotli",
        default="none", default_meaning="none; also brotli if large --certificates are compared",
        header="com-\npressed", long_name="compression of certificates", phrase="certificate compression {}",
    ),
    Factor(
        "ech", "tls", q.TEXT,
        "Encrypted ClientHello of the loader: none, or grease (the placeholder that browsers send).",
        example="none,grease", header="ECH", long_name="Encrypted ClientHello", phrase="ECH {}",
    ),
    Factor(
        "origins_keep_alive", "origins", q.FLAG, "Persistent connections at the origins.",
        paths=("keep_alive",), example="on,off", header="origins\nkeep",
        long_name="keep-alive of the origins", columns=("origins_keep_alive",),
    ),
    Factor(
        "single_threaded", "origins", q.FLAG,
        "Origins that serve one connection at a time, and close it after the response.", example="off,on",
        header="single\nthread", long_name="single-threaded origins", phrase="single-threaded origins {}",
        label="single-threaded-{}",
    ),
    Factor(
        "think_scale", "origins", q.SCALE, "Factor on the recorded server think times; 0 for none.",
        example="0,1", header="think", long_name="think time", phrase="think time x {}",
    ),
    Factor(
        "one_address", "origins", q.FLAG,
        "One address, and so one TFO cookie, for all hosts (loader, cleartext).", example="on,off",
        header="one\naddress", long_name="one address for all hosts", phrase="one address {}",
    ),
    Factor(
        "tfo_queue", "origins", q.COUNT, "Size of the TFO queue of an origin's listener.", example="1,4096",
        header="TFO\nqueue",
    ),
    Factor(
        "server", "origins", q.SERVER,
        "Command of an external server between client and origins.",
        example="'nginx -p . -c FILE'",
    ),
    Factor(
        "server_hosts", "origins", q.WORDS, "Hosts of the external server.", example="HOST,HOST",
        default_meaning="all hosts",
    ),
    Factor(
        "server_listen", "origins", q.FLAG,
        "Give the external server's listeners a TFO queue if they have none.", switch=True,
    ),
    Factor(
        "upstream_tfo", "origins", q.FLAG, "TFO from the external server to the origins behind it.",
        example="off,on", header="upstream\nTFO", phrase="TFO upstream {}",
    ),
    Factor(
        "upstream_rtt", "origins", q.DURATION, "RTT between the external server and the origins.",
        paths=("upstream_rtt_us",), example="0ms,20ms", header="upstream\nRTT ms",
        phrase="an upstream RTT of {} ms", label="upstream{}ms", columns=("upstream_rtt_ms",),
    ),
    Factor(
        "bodies", "origins", q.TEXT, "Content of bodies: synthetic, recorded or filler.",
        example="filler,synthetic", default_meaning="as the client needs", header="bodies",
        phrase="{} bodies", natural=lambda point: (with_bodies_for(point.setup.client, Origins()).bodies,),
    ),
)
_TCP: Final = (
    Factor(
        "initial_window", "tcp", q.COUNT, "Initial congestion window of both ends, in segments.",
        paths=("initial_window_segments",), example="4,10", default="10",
        default_meaning="10; also 32 if large --certificates are compared", header="initial\nwindow",
    ),
    Factor(
        "congestion_control", "tcp", q.TEXT,
        "Congestion control of both ends: cubic, reno, bbr or another one of the kernel.",
        example="cubic,reno", header="conges-\ntion", long_name="congestion control", phrase="{}",
    ),
    Factor(
        "slow_start_after_idle", "tcp", q.FLAG, "Slow start after a connection was idle.", example="on,off",
        header="idle\nrestart", long_name="slow start after idle",
    ),
    Factor(
        "blackhole_timeout", "tcp", q.SECONDS,
        "Time without TFO after a suspected black hole; 0s for no detection.", paths=("blackhole_timeout_s",),
        example="0s,3600s", header="black\nhole s", phrase="a pause of {} s after black holes",
        words={"0": "no detection of black holes"},
    ),
    Factor(
        "client_fastopen", "tcp", q.TEXT,
        "Sysctl tcp_fastopen of clients with TFO: 0x1 with cookies, 0x5 without.", example="0x1,0x5",
        header="client\nbits", phrase="tcp_fastopen {} at clients",
    ),
    Factor(
        "listener_fastopen", "tcp", q.TEXT,
        "Sysctl tcp_fastopen of hosts with TFO: 0x2 with cookies, 0x202 without, 0x1 off.",
        example="0x2,0x202", header="listener\nbits", phrase="tcp_fastopen {} at hosts",
    ),
)
ENGINE: Final = Factor(
    "engine", "engine", q.choice(*get_args(AskedEngine)),
    "Clock of the loads: host (real time), virtual, or auto.", example="host,virtual", default="auto",
    header="engine", key="engines", phrase="{}",
)
TRANSPORT: Final = Factor(
    "transport", "arm", q.choice(*TRANSPORT_WORDS),
    "Arms: off,cold,warm; or first flights: tcp,tfo,tls,tls+tfo,recorded; or all.",
    example="off,warm", default="off,cold,warm", named="transports", key="transports",
)
# Factors that users set only through TRANSPORT.
_OF_TRANSPORT: Final = (
    Factor(
        "arm", "arm", q.choice(*ARMS), "Combination of transport and cookies; off2 is the A/A control.",
        paths=("name",), default="off,cold,warm", columns=("arm",), named="transports", key="transports",
    ),
    Factor(
        "cookies", "arm", q.choice("none", "cold", "warm"), "TFO cookies of the client at the start.",
        default="none,cold,warm", named="transports", key="transports",
    ),
)
# fmt: on
FACTORS: Final = (*_NETWORK, *_CLIENT, *_ORIGINS_AND_TLS, *_TCP, ENGINE, TRANSPORT, *_OF_TRANSPORT)
# Factors with an option, a key and an argument of their own.
ASKED: Final = tuple(factor for factor in FACTORS if factor not in _OF_TRANSPORT)
BY_NAME: Final[Mapping[str, Factor]] = {factor.name: factor for factor in FACTORS}
COLUMNS: Final = {name: factor.quantity.kind for factor in FACTORS for name in factor.export}


def of_part(*parts: Part) -> tuple[Factor, ...]:
    """Return the factors of `parts`, such as `network` or `tls`, that have an option of their own."""
    return tuple(factor for factor in ASKED if factor.part in parts)


def cell_columns(point: DesignPoint) -> dict[str, Any]:
    """Map the keys of all factors in `--json`, such as `rtt_ms`, to their values under conditions `point`."""
    return {name: factor.quantity.export(value) for factor, name, value in _exported(point)}


def flat_columns(point: DesignPoint) -> tuple[Any, ...]:
    """Return the values of all factors under conditions `point`, for a table with the columns COLUMNS."""
    return tuple(factor.quantity.flat(value) for factor, _, value in _exported(point))


def _exported(point: DesignPoint) -> Iterator[tuple[Factor, str, Any]]:
    for factor in FACTORS:
        for name, value in zip(factor.export, factor.values(point), strict=False):
            yield factor, name, value
