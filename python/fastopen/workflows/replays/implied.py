"""The network that a recording implies, and its page as it went over it.

docs/measurements/replays.md lists the rules.

What the recorder's browser and servers caused stays in the page, as lengths of time: name lookups, handshakes
with TLS, waits for a connection, thinking, a body that came slower than the network explains. What the
network causes is left to the replay: round trips, slow start, sharing the link.
No moment of the recording is in the page, and its load event is not either.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.contract.network import RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S, NameLookup, RateLimit
from fastopen.contract.origins import SessionStart
from fastopen.contract.part import RTT_MAX_US
from fastopen.experiments import BASELINE, HEADLINE, ArmName, Experiment, Setup, default_queue_bytes
from fastopen.pages import ImportedPage, Page, Resource
from fastopen.pages.rates import (
    SEGMENT_BYTES,
    WINDOW_MS,
    WINDOW_SEGMENTS,
    achieved_bit_per_s,
    link_bit_per_s,
    slow_start_rounds,
)
from fastopen.pages.recording import RecordedExchange, Recording

WINDOW_MAX_SEGMENTS: Final = 1000
# Sums of a few recorded lengths are off by less.
ROUNDING_MS: Final = 1.0
# A lookup that is shorter than this was answered by a cache of the recorder's machine.
CACHED_MS: Final = 1.0
# In one go: within this part of a round trip nothing can have been acknowledged.
AT_ONCE: Final = 0.5
# Where the time that requests waited for connections is kept as it was recorded: as many as a page can want.
UNLIMITED_CONNECTIONS: Final = 256
# A world measures its link by handshakes, which are sent again after a second: the rest is the hosts' own.
LINK_RTT_MAX_US: Final = 500_000
# Of the load time: on the host, a load with a packet later than this is left out.
LATE_SHARE: Final = 0.01
LATE_MIN_US: Final = 5_000
# The head of a request has to fit into a SYN, as a connection that stands for an open one sends it at once.
HEAD_MAX_BYTES: Final = 1200
URL_MAX_BYTES: Final = 1000
# Connections cost no round trip of their own; the recorded handshakes are in the page.
ARM: Final[ArmName] = HEADLINE.name


@dataclass(frozen=True)
class Rules:
    """The rules that derive facts from a recording. Tests turn single rules off to show their effect."""

    window_ms: float | None = WINDOW_MS
    """For the rate of the link; None: no limit."""
    full_link: bool = True
    """Only where the link was full; else what it achieved limits it, however little that was."""
    initial_window: bool = True
    """Responses that came in one go widen the initial window."""
    round_trips: bool = True
    """Bodies of several windows bound the round trip of their host; else its shortest handshake is that."""
    sending: bool = True
    """Servers that sent slowly do so again."""
    pushes: bool = True
    """What a server pushed is asked for when its initiator is; else when that reveals it."""
    handshakes: bool = True
    """Handshakes and lookups where they were recorded, and no others; else TCP's own on each connection."""
    versions: bool = True
    """Hosts that spoke HTTP/2 or 3 do so again; else all speak HTTP/1.1."""
    waits: bool = True
    """Requests to hosts of HTTP/1.1 wait for connections as recorded; else for one of six."""
    names: NameLookup = "none"
    """Way in which names are looked up through the link; `none`: lookups take as long as recorded."""


@dataclass(frozen=True)
class Replay:
    """The page and the network of a replay."""

    page: Page
    network: Network
    client: Client
    tcp: Tcp
    origins: Origins
    tls: Tls | None
    """None: no host speaks HTTP/3, and all speak in cleartext; else those that do have QUIC's TLS."""
    recorded_ms: float
    recording: Recording
    held_ms: tuple[float, ...]
    """By resource: how long it is held before it is queued, for what the recorder's browser waited for."""
    arm: ArmName = ARM

    def loaded_page(self) -> Page:
        """The page as it is loaded: URLs are https where QUIC has TLS, others http, on the same ports."""
        quic = self.origins.http3_hosts
        if not quic:
            return self.page

        def at_its_port(resource: Resource) -> Resource:
            scheme = "https" if resource.host in quic else "http"
            return resource.model_copy(update={"url": _with_scheme(resource.url, scheme)})

        resources = tuple(map(at_its_port, self.page.resources))
        return self.page.model_copy(update={"url": resources[0].url, "resources": resources})

    def experiment(self, repeats: int) -> Experiment:
        return Experiment(
            name="truth",
            pages=[self.page.name],
            networks=[self.network],
            setups=[Setup(client=self.client, origins=self.origins, tcp=self.tcp, tls=self.tls)],
            arms=[self.arm],
            tolerance=Tolerance(late_us=max(LATE_MIN_US, round(LATE_SHARE * self.recorded_ms * 1000))),
            repeats=repeats,
            seed=1,
        )


