"""The comparisons of a page put in rows in which one thing alone grows: the lines of a figure."""

from dataclasses import dataclass
from statistics import linear_regression
from typing import Literal

from fastopen.attribution.breakdown import Attribution, Breakdown
from fastopen.experiments import BASELINE, ArmName, Comparison, baseline_of, headline_of
from fastopen.statistics import CellResult, Results

Along = Literal["rtt", "down"]


@dataclass(frozen=True)
class Place:
    """One comparison: its network and setup, and its arms by name."""

    comparison: Comparison
    name: str
    """What distinguishes it from the others of its page: `20 ms`, or `20 ms, mget`."""
    rtt_ms: float
    down_mbit: float | None
    """None where there is no limit, or a trace."""
    arms: dict[ArmName, CellResult]
    breakdowns: dict[ArmName, Breakdown]

    @property
    def baseline(self) -> CellResult | None:
        """The arm that the others are compared with."""
        return baseline_of(self.arms)

    @property
    def headline(self) -> CellResult | None:
        """The preferred treatment of those that were loaded."""
        return headline_of(self.arms)

    @property
    def baseline_path(self) -> Breakdown | None:
        """Where the time of the loads without TFO went."""
        return self.breakdowns.get(BASELINE.name)

    @property
    def headline_path(self) -> Breakdown | None:
        """Where that of the headline arm went."""
        return headline_of(self.breakdowns)


@dataclass(frozen=True)
class Curve:
    """Comparisons of one page that differ in RTT (or rate) alone, least first; `name` is what they share."""

    name: str
    places: tuple[Place, ...]


def places_of(results: Results, attribution: Attribution, page: str) -> list[Place]:
    """The comparisons of a page, in the order of the table."""
    places = []
    factors = results.factors
    for comparison, arms in results.comparisons(page).items():
        known = {name: attribution.breakdowns.get(result.cell.index) for name, result in arms.items()}
        network = results.experiment.networks[comparison.network]
        rate = network.down.rate_bit_per_s
        places.append(
            Place(
                comparison=comparison,
                name=factors.name(comparison),
                rtt_ms=network.rtt_us / 1000,
                down_mbit=None if rate is None else rate / 1e6,
                arms=arms,
                breakdowns={name: path for name, path in known.items() if path is not None},
            )
        )
    return places


def curves_of(results: Results, places: list[Place], along: Along = "rtt") -> list[Curve]:
    """The same in rows. The name of a row is empty where there is only one."""
    factors = results.factors
    rows: dict[tuple[str, ...], list[Place]] = {}
    for place in places:
        point = factors.point(place.comparison)
        rest = tuple(factor.phrase_at(point) for factor in factors.varying if factor.name != along)
        rows.setdefault(rest, []).append(place)
    return [
        Curve(", ".join(rest), tuple(sorted(row, key=lambda place: position(place, along) or 0.0)))
        for rest, row in rows.items()
    ]


def position(place: Place, along: Along) -> float | None:
    """Its place on the axis: RTT in milliseconds, or rate in Mbit/s."""
    return place.rtt_ms if along == "rtt" else place.down_mbit


def slope(points: list[tuple[float, float]]) -> float | None:
    """Least squares; None where all x are equal."""
    xs, ys = zip(*points, strict=True)
    return linear_regression(xs, ys).slope if len(set(xs)) > 1 else None
