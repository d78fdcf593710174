"""Predict published savings with page loads under the test conditions that best explain other figures."""

from bisect import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, fsum, inf, isclose, prod
from statistics import fmean
from typing import Final

from fastopen.analysis.statistics import AGREE_POINTS
from fastopen.common.grouping import grouped
from fastopen.experiments import PublishedCell
from fastopen.experiments.rigs import Property, Rig, RigSpace

# A page load time agrees if it differs from the published time by at most this share.
AGREE_SHARE: Final = 0.1
# A prediction weights each rig by e to the power of the rig's points divided by this number.
POINTS_PER_E: Final = 3


@dataclass(frozen=True)
class CellTimes:
    """Load times in ms of one page over one network, without and with TFO; None if no load was valid."""

    off_ms: float | None
    tfo_ms: float | None

    @property
    def saving_percent(self) -> float | None:
        """Return TFO's saving in percent, negative if TFO is slower; None if a load time is missing."""
        if not self.off_ms or self.tfo_ms is None:
            return None
        return 100 * (self.off_ms - self.tfo_ms) / self.off_ms

    def saving_agrees(self, cell: PublishedCell) -> bool:
        """Return True if TFO's saving is within 3 percentage points of the published saving in `cell`."""
        saving = self.saving_percent
        return saving is not None and abs(saving - cell.improvement_percent) <= AGREE_POINTS

    def times_agree(self, cell: PublishedCell) -> bool:
        """Return True if both load times are within 10 % of the published times in `cell`."""
        pairs = ((self.off_ms, cell.off_ms), (self.tfo_ms, cell.tfo_ms))
        return all(one is not None and abs(one / other - 1) <= AGREE_SHARE for one, other in pairs)


def score(savings: int, times: int, rig: Iterable[Property]) -> int:
    """Return the points of a rig: 4 for each saving that agrees with the published one (`savings` is their
    number), 2 for each pair of load times that agrees (`times`), -1 for each condition without a source."""
    return 4 * savings + 2 * times - sum(one.assumed for one in rig)


@dataclass(frozen=True)
class _PageTimes:
    """Load times of one page under one set of test conditions. `shared` has those that cannot be set for one
    page. `own` lists the page's condition, or None, for each name in `RigSpace.names_for_each_page`."""

    shared: frozenset[Property]
    own: tuple[Property | None, ...]
    times: Mapping[PublishedCell, CellTimes]

    @cached_property
    def points(self) -> Mapping[PublishedCell, int]:
        pairs = self.times.items()
        return {cell: score(ours.saving_agrees(cell), ours.times_agree(cell), ()) for cell, ours in pairs}