def replay_of(imported: ImportedPage, rules: Rules = Rules()) -> Replay:
    """Raises InputError where the recording does not say enough."""
    page, recording = imported.page, _sufficient(imported)
    rate = _rate(recording, rules)
    window = WINDOW_SEGMENTS
    if rules.initial_window:
        window = window_segments(page.resources, recording, rate)
    if rules.round_trips:
        page, recording = _with_fitting_trips(page, recording, rate, window)
    recorded_ms = recording.load_event_ms
    assert recorded_ms is not None
    multiplexed, quic = shared_and_quic_hosts(page.resources, recording.exchanges)
    shared = set(multiplexed) if rules.versions else set()
    quic = quic if rules.versions else []
    held = tuple(
        _held(x, rules, rules.waits or one.host in multiplexed, one.host in shared)
        for one, x in zip(page.resources, recording.exchanges, strict=True)
    )
    if rules.handshakes:
        held = _sent_together(page.resources, recording.exchanges, held, shared)
    limits = {"connections_per_host": UNLIMITED_CONNECTIONS, "connections_total": 4096}
    limited = not (rules.handshakes and rules.waits)
    return Replay(
        page=_as_recorded(page, recording, held, rules, (rate, window), shared),
        network=_with_resolver(_network(recording, rate), recording, rules, page.name),
        client=Client.model_validate({"profile": "browser", **({} if limited else limits)}),
        tcp=Tcp(initial_window_segments=window),
        origins=Origins(http2_hosts=sorted(shared - set(quic)), http3_hosts=quic),
        tls=_tls(rules) if quic else None,
        recorded_ms=recorded_ms,
        recording=recording,
        held_ms=held,
        arm=ARM if rules.handshakes else BASELINE.name,
    )


def recorders_network(recording: Recording) -> Network | None:
    """Return the network that a load was recorded over, named or implied by its file.

    Return None without either: a file without handshakes implies no round trip, and a link that was never
    full had no queue.
    """
    if recording.network is not None:
        try:
            return Network.model_validate(recording.network)
        except ValidationError:
            return None
    rate = _rate(recording, Rules())
    if rate is None or not any(exchange.tcp for exchange in recording.exchanges):
        return None
    return _network(recording, rate)


def _sufficient(imported: ImportedPage) -> Recording:
    page, recording = imported.page, imported.recording
    if recording is None:
        raise InputError("not a recording with timings", page.name, "give the HAR of a page load")
    if not recording.load_event_ms:
        raise InputError(
            "the recording has no time of the load event",
            page.name,
            "record it again and wait until the page is loaded",
        )
    if not any(x.end > x.sent for x in recording.exchanges):
        raise InputError("its entries have no timings", page.name, "export it again with timings")
    return recording


def _held(exchange: RecordedExchange, rules: Rules, waits: bool, shared: bool) -> float:
    """Return the time between request and sending that the replay does not cause by itself.

    `waits`: include the waits for a connection, which are also the recorder's own if its machine was busy.
    Otherwise the replay itself waits for one of six connections.
    """
    if not rules.handshakes:
        return 0.0
    handshake = exchange.tcp + exchange.tls if shared else 0.0
    lookup = exchange.lookup if rules.names == "none" else 0.0
    return lookup + handshake + (exchange.stalled if waits else 0.0)


