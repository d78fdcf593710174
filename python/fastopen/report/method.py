"""Describe the method and the machine, for the methods section of a paper."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fastopen.analysis.attribution import RunAnalysis
from fastopen.analysis.statistics import Results
from fastopen.analysis.statistics.protocols import http_of
from fastopen.common import units
from fastopen.common.grouping import grouped
from fastopen.common.phrases import NBSP, listed, plural
from fastopen.contract import LinkDirection, Network, WorldRecord
from fastopen.experiments import ARMS, DesignPoint, Factor, Setup, of_part
from fastopen.experiments.factors import Part

# If there are more setups or links, the text does not list them.
SETTINGS_NAMED: Final = 6
# Payload of a TCP segment on Ethernet, with timestamps. QUIC's initial window has as many bytes as TCP's.
TCP_SEGMENT_BYTES: Final = 1448


def method_paragraphs(analysis: RunAnalysis) -> Iterator[str]:
    """Yield the paragraphs of a methods section that describes the pages, networks, loads and statistics."""
    results = analysis.results
    experiment = results.experiment
    yield (
        f"We loaded {plural(len(results.pages), 'page')} ({listed(list(results.pages))}) over"
        f" {plural(len(experiment.networks), 'emulated network')}: round-trip times of {_networks(results)}."
        " Half of the round-trip time was spent in each direction; all hosts of a page"
        " shared one access link, each with an address of its own."
    )
    yield " ".join(_setups(results))
    yield (
        f"Each page was loaded {listed([ARMS[arm].words for arm in experiment.arms])}, {_repeats(results)}"
        " The loads of one repeat ran in one world and were compared with each other only. No connection,"
        " cookie or TCP metric was carried from load to load, except the cookies of warm loads."
    )
    yield from _first_flights(results)
    yield from _quic(results)
    yield from _stack(results, analysis.world)
    yield (
        "Page load time runs from navigation start to the load event. The improvement is the median over the"
        f" paired repeats of (PLT off - PLT on) / PLT off, signed{_certainty(results)}. A load counted as one"
        " with TFO only if TCP_INFO of its connections reported data in the SYN as acknowledged; loads whose"
        " evidence contradicted their label are left out together with their pairs, and listed below."
    )
    looked_up = any(network.names != "none" for network in experiment.networks)
    yield (
        "The critical path of a load was followed back from the load event through what each request waited"
        " for last: its initiator, the handshake of its connection, or the request that held the connection"
        " before. Its pieces add up to the page load time exactly."
        + ("" if looked_up else " Names came from a hosts file, so name lookups took no time.")
    )
    if experiment.notes:
        yield " ".join(experiment.notes)


def _first_flights(results: Results) -> Iterator[str]:
    pairs = [(setup, setup.tls) for setup in results.experiment.setups if setup.tls is not None]
    setups, encrypted = [setup for setup, _ in pairs], [tls for _, tls in pairs]
    began = {tls.session for tls in encrypted}
    if not began - {"none"}:
        return
    tickets = listed([str(count) for count in sorted({tls.tickets for tls in encrypted})])
    word = "both ends" if all(setup.client.type.ours for setup in setups) else "the origins"
    yield (
        f"TLS sessions came from an earlier visit: {' or '.join(dict.fromkeys(map(_visit, setups)))}."
        f" Origins sent {tickets} stateful tickets on a connection, each good for one connection. Tickets,"
        " certificates and ciphers were the same with every session. A load counted only if, by"
        f" the evidence of {word}, every ticket resumed a session, as far as there were connections, and no"
        " other connection resumed one."
    )
    if "early" in began:
        rejected = any(tls.rejects_early_data for tls in encrypted)
        answered = f" Origins accepted it{', where the rows do not say otherwise,' if rejected else ''}"
        together = " in one write" if all(setup.client.type.ours for setup in setups) else ""
        yield (
            f"With early data the first request of a connection went with the ClientHello{together}, if its"
            f" method was safe.{answered} and answered before the handshake was complete: a load counted"
            " only if they had read early data before that, and had held no first answer back."
        )


def _visit(setup: Setup) -> str:
    client = setup.client.type
    if client.ours:
        return "one connection to each host over a link without delay"
    return (
        f"the page, loaded by {client.label} over a link without delay; its connections were then closed"
        f" ({client.label} keeps {client.tickets_kept} tickets of a host; what else a visit leaves, such as"
        " which version of HTTP a host speaks, it keeps as well)"
    )


def _quic(results: Results) -> Iterator[str]:
    setups = [setup for setup in results.experiment.setups if setup.origins.quic]
    if not setups:
        return
    window_bytes = {one.tcp.initial_window_segments * TCP_SEGMENT_BYTES for one in setups}
    windows = listed([f"{count:,}" for count in sorted(window_bytes)])
    controls = listed(sorted({setup.tcp.congestion_control for setup in setups}))
    ends, where = "", "both sockets"
    if others := sorted({setup.client.label for setup in setups if not setup.client.type.ours}):
        ends = (
            f" at the origins, which this paragraph describes; {listed(others)} used its own stack, settings"
            " and timers"
        )
        where = "the origins' sockets and the client's interface"
    yield (
        f"HTTP/3 ran over QUIC (quinn 0.11, h3){ends}, which has no SYN, and so without TFO. Its congestion"
        f" control was {controls} and its initial window {windows} bytes, as those of TCP; datagrams had"
        " 1,200 bytes, without path MTU discovery and offloads. Other differences from"
        " Linux' TCP: QUIC paces its packets, it pads its first flights to whole datagrams (a lost one"
        " is retransmitted after a second, as a SYN is), and QPACK compressed headers without the dynamic"
        " table that HPACK has. Priorities of RFC 9218 were honoured as over HTTP/2. The evidence is in"
        f" the datagrams at {where}, whose packets are counted by type: with early data a load"
        " counted only if 0-RTT packets had arrived, and origins had read them before their handshake"
        " was complete. In virtual time processing is free, which hides what QUIC costs in user space."
    )


def environment_facts(analysis: RunAnalysis) -> list[tuple[str, str]]:
    """Return a (name, value) pair for each known fact about the environment of a run: the machine, its
    kernels, program versions, and the pages with their digests."""
    results = analysis.results
    environment, experiment = results.environment, results.experiment
    versions, memory = environment.get("versions", {}), environment.get("memory_bytes")
    facts: list[tuple[str, Any]] = [
        ("run started", environment.get("started")),
        ("status", results.status),
        ("engine", listed(sorted({cell.cell.engine for cell in results.cells}))),
        ("kernel of the worlds", analysis.world.kernel if analysis.world is not None else None),
        ("kernel of this machine", environment.get("kernel")),
        ("processor", environment.get("processor")),
        ("cores", environment.get("cores")),
        ("memory", f"{memory / 2**30:.1f} GiB" if isinstance(memory, int) else None),
        ("worlds at once", environment.get("worlds_at_once")),
        ("load average at the start", environment.get("load_average")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("experiment", experiment.name),
        ("seed", experiment.seed),
        ("repeats", experiment.repeats),
    ]
    if analysis.world is not None:
        client, origins = analysis.world.sysctls.client, analysis.world.sysctls.origins
        for name in sorted({*client, *origins}):
            if client.get(name) == origins.get(name):
                facts.append((name, client[name]))
            else:
                facts += [(f"{name} (client)", client.get(name)), (f"{name} (origins)", origins.get(name))]
    facts += [
        (f"page {name}", f"{page.source}; SHA-256 {page.digest()[:16]}")
        for name, page in results.pages.items()
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _networks(results: Results) -> str:
    networks = results.experiment.networks
    of_link = grouped((_rates([network]), number) for number, network in enumerate(networks))
    if len(of_link) > SETTINGS_NAMED:
        of_link = {_rates(networks): [*range(len(networks))]}
    links = "; ".join(f"{_rtts(results, numbers)}, {rates}" for rates, numbers in of_link.items())
    named = ("rtt", "down", "up", "down_trace", "up_trace", "queue", "loss")
    return links + "".join(f", {phrase}" for phrase in _unusual(results, ("network",), named))


def _rtts(results: Results, numbers: Collection[int]) -> str:
    asked_ms = {number: results.experiment.networks[number].rtt_us / 1000 for number in numbers}
    measured_ms = results.measured_rtt_ms.items()
    off = [abs(ms - asked_ms[number]) for (_, number), ms in measured_ms if number in asked_ms]
    proof = f" (as measured in the worlds, within {max(*off, 0.01):.2f}{NBSP}ms)" if off else ""
    return f"{_distinct(f'{ms:g}' for ms in asked_ms.values())}{NBSP}ms{proof}"


def _rates(networks: Sequence[Network]) -> str:
    down = _distinct(_rate(network.down) for network in networks)
    up = _distinct(_rate(network.up) for network in networks)
    queued = (network.down.queue_bytes for network in networks)
    queues = _distinct("any length" if one is None else f"{one / 1000:g}{NBSP}kB" for one in queued)
    losses = _distinct(f"{100 * one.down.loss:g}{NBSP}%" if one.down.loss else "no" for one in networks)
    return f"{down} to the client and {up} from it, queues of {queues}, and {losses} random loss"


def _unusual(results: Results, parts: Sequence[Part], named: Collection[str]) -> Iterator[str]:
    """Yield a phrase such as `an MTU of 1280 bytes` for each setting in `parts`, such as `network`, that
    differs from its usual value. `named` lists the settings to leave out."""
    points = [results.factors.point(result.cell) for result in results.cells]
    for factor in of_part(*parts):
        if factor.header and factor.name not in named and not factor.is_usual(points):
            yield _of_factor(factor, points)


def _of_factor(factor: Factor, points: Iterable[DesignPoint]) -> str:
    """Return the values of a setting as a phrase, such as `an MTU of 1280 or 1500 bytes`."""
    clear = factor.part == "tls" and factor.name != "tls"  # settings of TLS do not apply in cleartext
    having = [one for one in points if factor.applies(one) and not (clear and one.setup.tls is None)]
    if factor.words:
        return _distinct(map(factor.phrase_at, having))
    return factor.template.format(_distinct(map(factor.text_at, having)))


def _distinct(texts: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(texts)))


def _rate(limit: LinkDirection) -> str:
    rate = units.format_rate(limit.rate_bit_per_s).replace(" ", NBSP)
    return rate if limit.trace_ms is None else "a trace"


def _setups(results: Results) -> Iterator[str]:
    setups = results.experiment.setups
    of_client = grouped((setup.client.label, setup) for setup in setups)
    versions = results.environment.get("clients", {})
    for number, ones in enumerate(of_client.values()):
        which = "The" if len(of_client) == 1 else "Another" if number else "One"
        yield f"{which} client was {_client(ones, versions)}."
    http = http_of(results, results.cells)
    if any(setup.origins.http == "recorded" for setup in setups):
        http += " as each host was recorded"
    scales = _distinct(f"{setup.origins.think_scale:g}" for setup in setups)
    settings = ", ".join([http, *_unusual(results, ("origins", "tls"), ("http", "think_scale"))])
    if servers := [shlex.join(setup.origins.server) for setup in setups if setup.origins.server]:
        yield (
            f"The client connected to an external server ({_distinct(servers)}), which had the page's bodies"
            " as files, and the origins behind it."
        )
    yield f"The origins answered with {settings}, and recorded think times multiplied by {scales}."
    if len(setups) > 1:
        yield f"Tables have a row for each of {len(setups)} settings{_setup_names(results)}."


def _setup_names(results: Results) -> str:
    """Return the setups' settings, as `: cleartext with HTTP/1.1; TLS 1.3 with HTTP/2`, or "" if too many."""
    of_setup = grouped((cell.cell.setup, cell) for cell in results.cells)
    if len(of_setup) > SETTINGS_NAMED:
        return ""
    varying = [one for one in results.factors.varying if one.part not in ("network", "engine")]
    names = []
    for cells in of_setup.values():
        phrases = dict.fromkeys(results.factors.phrases(cells[0].cell, varying))
        http = http_of(results, cells)
        names.append(", ".join(phrases) + ("" if http in phrases else f" with {http}"))
    return f": {'; '.join(names)}"


