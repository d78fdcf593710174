"""Derive a page and the recorder's network from a recording, to replay the page load over that network.

docs/measurements/replays.md lists the rules.

The page contains the delays that the recorder's browser and servers caused: name lookups, TCP and TLS
handshakes, waits for a connection, server think times, and slow sending of bodies. Delays that the network
causes are left to the replay: round trips, slow start, and sharing of the link."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from pydantic import ValidationError

from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.contract import Client, Network, Origins, Tcp, Tls, Tolerance
from fastopen.contract.network import RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S, LinkDirection, NameLookup
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
from fastopen.pages.url import with_scheme

WINDOW_MAX_SEGMENTS: Final = 1000
# The upper bound of the rounding error in sums of a few recorded durations, in ms.
ROUNDING_MS: Final = 1.0
# A lookup that is shorter than this was answered by a cache of the recorder's machine.
CACHED_MS: Final = 1.0
# A response that takes at most this share of a round trip arrives in one flight, before any acknowledgment.
AT_ONCE: Final = 0.5
# The limit of connections per host if the page has the recorded waits for connections. No page needs as many.
UNLIMITED_CONNECTIONS: Final = 256
# The maximum RTT of the link. Handshakes that measure it time out after a second. Hosts may have extra RTT.
LINK_RTT_MAX_US: Final = 500_000
# The lateness of a packet that is tolerated on the engine `host`, as a share of the load time.
LATE_SHARE: Final = 0.01
LATE_MIN_US: Final = 5_000
# The maximum size of a request's header in a replay. ARM sends requests in the SYN, so they must fit into it.
HEAD_MAX_BYTES: Final = 1200
URL_MAX_BYTES: Final = 1000
# The arm of replays. Its connections need no round trip, because the page contains the recorded handshakes.
ARM: Final[ArmName] = HEADLINE.name


@dataclass(frozen=True)
class Rules:
    """The rules that derive a network and a page from a recording, to replay it. False or None turns a rule
    off, to measure its effect."""

    window_ms: float | None = WINDOW_MS
    """The length of the time window in which the link's rate is measured; None: a link without rate limit."""
    full_link: bool = True
    """Derive the rate only from times when the link was full. If False, use the highest rate at any time."""
    initial_window: bool = True
    """Enlarge the initial congestion window for responses that arrived in one flight."""
    round_trips: bool = True
    """Shorten a host's RTT to fit the arrival times of its bodies. If False, use the recording's RTT."""
    sending: bool = True
    """Let servers send bodies as slowly as recorded."""
    pushes: bool = True
    """Request a pushed resource together with its initiator. If False, request it when it is discovered."""
    handshakes: bool = True
    """Delay requests by the recorded handshakes and lookups. If False, emulate a TCP handshake instead."""
    versions: bool = True
    """Use HTTP/2 and HTTP/3 for hosts recorded with them. If False, use HTTP/1.1 for all hosts."""
    waits: bool = True
    """Let HTTP/1.1 requests wait for a connection as recorded. If False, limit a host to six connections."""
    names: NameLookup = "none"
    """The protocol of emulated name lookups. With `none`, lookups only delay requests, as recorded."""


@dataclass(frozen=True)
class Replay:
    """The page, network and settings that were derived from a recorded page load, to replay it. The recorded
    page load time is `recorded_ms`. `request_delays_ms` lists the times by which the replay delays each
    resource's request. `arm` selects page loads with or without TFO, such as `warm`."""

    page: Page
    network: Network
    client: Client
    tcp: Tcp
    origins: Origins
    tls: Tls | None
    """The TLS settings of hosts with HTTP/3; None if there are no such hosts. Other hosts use cleartext."""
    recorded_ms: float
    recording: Recording
    request_delays_ms: tuple[float, ...]
    arm: ArmName = ARM

    def loaded_page(self) -> Page:
        """Return the page as the replay loads it. If any host uses HTTP/3, URLs of hosts with HTTP/3 become
        https, and all other URLs become http. Ports do not change."""
        quic = self.origins.http3_hosts
        if not quic:
            return self.page
        resources = tuple(
            one.model_copy(update={"url": with_scheme(one.url, "https" if one.host in quic else "http")})
            for one in self.page.resources
        )
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
    """Derive a page, network and settings from a recording, to replay it. `rules` select the properties of
    the recording that the replay keeps. Raises InputError if the recording lacks timings."""
    page, recording = imported.page, imported.recording
    if recording is None:
        raise InputError("not a recording with timings", page.name, "give the HAR of a page load")
    recorded_ms = recording.load_event_ms
    if not recorded_ms:
        remedy = "record it again and wait until the page is loaded"
        raise InputError("the recording has no time of the load event", page.name, remedy)
    if not any(x.end > x.sent for x in recording.exchanges):
        raise InputError("its entries have no timings", page.name, "export it again with timings")
    rate = _rate(recording, rules)
    window = window_segments(page.resources, recording, rate) if rules.initial_window else WINDOW_SEGMENTS
    if rules.round_trips:
        page, recording = _with_fitting_trips(page, recording, rate, window)
    pairs = [(one.host, x) for one, x in zip(page.resources, recording.exchanges, strict=True)]
    multiplexed = _mostly((host, x.multiplexed) for host, x in pairs)
    over_quic = ((host, x.carrier == "quic") for host, x in pairs if x.multiplexed and host in multiplexed)
    quic = _mostly(over_quic) if rules.versions else []
    shared = set(multiplexed) if rules.versions else set()
    delays = tuple(_held(x, rules, rules.waits or host in multiplexed, host in shared) for host, x in pairs)
    if rules.handshakes:
        delays = _sent_together(page.resources, recording.exchanges, delays, shared)
    # With early data, a QUIC connection needs no round trip, like a TCP connection with TFO.
    session: SessionStart = "early" if rules.handshakes else "none"
    limits = {"connections_per_host": UNLIMITED_CONNECTIONS, "connections_total": 4096}
    limited = not (rules.handshakes and rules.waits)
    return Replay(
        page=_as_recorded(page, recording, delays, rules, (rate, window), shared),
        network=_with_resolver(_network(recording, rate), recording, rules, page.name),
        client=Client.model_validate({"profile": "browser", **({} if limited else limits)}),
        tcp=Tcp(initial_window_segments=window),
        origins=Origins(http2_hosts=sorted(shared - set(quic)), http3_hosts=quic),
        tls=Tls(security="recorded", session=session, key_share="x25519") if quic else None,
        recorded_ms=recorded_ms,
        recording=recording,
        request_delays_ms=delays,
        arm=ARM if rules.handshakes else BASELINE.name,
    )