def _sent_together(
    resources: Sequence[Resource],
    exchanges: Sequence[RecordedExchange],
    held: Sequence[float],
    shared: Collection[str],
) -> tuple[float, ...]:
    """Requests that waited for one shared connection were sent in one go when it stood, in their order.

    Recordings round each length by itself: a tenth of a millisecond would put another response first into the
    first window, and what comes behind it a round trip later.
    """
    longer = list(held)
    for host in shared:
        of_host = [index for index, one in enumerate(resources) if one.host == host]
        of_host.sort(key=lambda index: exchanges[index].sent)
        while of_host:
            first = exchanges[of_host[0]].sent
            together = [index for index in of_host if exchanges[index].sent - first <= ROUNDING_MS]
            last = exchanges[together[-1]].sent
            for index in together:
                longer[index] += last - exchanges[index].sent
            of_host = of_host[len(together) :]
    return tuple(longer)


def shared_and_quic_hosts(
    resources: Sequence[Resource], exchanges: Sequence[RecordedExchange]
) -> tuple[list[str], list[str]]:
    """Return the hosts most of whose requests shared a connection with others at once (HTTP/2 or 3), and of
    these the hosts most of whose shared connections used QUIC (HTTP/3).
    """
    pairs = [(one.host, exchange) for one, exchange in zip(resources, exchanges, strict=True)]
    shared = _mostly((host, one.multiplexed) for host, one in pairs)
    multiplexed = ((host, one.carrier == "quic") for host, one in pairs if one.multiplexed and host in shared)
    return shared, _mostly(multiplexed)


def _mostly(found: Iterable[tuple[str, bool]]) -> list[str]:
    """Return the hosts for which more than half is true."""
    return [host for host, ones in grouped(found).items() if 2 * sum(ones) > len(ones)]


def _tls(rules: Rules) -> Tls:
    """QUIC's early data does what cookies do for TCP: a connection costs no round trip of its own."""
    session: SessionStart = "early" if rules.handshakes else "none"
    return Tls(security="recorded", session=session, key_share="x25519")


def _with_scheme(url: str, scheme: str) -> str:
    """With the port written out, since another scheme has another one by default."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    default = port == {"http": 80, "https": 443}[scheme]
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{parts.port}")
    return parts._replace(scheme=scheme, netloc=host if default else f"{host}:{port}").geturl()


def _rate(recording: Recording, rules: Rules) -> int | None:
    """Within what a world can do; a link that is faster has no limit that would matter."""
    if rules.window_ms is None:
        return None
    derived = link_bit_per_s if rules.full_link else achieved_bit_per_s
    found = derived(recording.exchanges, rules.window_ms)
    if found is None or found > RATE_MAX_BIT_PER_S:
        return None
    return max(found, RATE_MIN_BIT_PER_S)


def _network(recording: Recording, rate: int | None) -> Network:
    """The nearest host makes the access link's RTT; what others lie further away is their own."""
    trips = {host: min(round(ms * 1000), RTT_MAX_US) for host, ms in recording.round_trip_ms.items()}
    base = min(*trips.values(), LINK_RTT_MAX_US)
    return Network(
        rtt_us=base,
        down=RateLimit(rate_bit_per_s=rate, queue_bytes=default_queue_bytes(rate)),
        up=RateLimit(rate_bit_per_s=None, queue_bytes=None),
        host_extra_rtt_us={host: trip - base for host, trip in trips.items() if trip > base},
    )


def _with_resolver(network: Network, recording: Recording, rules: Rules, name: str) -> Network:
    """Add a resolver as far away as the shortest uncached lookup. Raises InputError if there is none."""
    if rules.names == "none":
        return network
    lookups = [exchange.lookup for exchange in recording.exchanges if exchange.lookup >= CACHED_MS]
    if not lookups:
        raise InputError(f"no DNS lookup took {CACHED_MS:g} ms or more", name, "drop --names to compare it")
    rtt_us = min(round(1000 * min(lookups)), RTT_MAX_US)
    return network.model_copy(update={"names": rules.names, "resolver_rtt_us": rtt_us})


