"""Find the factors that vary in an experiment, and name its networks and setups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from fastopen.common import units
from fastopen.contract import EngineName
from fastopen.experiments.factors import FACTORS, RTT, Factor, Part, Point
from fastopen.experiments.model import Experiment
from fastopen.experiments.named_networks import NETWORK, STANDS_FOR, all_named


class Located(Protocol):
    """A cell or comparison, with indices into the experiment's lists of networks and setups."""

    @property
    def network(self) -> int: ...
    @property
    def setup(self) -> int: ...
    @property
    def engine(self) -> EngineName: ...


def point_of(experiment: Experiment, at: Located) -> Point:
    """Return the point of a cell or comparison. Only a cell has an arm."""
    arm = getattr(at, "arm", None)
    return Point(experiment.networks[at.network], experiment.setups[at.setup], at.engine, arm)


@dataclass(frozen=True)
class VaryingFactors:
    """The factors that vary in an experiment, and always the RTT, in the order of a table's columns."""

    experiment: Experiment
    registered: tuple[Factor, ...]
    """The varying factors, as FACTORS defines them."""
    varying: tuple[Factor, ...]
    """Varying factors as users read them: if all networks have names, the names replace RTT and rates."""
    varying_rtt: bool
    """True if the RTT varies and is not implied by the networks' names."""

    def point(self, at: Located) -> Point:
        """Return the point of a cell or comparison."""
        return point_of(self.experiment, at)

    def name(self, at: Located) -> str:
        """Return the text that distinguishes a cell on its page: `20 ms`, `20 ms, 2 Mbit/s down`, `4g`."""
        return self.name_by(at, self.varying)

    def where(self, at: Located) -> str:
        """Return the name of a cell with a preposition: `at 20 ms`, `for 1 % loss`, `for 4g`."""
        return f"{self.word} {self.name(at)}"

    @property
    def word(self) -> str:
        """Return the preposition for names in sentences: `at` if they begin with the RTT, otherwise `for`."""
        return "at" if self.varying_rtt or self.varying == (RTT,) else "for"

    def question(self, at: Located) -> str:
        """Return the subject of a verdict, such as `HTTP/2, TLS 1.3`; empty if there is only one question."""
        clear = self.point(at).setup.tls is None
        asked = (
            one for one in self.varying if one.question and not (clear and one.part == "tls" != one.name)
        )
        return ", ".join(self.phrases(at, asked))

    def besides(self, *names: str) -> list[Factor]:
        """Return the varying factors whose names are not in `names`."""
        return [factor for factor in self.varying if factor.name not in names]

    def phrases(self, at: Located, factors: Iterable[Factor]) -> tuple[str, ...]:
        """Return the values of these factors at a cell or comparison, as phrases."""
        point = self.point(at)
        return tuple(factor.phrase_at(point) for factor in factors)

    def name_without(self, at: Located, factor: Factor) -> str:
        """Return a cell's name without one factor, and without the RTT if it does not vary."""
        named = [*([RTT] if self.varying_rtt else []), *self.varying[:-1]]
        return ", ".join(self.phrases(at, (one for one in named if one is not factor)))

    def name_by(self, at: Located, factors: Sequence[Factor]) -> str:
        """Return the values of these factors as phrases, such as `20 ms, 2 Mbit/s down`. The RTT comes first,
        and only if it varies or no other factor is given."""
        others = self.phrases(at, (factor for factor in factors if factor is not RTT))
        return ", ".join([*(self.phrases(at, [RTT]) if self.varying_rtt or not others else ()), *others])

    def fixed(self) -> dict[str, str]:
        """Map the names of factors to phrases, for factors that have the same value at all points, but not
        their default. Rates are left out."""
        experiment = self.experiment
        points = [Point(*one, "host") for one in product(experiment.networks, experiment.setups)]
        others = [
            one
            for one in FACTORS
            if one.header and one.part not in ("arm", "engine") and one not in self.registered
        ]
        return {
            factor.name: factor.full_phrase_at(points[0])
            for factor in others
            if factor.name not in STANDS_FOR and not factor.is_usual(points)
        }


def varying_factors(experiment: Experiment, engines: Sequence[EngineName] = ("host",)) -> VaryingFactors:
    points = [Point(*one) for one in product(experiment.networks, experiment.setups, engines)]
    others = [factor for factor in FACTORS if factor is not RTT and factor.varies(points)]
    named = NETWORK.varies(points) and all_named(experiment.networks)
    telling = [factor for factor in others if _tells_more(factor, points)]
    shown = [NETWORK, *(one for one in telling if one.name not in STANDS_FOR)] if named else telling
    varying_rtt = RTT.varies(points) and not named
    return VaryingFactors(experiment, (*others, RTT), (*shown, RTT), varying_rtt)


def _tells_more(factor: Factor, points: Sequence[Point]) -> bool:
    """Return False if a factor differs only because some points lack its part, such as TLS settings."""
    present = [point for point in points if point.part(factor.part) is not None]
    if factor.absent_phrase or len(present) == len(points):
        return True
    return len({repr(factor.values(point)) for point in present}) > 1


def network_labels(experiment: Experiment) -> list[str]:
    """Return a short and unique label for each network in ids of jobs: `20ms`, `20ms,down2mbit`."""
    points = [Point(network, experiment.setups[0], "host") for network in experiment.networks]
    varying = [factor for factor in varying_factors(experiment).registered if factor.part == "network"]
    others = [factor for factor in varying if factor is not RTT]
    rtts = (units.format_duration_us(network.rtt_us) for network in experiment.networks)
    return _numbered(
        [
            ",".join([rtt, *(one.label_at(point) for one in others)])
            for rtt, point in zip(rtts, points, strict=True)
        ]
    )


def setup_labels(experiment: Experiment) -> list[str]:
    """Return a short label for each setup, for ids of jobs. The label is empty if there is only one setup."""
    points = [Point(experiment.networks[0], setup, "host") for setup in experiment.setups]
    parts: tuple[Part, ...] = ("client", "origins", "tls", "tcp")
    varying = [factor for factor in varying_factors(experiment).registered if factor.part in parts]
    return _numbered([",".join(factor.label_at(point) for factor in varying) for point in points])


def _numbered(labels: list[str]) -> list[str]:
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label}~{number}" for number, label in enumerate(labels)]