def _client(setups: Sequence[Setup], versions: Mapping[str, str]) -> str:
    """Describe the client that all `setups` use. `versions` maps labels of clients to program versions."""
    clients = [setup.client for setup in setups]
    first = clients[0]
    return first.type.method.format(
        label=first.label,
        program=versions.get(first.label, first.label),
        command=shlex.join(first.command or ()),
        limits=_limits(setups),
        profile=_distinct(client.profile for client in clients),
        keep_alive=_distinct(units.on_off(client.keep_alive) for client in clients),
        processing_scale=_distinct(f"{client.processing_scale:g}" for client in clients),
    )


def _limits(setups: Sequence[Setup]) -> str:
    # With keep-alive, HTTP/2 and HTTP/3 use only one connection to each host.
    one_each = {
        version
        for setup in setups
        for version in (*setup.origins.versions, *(("2",) if setup.origins.http == "recorded" else ()))
        if setup.client.keep_alive and version in ("2", "3")
    }
    several = [setup for setup in setups if not (setup.client.keep_alive and setup.origins.http in one_each)]
    hosts = "one connection a host"
    if several:
        count = _distinct(str(setup.client.connections_per_host) for setup in several)
        hosts = f"at most {count} connections a host"
        if one_each:
            hosts += f" (one with {listed([f'HTTP/{version}' for version in sorted(one_each)])})"
    return f"{hosts} and {_distinct(str(setup.client.connections_total) for setup in setups)} in all"


