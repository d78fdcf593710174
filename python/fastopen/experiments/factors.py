"""What varies over the cells of an experiment: each factor is a column of a table, and a word of a name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Protocol

from fastopen import units
from fastopen.contract import Network, Tls
from fastopen.contract.job import PROFILES
from fastopen.experiments.model import EngineName, Experiment, Setup, default_queue_bytes
from fastopen.experiments.trace import mean_rate_bit_per_s


@dataclass(frozen=True)
class Point:
    """Where the arms of one comparison stand: over this network, set up like this, on this engine."""

    network: Network
    setup: Setup
    engine: EngineName


class Located(Protocol):
    """What says where it stands by indices into the experiment's lists."""

    @property
    def network(self) -> int: ...
    @property
    def setup(self) -> int: ...
    @property
    def engine(self) -> EngineName: ...


@dataclass(frozen=True)
class Factor:
    """One thing that may vary.

    `value` takes it from a point, `natural` says what it is where nobody asks (it follows from the other
    factors, and then no table shows it). `text` is for a column whose `header` names the unit, `phrase` for a
    sentence, where the text stands for `{}`.
    """

    name: str
    header: str
    phrase: str
    value: Callable[[Point], Any]
    text: Callable[[Any], str] = str
    natural: Callable[[Point], Any] | None = None

    def text_at(self, point: Point) -> str:
        """The value as a column shows it."""
        return self.text(self.value(point))

    def phrase_at(self, point: Point) -> str:
        """The value as a sentence says it."""
        return self.phrase.format(self.text_at(point))

    def varies(self, points: Sequence[Point]) -> bool:
        """Whether it is something of its own that is different from point to point."""
        if len({repr(self.value(point)) for point in points}) < 2:
            return False
        return self.natural is None or any(self.value(p) != self.natural(p) for p in points)


def _rate(limit: tuple[int | None, bool]) -> str:
    rate, trace = limit
    return "trace" if trace else "none" if rate is None else f"{rate / 1e6:g}"


def _queues(sizes: tuple[int | None, int | None]) -> str:
    texts = ["none" if size is None else f"{size / 1000:g}" for size in sizes]
    return texts[0] if texts[0] == texts[1] else "/".join(texts)


def _default_queues(point: Point) -> tuple[int | None, int | None]:
    limits = (point.network.down, point.network.up)
    rates = (
        one.rate_bit_per_s if one.trace_ms is None else mean_rate_bit_per_s(one.trace_ms) for one in limits
    )
    down, up = (default_queue_bytes(rate) for rate in rates)
    return (down, up)


def _on(value: bool) -> str:
    return "on" if value else "off"


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def _of_profile(key: str) -> Callable[[Point], Any]:
    return lambda point: PROFILES[point.setup.client.profile][key]


RTT: Final = Factor("rtt", "RTT\nms", "{} ms", lambda p: p.network.rtt_us, lambda us: f"{us / 1000:g}")

