"""Load a page under assumed test conditions (a rig), and fit it to published times without TFO."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean
from typing import Final

from fastopen.contract import Job
from fastopen.experiments import BASELINE, ArmName, Variation, make_plan
from fastopen.experiments.rigs import Reproduction, chain_of_hosts, page_answered_later, page_of_objects
from fastopen.pages import Page
from fastopen.workflows.predicted import CellTimes

# A fit of a page to published times ends after FITS steps, if no time has a relative error above FIT_ERROR,
# or if FITS_IN_VAIN steps in a row did not reduce the largest error.
FITS: Final = 16
FIT_ERROR: Final = 0.01
FITS_IN_VAIN: Final = 4
OBJECTS_MAX: Final = 2000
BYTES_MAX: Final = 200_000_000


@dataclass(eq=False)
class PageOnRig:
    """A page under assumed test conditions (`reproduction`). `measured` contains its mean load times in ms,
    keyed by (index of the network, arm); the arm `off` is without TFO. A fit changes the number of objects or
    hosts (`_objects`), the total size (`_bytes`) and the client's processing time (`added_ms`), to bring load
    times without TFO near published ones (`_published_ms`) over the networks in `fitted_to`. `_best_fit` is
    the best (number, size) so far, and `fit_error` is the largest relative error of its load times."""

    reproduction: Reproduction
    page: Page
    measured: dict[tuple[int, ArmName], float | None] = field(default_factory=dict)
    fitted_to: tuple[int, ...] = ()
    added_ms: float = 0.0
    fit_error: float = inf
    _best_fit: tuple[float, float] = (0.0, 0.0)
    _fits: int = 0
    _fits_in_vain: int = 0
    _objects: float = 0.0
    _bytes: float = 0.0
    _published_ms: tuple[float, ...] = ()

    def times(self, network: int) -> CellTimes:
        """Return the page's mean load times in ms over the network with index `network`, without and with
        TFO. Both include `added_ms`, the assumed processing time of the client."""
        both = (self.measured.get((network, arm)) for arm in (BASELINE.name, self.reproduction.arm))
        return CellTimes(*(None if ms is None else ms + self.added_ms for ms in both))

    def jobs(self, network: int, arms: list[ArmName], draws: int) -> Iterator[tuple[Job, dict[str, ArmName]]]:
        """Yield jobs that load the page over the network with index `network`, `draws` times with each arm
        (`off`: without TFO). With each job, yield a mapping from the ids of its page loads to their arms."""
        experiment = self.reproduction.off if BASELINE.name in arms else self.reproduction.experiment
        changes = {
            "networks": [experiment.networks[network]],
            "arms": list(dict.fromkeys(arms)),
            "engines": ["virtual"],
            "repeats": draws,
            "vary": Variation() if draws > 1 else None,
        }
        page, fitted = self.page, self.reproduction.fitted
        if fitted in ("objects", "sizes"):
            objects, size = round(self._objects), round(self._bytes)
            page = page_of_objects(page, objects, size, equal=fitted == "objects")
        elif fitted == "hosts":
            page = chain_of_hosts(page, round(self._objects))
        if BASELINE.name not in arms:
            page = page_answered_later(page, self.reproduction.tfo_ms)
        plan = make_plan(experiment.model_copy(update=changes), [page], "virtual")
        for planned in plan.jobs:
            yield planned.job, {load: plan.cells[cell].arm.name for load, cell in planned.cells.items()}

    @property
    def loaded_together(self) -> list[list[ArmName]]:
        """Return groups of arms that one job can measure: usually one group, `off` (without TFO) and an arm
        with TFO. If settings or page differ with TFO, each arm needs a job of its own."""
        ours, off = self.reproduction, BASELINE.name
        return [[off], [ours.arm]] if ours.tfo_ms or ours.off is not ours.experiment else [[off, ours.arm]]

    @property
    def fit_key(self) -> str:
        """Return a key for the page and its settings without TFO. Pages with equal keys have equal load times
        without TFO, so a fit of one page holds for all of them."""
        return f"{self.page.name} {self.reproduction.fitted} {self.reproduction.off.model_dump_json()}"

    def begin_fit(self, off_ms: Mapping[int, float], like: "PageOnRig | None" = None) -> None:
        """Choose two or three published load times without TFO, to which `improve_fit` fits the number and
        size of the page's objects. `off_ms` contains all such times in ms, keyed by network index. Begin with
        the objects of `like`, the same page fitted under other conditions, or with the page's own objects."""
        # Fit objects and sizes to three times that differ in RTT and rates, if possible. Fit hosts to the two
        # shortest times, because timeouts may have made long times longer.
        order = sorted(off_ms, key=off_ms.__getitem__)
        if self.reproduction.fitted == "hosts":
            self.fitted_to = (order[0], order[:2][-1])
        else:
            self.fitted_to = self._two_rtts_and_rates(order) or (order[0], order[-1])
        self._published_ms = tuple(off_ms[network] for network in self.fitted_to)
        own = len(self.page.resources), self.page.body_bytes()
        self._objects, self._bytes = own if like is None else like._best_fit
        self._best_fit = self._objects, self._bytes

    def _two_rtts_and_rates(self, by_time: Sequence[int]) -> tuple[int, int, int] | None:
        """Return the indices of three networks: the second differs from the first only in the RTT, the third
        only in the rates; None without such networks. `by_time` lists all indices by ascending load time."""
        links = [
            (network.rtt_us, (network.down.rate_bit_per_s, network.up.rate_bit_per_s))
            for network in self.reproduction.off.networks
        ]
        for one in by_time:
            rtt_us, rates = links[one]
            other_rtt = [two for two in by_time if links[two][0] != rtt_us and links[two][1] == rates]
            other_rates = [two for two in by_time if links[two][0] == rtt_us and links[two][1] != rates]
            if other_rtt and other_rates:
                return one, other_rtt[-1], other_rates[-1]
        return None

    def improve_fit(self, taken: Sequence[Sequence[float]]) -> None:
        """Change the number and size of the page's objects, so that its load times without TFO come closer to
        the published times. `taken` contains a list of load times in ms for each network in `fitted_to`."""
        self._fits += 1
        if not all(taken):
            self._objects, self._bytes = max(self._objects / 2, 1), self._bytes / 2
            return
        self._fits_in_vain += 1
        ours = [fmean(times) for times in taken]
        client_ms = max(self._published_ms[0] - ours[0], 0.0) if self._client_time_is_fitted else 0.0
        error = max(
            abs((one + client_ms) / wanted - 1) for one, wanted in zip(ours, self._published_ms, strict=True)
        )
        if error < self.fit_error:
            self.fit_error, self._best_fit = error, (self._objects, self._bytes)
            self._fits_in_vain = 0
        short, long, *slow = ours
        wanted_short, wanted_long, *wanted_slow = self._published_ms
        networks = [self.reproduction.off.networks[network] for network in self.fitted_to]
        rtts = [network.rtt_us / 1000 for network in networks]
        if rtts[0] != rtts[1]:
            # The number of round trips in a row grows with the number of objects. The time that does not
            # depend on the RTT grows with their size.
            step = rtts[1] - rtts[0]
            slope, wanted_slope = (long - short) / step, (wanted_long - wanted_short) / step
            fixed, wanted_fixed = short - slope * rtts[0], wanted_short - wanted_slope * rtts[0]
            more, larger = _limited_ratio(wanted_slope, slope), _limited_ratio(wanted_fixed, fixed)
            if slow:
                # The difference between two rates, unlike the fixed time, does not contain the client's time.
                slower = 1 if wanted_slow[0] > wanted_short else -1
                larger = _limited_ratio(slower * (wanted_slow[0] - wanted_short), slower * (slow[0] - short))
        else:
            larger = _limited_ratio(wanted_long - wanted_short, long - short)
            more = _limited_ratio(wanted_short, short)
        self._objects = min(max(self._objects * more, 1), OBJECTS_MAX)
        self._bytes = min(max(self._bytes * larger**0.8, 1000), BYTES_MAX)

    @property
    def is_fitted(self) -> bool:
        return self.fit_error <= FIT_ERROR or self._fits == FITS or self._fits_in_vain == FITS_IN_VAIN

    def take_fit(self, other: "PageOnRig") -> None:
        """Copy the best fit of `other`: the number and size of objects, and the networks used for the fit."""
        (self._objects, self._bytes), self.fitted_to = other._best_fit, other.fitted_to

    @property
    def _client_time_is_fitted(self) -> bool:
        return self.reproduction.fitted in ("hosts", "time") or len(self.fitted_to) > 2

    def add_time(self, off_ms: Mapping[int, float]) -> None:
        """Set `added_ms`, the client's processing time, if it is fitted: the published minus the measured
        load time without TFO over one network, at least 0. `off_ms`: published ms, keyed by network index."""
        if not self._client_time_is_fitted:
            return
        self.fitted_to = self.fitted_to or (min(off_ms, key=off_ms.__getitem__),)
        ours = self.measured.get((self.fitted_to[0], BASELINE.name))
        if ours is not None:
            self.added_ms = max(off_ms[self.fitted_to[0]] - ours, 0.0)


def _limited_ratio(wanted: float, found: float) -> float:
    if found <= 0 or wanted <= 0:
        return 1.3 if wanted > found else 0.75
    return min(max(wanted / found, 0.4), 2.5)