def _repeats(results: Results) -> str:
    """Return the end of the sentence `Each page was loaded ...`: the number of repeats and their order."""
    experiment = results.experiment
    times = plural(experiment.repeats, "time")
    exactly = {cell.loads for cell in results.cells} == {experiment.repeats}
    shuffled = (
        f"{'' if exactly else 'up to '}{times} each, in an order shuffled from the seed {experiment.seed}"
    )
    if experiment.vary is not None:
        return f"{shuffled}, with values sampled uniformly around those above: {experiment.vary.phrase}."
    once = "once each, since these loads are deterministic: a repeat would give the same bytes"
    alone = {len(cell.plts_ms) <= 1 and cell.cell.engine == "virtual" for cell in results.cells}
    if alone == {True}:
        return f"{once}."
    if alone == {False}:
        return f"{shuffled}."
    return f"{shuffled}; in virtual time, where neither network nor client draws random numbers, {once}."


def _certainty(results: Results) -> str:
    interval = f", with an interval of 95{NBSP}% from order statistics (Hettmansperger and Sheather 1986)"
    cells = [cell for cell in results.cells if cell.improvement_percent is not None]
    if not any(cell.deterministic or cell.varied for cell in cells):
        return interval
    why = "virtual time has no noise, so these loads are the same each time"
    if any(cell.varied for cell in cells):
        why = f"brackets show the 5 and 95{NBSP}% quantiles of the samples, a range over uncertain inputs"
    exact = all(cell.deterministic or cell.varied for cell in cells)
    return f"; {why}" if exact else f"{interval}; for loads without random factors, {why}"


def _stack(results: Results, world: WorldRecord | None) -> Iterator[str]:
    engines = sorted({cell.cell.engine for cell in results.cells})
    words = {
        "host": "the TCP stack of the machine's own Linux kernel in real time",
        "virtual": "the TCP stack of a pinned Linux kernel in virtual time",
    }
    text = f"All packets went through {listed([words[engine] for engine in engines])}"
    if world is not None:
        points = [results.factors.point(result.cell) for result in results.cells]
        settings = [f"Linux {world.kernel}", *(_of_factor(factor, points) for factor in of_part("tcp"))]
        text += f" ({', '.join(settings)}), in network namespaces of their own"
    yield text + "."