def window_segments(resources: Sequence[Resource], recording: Recording, rate: int | None) -> int:
    """The initial window: the most segments of any response that came in one go, as the replay sends it.

    Content delivery networks begin with more than ten, and a connection that is open already may have more.
    A response that took longer than the rate explains is paced, and pieces do not fill the head's segment:
    Linux counts its window in packets, so that it needs one more.
    """

    def segments(exchange: RecordedExchange) -> int:
        paced = _sending(exchange, 0.0, rate, WINDOW_MAX_SEGMENTS) > 0
        return math.ceil(exchange.received_bytes / SEGMENT_BYTES) + paced

    # A single slow handshake would make much of a host seem to have come at once.
    usual = median_low(recording.round_trip_ms.values())
    at_once = [
        segments(x)
        for resource, x in zip(resources, recording.exchanges, strict=True)
        if x.end - x.first_byte <= AT_ONCE * min(usual, recording.round_trip_ms[resource.host])
    ]
    return min(max([WINDOW_SEGMENTS, *at_once]), WINDOW_MAX_SEGMENTS)


def _with_fitting_trips(
    page: Page, recording: Recording, rate: int | None, window: int
) -> tuple[Page, Recording]:
    """Shorten round trips until slow start explains how fast each body came.

    A single handshake may have been slow, or the initial window of a host larger than that of others. The
    difference becomes think time, so that waits keep their length.
    """
    trips = dict(recording.round_trip_ms)
    for resource, exchange in zip(page.resources, recording.exchanges, strict=True):
        if rounds := slow_start_rounds(exchange.received_bytes, window):
            on_the_link = exchange.received_bytes * 8000 / rate if rate else 0.0
            fits = max(0.0, exchange.end - exchange.first_byte - on_the_link) / rounds
            trips[resource.host] = min(trips[resource.host], fits)
    shorter = {host: ms - trips[host] for host, ms in recording.round_trip_ms.items()}
    resources = tuple(
        one.model_copy(update={"server_think_us": one.server_think_us + _us(shorter[one.host])})
        for one in page.resources
    )
    return page.model_copy(update={"resources": resources}), replace(recording, round_trip_ms=trips)


def _as_recorded(
    page: Page,
    recording: Recording,
    held: Sequence[float],
    rules: Rules,
    link: tuple[int | None, int],
    shared: Collection[str],
) -> Page:
    """Return the page with recorded connections and slow servers. `link`: bit/s, initial window."""

    def changed(number: int, exchange: RecordedExchange, hold: float) -> Resource:
        resource = page.resources[number]
        update: dict[str, object] = {"processing_us": resource.processing_us + _us(hold)}
        if rules.handshakes:
            if resource.host not in shared:
                update["server_think_us"] = resource.server_think_us + _us(exchange.tcp + exchange.tls)
            update["request_header_bytes"] = min(resource.request_header_bytes, HEAD_MAX_BYTES)
            if len(resource.url) > URL_MAX_BYTES:
                # Two URLs may begin alike.
                update["url"] = f"{resource.url[:URL_MAX_BYTES]}~{number}"
        initiator = resource.initiator
        if rules.pushes and exchange.pushed and initiator is not None:
            queued = recording.exchanges[initiator].asked + held[initiator]
            update["pushed"] = True
            update["processing_us"] = _us(exchange.asked + hold - queued)
        sending = _sending(exchange, recording.round_trip_ms[resource.host], *link)
        update["server_send_us"] = _us(sending) if rules.sending else 0
        return resource.model_copy(update=update)

    resources = tuple(map(changed, range(len(page.resources)), recording.exchanges, held))
    return page.model_copy(update={"url": resources[0].url, "resources": resources})


def _sending(exchange: RecordedExchange, round_trip_ms: float, rate: int | None, window: int) -> float:
    """Return the time the body took beyond what the network explains; else 0."""
    received_ms, size = exchange.end - exchange.first_byte, exchange.received_bytes
    # Slow start's rounds after the first (each doubles the window), and the bytes at the link's rate.
    explained_ms = slow_start_rounds(size, window) * round_trip_ms + (size * 8000 / rate if rate else 0.0)
    return received_ms if received_ms > explained_ms else 0.0


def _us(ms: float) -> int:
    return max(0, round(ms * 1000))