_NETWORK: Final = (
    Factor(
        "down",
        "down\nMbit/s",
        "{} Mbit/s down",
        lambda p: (p.network.down.rate_bit_per_s, p.network.down.trace_ms is not None),
        _rate,
    ),
    Factor(
        "up",
        "up\nMbit/s",
        "{} Mbit/s up",
        lambda p: (p.network.up.rate_bit_per_s, p.network.up.trace_ms is not None),
        _rate,
    ),
    Factor(
        "queue",
        "queue\nkB",
        "a queue of {} kB",
        lambda p: (p.network.down.queue_bytes, p.network.up.queue_bytes),
        _queues,
        _default_queues,
    ),
    Factor("loss", "loss\n%", "{} % loss", lambda p: p.network.down.loss, lambda loss: f"{100 * loss:g}"),
)
_SETUP: Final = (
    Factor("client", "client", "{}", lambda p: p.setup.client.label),
    Factor("view", "view", "{} view", lambda p: p.setup.client.view),
    Factor("profile", "profile", "{}", lambda p: p.setup.client.profile),
    Factor(
        "keep_alive",
        "keep-\nalive",
        "keep-alive {}",
        lambda p: p.setup.client.keep_alive,
        _on,
        _of_profile("keep_alive"),
    ),
    Factor(
        "connections_per_host",
        "conns\na host",
        "{} connections a host",
        lambda p: p.setup.client.connections_per_host,
        str,
        _of_profile("connections_per_host"),
    ),
    Factor(
        "connections_total",
        "conns\nin all",
        "{} connections in all",
        lambda p: p.setup.client.connections_total,
        str,
        _of_profile("connections_total"),
    ),
    Factor(
        "processing_scale",
        "process-\ning",
        "processing x {}",
        lambda p: p.setup.client.processing_scale,
        "{:g}".format,
    ),
    Factor("http", "HTTP", "HTTP/{}", lambda p: p.setup.origins.http),
    Factor("tls", "TLS", "TLS {}", lambda p: p.setup.tls and p.setup.tls.version, _or_none),
    Factor(
        "key_share",
        "key\nshare",
        "key share {}",
        lambda p: p.setup.tls and p.setup.tls.key_share,
        _or_none,
        lambda p: p.setup.tls and Tls().key_share,
    ),
    Factor(
        "resumption",
        "resump-\ntion",
        "resumption {}",
        lambda p: p.setup.tls and p.setup.tls.resumption,
        _on,
        lambda p: p.setup.tls and Tls().resumption,
    ),
    Factor(
        "chain_bytes",
        "chain\nbytes",
        "certificates of {} bytes",
        lambda p: p.setup.tls and p.setup.tls.chain_bytes,
        _or_none,
        lambda p: p.setup.tls and Tls().chain_bytes,
    ),
    Factor(
        "origins_keep_alive",
        "origins\nkeep",
        "keep-alive of the origins {}",
        lambda p: p.setup.origins.keep_alive,
        _on,
    ),
    Factor("think_scale", "think", "think time x {}", lambda p: p.setup.origins.think_scale, "{:g}".format),
    Factor("tfo_queue", "TFO\nqueue", "TFO queue {}", lambda p: p.setup.origins.tfo_queue),
    Factor(
        "initial_window",
        "initial\nwindow",
        "initial window {}",
        lambda p: p.setup.tcp.initial_window_segments,
    ),
    Factor("congestion_control", "conges-\ntion", "{}", lambda p: p.setup.tcp.congestion_control),
)
_ENGINE: Final = (Factor("engine", "engine", "{}", lambda p: p.engine),)
FACTORS: Final[tuple[Factor, ...]] = (*_NETWORK, *_SETUP, *_ENGINE, RTT)


@dataclass(frozen=True)
class VaryingFactors:
    """The factors that vary in an experiment, in the order of a table's columns; the RTT is always one."""

    experiment: Experiment
    varying: tuple[Factor, ...]

    def point(self, at: Located) -> Point:
        """Where a cell or a comparison stands."""
        return Point(self.experiment.networks[at.network], self.experiment.setups[at.setup], at.engine)

    def name(self, at: Located) -> str:
        """`20 ms`, or `20 ms, 2 Mbit/s down, mget`: what tells a cell from the others of its page."""
        return self.phrase(self.point(at))

    def phrase(self, point: Point) -> str:
        """`20 ms`, or `20 ms, 2 Mbit/s down, mget`: what tells the point from all others."""
        return ", ".join(
            [RTT.phrase_at(point), *(factor.phrase_at(point) for factor in self.varying if factor is not RTT)]
        )

    def setup_phrase(self, setup: int) -> str:
        """`mget, keep-alive off`: what tells the setup from the others; empty where there is only one."""
        point = Point(self.experiment.networks[0], self.experiment.setups[setup], "host")
        return ", ".join(factor.phrase_at(point) for factor in self.varying if factor in _SETUP)


def varying_factors(experiment: Experiment, engines: Sequence[EngineName] = ("host",)) -> VaryingFactors:
    """What varies in the experiment where it runs on `engines`."""
    points = [Point(*one) for one in product(experiment.networks, experiment.setups, engines)]
    return VaryingFactors(
        experiment, tuple(factor for factor in FACTORS if factor is RTT or factor.varies(points))
    )


def network_labels(experiment: Experiment) -> list[str]:
    """A short name for each network, for ids of jobs: `20ms`, `20ms,down2mbit`; numbered where need be."""
    factors = varying_factors(experiment)
    short = {"down": "down{}mbit", "up": "up{}mbit", "queue": "queue{}kB", "loss": "loss{}%"}
    varying = [factor for factor in factors.varying if factor.name in short]
    labels = []
    for network in experiment.networks:
        point = Point(network, experiment.setups[0], "host")
        rtt = units.format_duration_us(network.rtt_us)
        labels.append(
            ",".join([rtt, *(short[factor.name].format(factor.text_at(point)) for factor in varying)])
        )
    return _numbered(labels)


def setup_labels(experiment: Experiment) -> list[str]:
    """A short name for each setup, for ids of jobs: empty where there is only one."""
    factors = varying_factors(experiment)
    labels = [factors.setup_phrase(number).replace(" ", "-") for number in range(len(experiment.setups))]
    return _numbered([label.replace(",-", ",") for label in labels])


def _numbered(labels: list[str]) -> list[str]:
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label}~{number}" for number, label in enumerate(labels)]