def recorders_network(recording: Recording) -> Network | None:
    """Return the network over which a page was recorded. If the recording does not name it, derive it from
    the timings. Return None if the named network is invalid, or if the timings do not show RTT and rate."""
    if recording.network is not None:
        try:
            return Network.model_validate(recording.network)
        except ValidationError:
            return None
    rate = _rate(recording, Rules())
    if rate is None or not any(exchange.tcp for exchange in recording.exchanges):
        return None
    return _network(recording, rate)


def _held(exchange: RecordedExchange, rules: Rules, waits: bool, shared: bool) -> float:
    """Return the time in ms by which a replay delays a request: the recorded name lookup (unless the replay
    emulates lookups), plus the recorded handshake if the host is `shared` (HTTP/2 or HTTP/3), plus the
    recorded wait for a free connection if `waits`; 0 if `rules.handshakes` is False."""
    # A busy machine may have caused the recorded wait. Without `waits`, a limit of six connections causes it.
    if not rules.handshakes:
        return 0.0
    handshake = exchange.tcp + exchange.tls if shared else 0.0
    lookup = exchange.lookup if rules.names == "none" else 0.0
    return lookup + handshake + (exchange.stalled if waits else 0.0)


def _sent_together(
    resources: Sequence[Resource],
    exchanges: Sequence[RecordedExchange],
    delays: Sequence[float],
    shared: Collection[str],
) -> tuple[float, ...]:
    """Return the delay of each request in ms: `delays`, but longer for some requests, so that the replay
    sends requests together if they were sent almost together to a host in `shared` (HTTP/2 or HTTP/3)."""
    # Such requests were sent in order when the connection was ready. But recordings round each duration. An
    # error of 0.1 ms could change the order of requests, and so delay a response by a round trip.
    longer = list(delays)
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


def _mostly(found: Iterable[tuple[str, bool]]) -> list[str]:
    """Return the hosts for which most flags are True. `found` has (host, flag) for each request."""
    return [host for host, ones in grouped(found).items() if 2 * sum(ones) > len(ones)]


def _rate(recording: Recording, rules: Rules) -> int | None:
    """Return the recorded link's rate in bit/s; None if it is unknown, or too high to affect load times."""
    if rules.window_ms is None:
        return None
    derived = link_bit_per_s if rules.full_link else achieved_bit_per_s
    found = derived(recording.exchanges, rules.window_ms)
    if found is None or found > RATE_MAX_BIT_PER_S:
        return None
    return max(found, RATE_MIN_BIT_PER_S)


def _network(recording: Recording, rate: int | None) -> Network:
    """Return a network with the link rate `rate` in bit/s (None: unlimited). The link has the recorded RTT of
    the nearest host, and other hosts have additional RTTs."""
    trips = {host: min(round(ms * 1000), RTT_MAX_US) for host, ms in recording.round_trip_ms.items()}
    base = min(*trips.values(), LINK_RTT_MAX_US)
    return Network(
        rtt_us=base,
        down=LinkDirection(rate_bit_per_s=rate, queue_bytes=default_queue_bytes(rate)),
        up=LinkDirection(rate_bit_per_s=None, queue_bytes=None),
        host_extra_rtt_us={host: trip - base for host, trip in trips.items() if trip > base},
    )


