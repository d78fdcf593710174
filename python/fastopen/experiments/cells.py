"""Define cells, such as one page over one network without TFO, and label them by the settings that vary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from fastopen.common import units
from fastopen.contract import EngineName
from fastopen.experiments.arms import Arm
from fastopen.experiments.factors import FACTORS, RTT, DesignPoint, Factor, of_part
from fastopen.experiments.model import Experiment
from fastopen.experiments.named_networks import NETWORK, STANDS_FOR, all_named


@dataclass(frozen=True)
class Comparison:
    """The conditions of loads with and without TFO. `network` and `setup` are indices in the experiment."""

    page: str
    network: int
    setup: int
    engine: EngineName


@dataclass(frozen=True)
class Cell(Comparison):
    """The conditions of page loads with an arm (use of TFO). `index` is the cell's index in `Plan.cells`."""

    index: int
    arm: Arm

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.page, self.network, self.setup, self.engine)


def point_of(experiment: Experiment, at: Comparison) -> DesignPoint:
    """Return the network, setup and engine that `at` refers to, and the arm if `at` is a Cell."""
    arm = getattr(at, "arm", None)
    return DesignPoint(experiment.networks[at.network], experiment.setups[at.setup], at.engine, arm)


@dataclass(frozen=True)
class VaryingFactors:
    """The settings that vary in an experiment, and the RTT even if it does not vary. `varying_rtt` is True if
    the RTT varies, unless tables show names of networks, such as `4g`, which imply the RTT."""

    experiment: Experiment
    registered: tuple[Factor, ...]
    """The varying factors in the order of FACTORS, and then the RTT."""
    varying: tuple[Factor, ...]
    """The factors that tables show. If networks differ and all have names, the names replace the rates."""
    varying_rtt: bool

    def point(self, at: Comparison) -> DesignPoint:
        """Return the network, setup and engine that `at` refers to, and the arm if `at` is a Cell."""
        return point_of(self.experiment, at)

    def name(self, at: Comparison) -> str:
        """Return a label of the conditions `at`, with all varying settings: `20 ms, 2 Mbit/s down`, `4g`."""
        return self.name_by(at, self.varying)

    def where(self, at: Comparison) -> str:
        """Return the label from `name` with a preposition before it: `at 20 ms`, `for 1 % loss`, `for 4g`."""
        return f"{self.preposition} {self.name(at)}"

    @property
    def preposition(self) -> str:
        """Return the preposition for labels such as `20 ms`: `at` if they begin with the RTT, else `for`."""
        return "at" if self.varying_rtt or self.varying == (RTT,) else "for"

    def question(self, at: Comparison) -> str:
        """Return a label of the conditions `at`, with the settings for which reports give separate verdicts
        on TFO: `HTTP/2, TLS 1.3`. It is empty if one verdict covers all conditions."""
        clear = self.point(at).setup.tls is None
        asked = (one for one in self.varying if one.question)
        telling = (one for one in asked if not (clear and one.part == "tls" != one.name))
        return ", ".join(self.phrases(at, telling))

    def besides(self, *names: str) -> list[Factor]:
        """Return the varying factors except the factors called `names`."""
        return [factor for factor in self.varying if factor.name not in names]

    def phrases(self, at: Comparison, factors: Iterable[Factor]) -> tuple[str, ...]:
        """Return the values of `factors` under the conditions `at` as phrases: `20 ms`, `TLS 1.3`."""
        point = self.point(at)
        return tuple(factor.phrase_at(point) for factor in factors)

    def name_without(self, at: Comparison, factor: Factor) -> str:
        """Return a label as `name` does, without the value of `factor`: `20 ms` for `20 ms, 2 Mbit/s`."""
        named = [*([RTT] if self.varying_rtt else []), *self.varying[:-1]]
        return ", ".join(self.phrases(at, (one for one in named if one is not factor)))

    def name_by(self, at: Comparison, factors: Sequence[Factor]) -> str:
        """Return a label of the conditions `at`, with the settings `factors`: `20 ms, 2 Mbit/s down`. It
        includes the RTT only if the RTT varies or there is no other setting."""
        others = self.phrases(at, (factor for factor in factors if factor is not RTT))
        return ", ".join([*(self.phrases(at, [RTT]) if self.varying_rtt or not others else ()), *others])

    def fixed(self) -> dict[str, str]:
        """Return a phrase with the value of each setting that does not vary in the experiment and is not at
        its default, keyed by the setting's name. Leave out the RTT and the rates."""
        experiment = self.experiment
        points = [DesignPoint(*one, "host") for one in product(experiment.networks, experiment.setups)]
        known = {factor.name for factor in self.registered} | {*STANDS_FOR}
        factors = of_part("network", "client", "origins", "tls", "tcp")
        others = (one for one in factors if one.header and one.name not in known)
        return {one.name: one.full_phrase_at(points[0]) for one in others if not one.is_usual(points)}


def varying_factors(experiment: Experiment, engines: Sequence[EngineName] = ("host",)) -> VaryingFactors:
    """Return the settings that vary in an experiment: among its networks, its setups, and `engines`."""
    points = [DesignPoint(*one) for one in product(experiment.networks, experiment.setups, engines)]
    others = [factor for factor in FACTORS if factor is not RTT and factor.varies(points)]
    named = NETWORK.varies(points) and all_named(experiment.networks)
    telling = [factor for factor in others if _varies_where_present(factor, points)]
    shown = [NETWORK, *(one for one in telling if one.name not in STANDS_FOR)] if named else telling
    return VaryingFactors(experiment, (*others, RTT), (*shown, RTT), RTT.varies(points) and not named)


def _varies_where_present(factor: Factor, points: Sequence[DesignPoint]) -> bool:
    present = [point for point in points if point.part(factor.part) is not None]
    if factor.absent_phrase or len(present) == len(points):
        return True
    return len({repr(factor.values(point)) for point in present}) > 1


def network_labels(experiment: Experiment) -> list[str]:
    """Return a short, unique label for each network, for ids of jobs: `20ms`, `20ms,down2mbit`."""
    points = [DesignPoint(network, experiment.setups[0], "host") for network in experiment.networks]
    of_network = (one for one in varying_factors(experiment).registered if one.part == "network")
    varying = [one for one in of_network if one is not RTT]
    labels = (
        [units.format_duration_us(at.network.rtt_us), *(one.label_at(at) for one in varying)] for at in points
    )
    return _numbered([",".join(parts) for parts in labels])


def setup_labels(experiment: Experiment) -> list[str]:
    """Return a unique label for each setup (client and servers), for ids of jobs; "" if there is only one."""
    points = [DesignPoint(experiment.networks[0], setup, "host") for setup in experiment.setups]
    varying = [factor for factor in varying_factors(experiment).registered if factor.part != "network"]
    return _numbered([",".join(factor.label_at(point) for factor in varying) for point in points])


def _numbered(labels: list[str]) -> list[str]:
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label}~{number}" for number, label in enumerate(labels)]