@dataclass(frozen=True)
class CrossValidation:
    """A test of how well measured load times predict the published savings in `cells`. It leaves out
    some of a page's published figures, weights all sets of test conditions ("rigs") by their points for the
    other figures, and predicts the savings that were left out. `tried` has the times under each rig tried.
    Another rig counts, too, if each page was loaded under the conditions that this rig has for the page."""

    space: RigSpace
    cells: Collection[PublishedCell]
    tried: Mapping[Rig, Mapping[PublishedCell, CellTimes]]

    def correct(self, *, whole_pages: bool = False, ignored: Property | None = None) -> int:
        """Return the number of published savings that are predicted within 3 percentage points. Each
        prediction leaves out all published figures for the page and network, or with `whole_pages` for the
        page. Rigs in which the condition `ignored` holds for a page do not count."""
        pages = {page: [*self._not_ignoring(page, ignored)] for page in self._pages}
        return sum(
            saving is not None and abs(saving - cell.improvement_percent) <= AGREE_POINTS
            for page, prior in self._priors(pages).items()
            for cell, saving in self._predictions(page, prior, whole_pages=whole_pages)
        )

    def _not_ignoring(self, page: str, ignored: Property | None) -> Iterator[_PageTimes]:
        original = ignored and ignored.is_about(page) and self.space.original(ignored)
        return (one for one in self._pages[page] if not (original and original in {*one.shared, *one.own}))

    @cached_property
    def _pages(self) -> Mapping[str, Collection[_PageTimes]]:
        names = self.space.names_for_each_page
        pages: dict[str, list[_PageTimes]] = {}
        for page in self.space.base.pages:
            cells = [cell for _, cell in self.space.cells_of(page)]
            # Rigs that differ only on other pages have the same times for this page.
            times = {self.space.of_page(rig, page): of_rig for rig, of_rig in self.tried.items()}
            for conditions, of_rig in times.items() if cells else ():
                values = {one.name: one for one in conditions}
                shared = frozenset(one for one in conditions if one.name not in names)
                own = tuple(map(values.get, names))
                of_cells = {cell: of_rig[cell] for cell in cells}
                pages.setdefault(page, []).append(_PageTimes(shared, own, of_cells))
        return pages

    @cached_property
    def _shared(self) -> Collection[frozenset[Property]]:
        names = self.space.names_for_each_page
        return dict.fromkeys(
            frozenset(one for one in rig if self.space.original(one).name not in names) for rig in self.tried
        )

    def _priors(
        self, pages: Mapping[str, Collection[_PageTimes]]
    ) -> Mapping[str, list[tuple[_PageTimes, float]]]:
        """Map each page to its load times under each set of its conditions, with the weight of this set: the
        sum of the weights of all rigs that contain the set, without the points for the page's figures."""
        of_shared = {
            page: grouped((one.shared, (one, _weight(sum(one.points.values())))) for one in times)
            for page, times in pages.items()
        }
        # A dict has a fixed order, so that sums of weights are always rounded in the same way.
        owns = dict.fromkeys(one.own for times in pages.values() for one in times)
        priors: dict[str, dict[int, tuple[_PageTimes, float]]] = {page: {} for page in pages}
        for shared in self._shared:
            rows = {
                page: of_shared[page].get(frozenset(self.space.of_page(tuple(shared), page)), [])
                for page in pages
            }
            for common in product(*(dict.fromkeys((None, *values)) for values in zip(*owns, strict=True))):
                weight = _weight(score(0, 0, [*shared, *filter(None, common)]))
                apart = {own: _weight_apart(own, common) for own in owns}
                sums = {page: sum(known * apart[one.own] for one, known in rows[page]) for page in pages}
                for page in pages:
                    others = weight * prod(total for other, total in sums.items() if other != page)
                    for one, _ in rows[page] if others else ():
                        _, before = priors[page].get(id(one), (one, 0.0))
                        priors[page][id(one)] = one, before + others * apart[one.own]
        return {page: [*of_page.values()] for page, of_page in priors.items()}

    def _predictions(
        self, page: str, prior: Collection[tuple[_PageTimes, float]], *, whole_pages: bool
    ) -> Iterator[tuple[PublishedCell, float | None]]:
        cells = [cell for _, cell in self.space.cells_of(page)]
        for left_out in grouped((None if whole_pages else cell.link, cell) for cell in cells).values():
            used = [cell for cell in cells if cell not in left_out]
            points = [(sum(one.points[cell] for cell in used), one.times, before) for one, before in prior]
            weights = [(times, before * _weight(known)) for known, times, before in points]
            for cell in filter(self.cells.__contains__, left_out):
                yield cell, _most_likely((times[cell].saving_percent, weight) for times, weight in weights)


def _weight(points: float) -> float:
    return exp(points / POINTS_PER_E)


def _weight_apart(own: Iterable[Property | None], common: Iterable[Property | None]) -> float:
    """Return the factor on a rig's weight if a page has its `own` conditions instead of the `common` ones, in
    the same order: below 1 if assumed ones differ, 0 if `own` has None for one, as no rig exempts a page."""
    differing = [(one, other) for one, other in zip(own, common, strict=True) if one != other]
    if any(one is None for one, _ in differing):
        return 0.0
    return _weight(score(0, 0, [one for one, _ in differing if one is not None]))


def _most_likely(weighted: Iterable[tuple[float | None, float]]) -> float | None:
    """Return the weighted mean, in percent, of the savings in the range with the largest sum of weights. A
    range begins at one of the savings and is 2 * AGREE_POINTS wide. If several ranges have the largest sum,
    return the mean of their means. `weighted` has (saving, weight). Return None if there is no saving."""
    known = sorted((saving, weight) for saving, weight in weighted if saving is not None)
    width = 2 * AGREE_POINTS
    ranges = [known[first : bisect(known, (begin + width, inf))] for first, (begin, _) in enumerate(known)]
    totals = [fsum(weight for _, weight in one) for one in ranges]
    likeliest = [
        fsum(saving * weight for saving, weight in one) / total
        for one, total in zip(ranges, totals, strict=True)
        if total and isclose(total, max(totals))
    ]
    return fmean(likeliest) if likeliest else None