def _with_resolver(network: Network, recording: Recording, rules: Rules, name: str) -> Network:
    """Return the network, with a DNS resolver if `rules.names` requires one. The resolver's RTT is the
    shortest recorded lookup that no cache answered. Raises InputError about the page `name` if there is no
    such lookup."""
    if rules.names == "none":
        return network
    lookups = [exchange.lookup for exchange in recording.exchanges if exchange.lookup >= CACHED_MS]
    if not lookups:
        raise InputError(f"no DNS lookup took {CACHED_MS:g} ms or more", name, "drop --names to compare it")
    rtt_us = min(round(1000 * min(lookups)), RTT_MAX_US)
    return network.model_copy(update={"names": rules.names, "resolver_rtt_us": rtt_us})


def window_segments(resources: Sequence[Resource], recording: Recording, rate: int | None) -> int:
    """Return the initial congestion window with which to replay a recording, in segments. It is the size of
    the largest response that arrived without waiting for an acknowledgment, but at least WINDOW_SEGMENTS and
    at most WINDOW_MAX_SEGMENTS. `rate` is the rate of the link in bit/s."""

    # Content delivery networks begin with more than ten segments. A paced response needs one more segment,
    # because the segment of its head is not full, and Linux counts the window in packets.
    def segments(exchange: RecordedExchange) -> int:
        paced = _sending(exchange, 0.0, rate, WINDOW_MAX_SEGMENTS) > 0
        return math.ceil(exchange.received_bytes / SEGMENT_BYTES) + paced

    # If a host's only handshake was slow, many of its responses would seem to arrive in one flight.
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
    """Shorten the recorded RTT to a host if otherwise its bodies, sent with slow start, would arrive later
    than recorded. Add the difference to server think times, so that responses begin as before. Return the
    changed page and recording. `rate` is in bit/s, and `window` the initial congestion window in segments."""
    # A host's only handshake may have been slow, or its initial window may be larger than other hosts'.
    trips = dict(recording.round_trip_ms)
    for resource, exchange in zip(page.resources, recording.exchanges, strict=True):
        if rounds := slow_start_rounds(exchange.received_bytes, window):
            on_the_link = exchange.received_bytes * 8000 / rate if rate else 0.0
            fits = max(0.0, exchange.end - exchange.first_byte - on_the_link) / rounds
            trips[resource.host] = min(trips[resource.host], fits)
    shorter = {host: ms - trips[host] for host, ms in recording.round_trip_ms.items()}
    think_us = (one.server_think_us + _us(shorter[one.host]) for one in page.resources)
    page = page.changed({n: {"server_think_us": us} for n, us in enumerate(think_us)})
    return page, replace(recording, round_trip_ms=trips)


def _as_recorded(
    page: Page,
    recording: Recording,
    delays: Sequence[float],
    rules: Rules,
    link: tuple[int | None, int],
    shared: Collection[str],
) -> Page:
    """Return the page with the delays of its recording. `delays` lists the delay before each request in ms.
    If `rules` require it, server think times include the handshakes with HTTP/1.1 hosts (hosts not in
    `shared`), servers push the resources that were pushed, and they send bodies as slowly as recorded. `link`
    is (link's rate in bit/s, initial congestion window in segments)."""

    def changed(number: int, exchange: RecordedExchange, delay: float) -> Resource:
        resource = page.resources[number]
        update: dict[str, object] = {"processing_us": resource.processing_us + _us(delay)}
        if rules.handshakes:
            if resource.host not in shared:
                update["server_think_us"] = resource.server_think_us + _us(exchange.tcp + exchange.tls)
            update["request_header_bytes"] = min(resource.request_header_bytes, HEAD_MAX_BYTES)
            if len(resource.url) > URL_MAX_BYTES:
                # Add the number, because two URLs may be equal after they are cut.
                update["url"] = f"{resource.url[:URL_MAX_BYTES]}~{number}"
        initiator = resource.initiator
        if rules.pushes and exchange.pushed and initiator is not None:
            queued = recording.exchanges[initiator].asked + delays[initiator]
            update["pushed"] = True
            update["processing_us"] = _us(exchange.asked + delay - queued)
        sending = _sending(exchange, recording.round_trip_ms[resource.host], *link)
        update["server_send_us"] = _us(sending) if rules.sending else 0
        return resource.model_copy(update=update)

    resources = tuple(map(changed, range(len(page.resources)), recording.exchanges, delays))
    return page.model_copy(update={"url": resources[0].url, "resources": resources})


def _sending(exchange: RecordedExchange, round_trip_ms: float, rate: int | None, window: int) -> float:
    """Return the time in ms over which the replay's server spreads a body; 0 if it sends at full speed."""
    received_ms, size = exchange.end - exchange.first_byte, exchange.received_bytes
    # The network explains the rounds of slow start after the first, and the bytes at the link's rate.
    explained_ms = slow_start_rounds(size, window) * round_trip_ms + (size * 8000 / rate if rate else 0.0)
    return received_ms if received_ms > explained_ms else 0.0


def _us(ms: float) -> int:
    return max(0, round(ms * 1000))
