"""Find the rig that explains published figures: load pages on declared rigs, and compare the savings."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import prod
from statistics import fmean
from typing import Any, Final

from fastopen.analysis.audit import QUESTIONS, AuditFinding, audit, read_table
from fastopen.analysis.statistics import AGREE_POINTS
from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.common.resources import packaged_file
from fastopen.contract import Job
from fastopen.engines import LoadDone, VirtualEngine, find_program, kernels
from fastopen.engines.stored import can_be_stored
from fastopen.experiments import (
    BASELINE,
    HEADLINE,
    ArmName,
    EngineName,
    PublishedCell,
    Variation,
    derive_seed,
    estimated_s,
    make_plan,
)
from fastopen.experiments.published import FILE as PUBLISHED
from fastopen.experiments.rigs import (
    Property,
    Rig,
    RigSpace,
    Setting,
    chain_of_hosts,
    page_answered_later,
    page_of_objects,
)
from fastopen.pages import Page, load_chosen

# Kinds of audit findings that concern the times. Other kinds are printing errors.
OF_TIMES: Final = ("monotony", "growth", "bound", "below_rtt", "below_rate", *QUESTIONS)
# A page load time agrees if it differs from the published time by at most this share.
AGREE_SHARE: Final = 0.1
# After this many requests (half a minute on two cores), a search tries only neighbours of the best rig.
SEARCH_REQUESTS: Final = 60_000
# Number of other rigs that a search loads together if it has tried all neighbours of the best rig.
AT_ONCE: Final = 4
# A search tries neighbours of the best rig, and others among this number of rigs with the fewest properties.
RIGS_MAX: Final = 20_000
# Number of loads of each cell, each with its own sample of uncertain inputs. Their mean is compared.
DRAWS: Final = 2
# Number of steps in which the objects of a page are fitted to published times.
FITS: Final = 8
OBJECTS_MAX: Final = 2000
BYTES_MAX: Final = 200_000_000

Watch = Callable[[int, int], None]
"""A callback that receives the number of finished loads, and the number of all loads known so far."""


@dataclass(frozen=True)
class CellTimes:
    """Page load times in milliseconds of one page over one network, without and with TFO. A time is None if
    no load was valid."""

    off_ms: float | None
    tfo_ms: float | None

    @property
    def saving_percent(self) -> float | None:
        """Return the page load time that TFO saves in percent, negative if TFO is slower; None if a time is
        missing."""
        if not self.off_ms or self.tfo_ms is None:
            return None
        return 100 * (self.off_ms - self.tfo_ms) / self.off_ms


@dataclass(frozen=True)
class Tried:
    """A rig (assumptions on how published figures were measured) on which pages were loaded, with the mean
    page load times for each published pair of figures."""

    rig: Rig
    times: Mapping[PublishedCell, CellTimes]
    fitted: frozenset[PublishedCell]
    """The cells whose published times without TFO were used to fit the pages of the rig."""
    elsewhere: frozenset[PublishedCell] = frozenset()
    """The cells of other tables of the rig. They count in `rank`, but not as agreeing."""

    @cached_property
    def agreeing_cells(self) -> frozenset[PublishedCell]:
        return frozenset(filter(self.agrees, self.times))

    @cached_property
    def times_agreeing_cells(self) -> frozenset[PublishedCell]:
        return frozenset(filter(self.times_agree, self.times))

    def agrees(self, cell: PublishedCell) -> bool:
        """Return True if the saving on this rig is within 3 percentage points of the published saving for
        this page and network (`cell`)."""
        saving = self.times[cell].saving_percent
        return saving is not None and abs(saving - cell.improvement_percent) <= AGREE_POINTS

    def times_agree(self, cell: PublishedCell) -> bool:
        """Return True if both page load times on this rig, with and without TFO, are within 10 % of the
        published times for this page and network (`cell`)."""
        ours = self.times[cell]
        pairs = ((ours.off_ms, cell.off_ms), (ours.tfo_ms, cell.tfo_ms))
        return all(one is not None and abs(one / other - 1) <= AGREE_SHARE for one, other in pairs)

    @property
    def agreeing(self) -> int:
        return len(self.agreeing_cells - self.elsewhere)

    @property
    def times_agreeing(self) -> int:
        return len(self.times_agreeing_cells - self.elsewhere)

    def rank(self, cells: frozenset[PublishedCell]) -> tuple[int, int, int, list[tuple[str, str]]]:
        """Return a sort key that puts the best rig first. It counts the savings and times in `cells` that
        agree with the published ones, minus assumed properties; then the savings only; then it prefers fewer
        properties."""
        savings, times = len(self.agreeing_cells & cells), len(self.times_agreeing_cells & cells)
        assumed = sum(one.assumed for one in self.rig)
        return (
            assumed - savings - times,
            -savings,
            len(self.rig),
            [(one.name, one.value) for one in self.rig],
        )


@dataclass(frozen=True)
class Explained:
    """The result of a search for the rig (assumptions on how figures were measured) that best explains
    published figures."""

    space: RigSpace
    cells: tuple[PublishedCell, ...]
    tried: tuple[Tried, ...]
    """The rigs that were compared. The first is the base."""
    findings: Mapping[PublishedCell, tuple[AuditFinding, ...]]
    loads: int

    @property
    def base(self) -> Tried:
        """Return the result for the base: the experiment as in its file, with no property changed."""
        return self.tried[0]

    @property
    def sourced(self) -> Tried:
        """Return the result for the rig with all properties (such as an initial window of 3) that a source
        documents, and no assumed ones. The published figures do not influence this choice."""
        found = self.of(sourced_rig(self.space))
        assert found is not None, "every search loads it"
        return found

    @property
    def best(self) -> Tried:
        """Return the best rig by `Tried.rank`, over all cells of all tables."""
        return _best(self.tried)

    def of(self, rig: Rig) -> Tried | None:
        return next((one for one in self.tried if one.rig == rig), None)

    def gained(self, one: Property) -> int | None:
        """Return how many more savings agree with the published ones if only this property is added to the
        base; None if that rig was not tried."""
        alone = self.of((one,))
        return None if alone is None else alone.agreeing - self.base.agreeing

    def lost_without(self, one: Property) -> int | None:
        """Return how many fewer savings agree with the published ones if this property is removed from the
        best rig; None if the rig lacks it, or if the remaining rig was not tried."""
        if one not in self.best.rig:
            return None
        without = self.of(tuple(other for other in self.best.rig if other != one))
        return None if without is None else self.best.agreeing - without.agreeing

    @cached_property
    def predicted(self) -> int:
        """Return the number of published savings that are predicted correctly in a cross-validation: each by
        the rig that is best for all other savings."""
        return _predicted(self.tried, self.cells, [[cell] for cell in self.cells])

    @cached_property
    def predicted_pages(self) -> int:
        """Return how many savings agree in a cross-validation that leaves out all cells of one page at a
        time; `predicted` if there is only one page."""
        pages = grouped((cell.page, cell) for cell in self.base.times)
        return _predicted(self.tried, self.cells, pages.values()) if len(pages) > 1 else self.predicted

    def predicted_gained(self, one: Property) -> int:
        """Return how many fewer savings would be predicted (see `predicted`) if the experiment's file did not
        have this property."""
        others = [rig for rig in self.tried if one not in rig.rig]
        return self.predicted - _predicted(others, self.cells, [[cell] for cell in self.cells])

    @property
    def reachable(self) -> int:
        """Return the number of published savings with which at least one of the rigs agrees."""
        return sum(any(one.agrees(cell) for one in self.tried) for cell in self.cells)

    def moved(self, one: Property) -> list[tuple[PublishedCell, float | None, float | None]]:
        """Return the published savings that agree with either the base or the base plus this property, but
        not both, as (cell, saving on the base, saving with the property), in percent. Empty if the property
        was not tried by itself."""
        base, single = self.base, self.of((one,))
        if single is None:
            return []
        changed = [cell for cell in self.cells if single.agrees(cell) != base.agrees(cell)]
        return [
            (cell, base.times[cell].saving_percent, single.times[cell].saving_percent) for cell in changed
        ]

    def why_unreached(self, cell: PublishedCell) -> str:
        """Return the reason, in words, why the best rig does not reproduce the published saving for this page
        and network."""
        kinds = dict.fromkeys(one.kind for one in self.findings.get(cell, ()))
        faults, questions = (
            ", ".join(kind for kind in kinds if (kind in QUESTIONS) == asked) for asked in (False, True)
        )
        note = f"; its times cannot be as printed (fastopen audit: {faults})" if faults else ""
        note += f"; fastopen audit has a question ({questions})" if questions else ""
        savings = {
            one.rig: saving for one in self.tried if (saving := one.times[cell].saving_percent) is not None
        }
        if not savings:
            return f"no rig tried loads it{note}"
        giving = [one for one in self.tried if one.agrees(cell)]
        kept = [other for other in self.cells if self.best.agrees(other)]
        keeping = [one for one in giving if all(map(one.agrees, kept))]
        nearest = min(
            (savings[one.rig] for one in keeping or giving or self.tried if one.rig in savings),
            key=lambda saving: abs(saving - cell.improvement_percent),
        )
        if keeping:
            return (
                f"a rig gives it and loses no other saving, but fewer times agree or it assumes more"
                f" (such as {nearest:.1f} %){note}"
            )
        if giving:
            return f"only rigs that lose other cells give it (such as {nearest:.1f} %){note}"
        return f"no rig of {len(self.tried)} tried reaches it: the nearest saves {nearest:.1f} %{note}"

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with the keys that docs/json.md lists."""
        base, best = self.base, self.best
        rigs = {"base": base, "sourced": self.sourced, "best": best}
        return {
            "experiment": self.space.base.name,
            "cells": len(self.cells),
            **{f"agree_{name}": one.agreeing for name, one in rigs.items()},
            **{f"times_agree_{name}": one.times_agreeing for name, one in rigs.items()},
            "predicted": self.predicted,
            "predicted_pages": self.predicted_pages,
            "reachable": self.reachable,
            "rigs": len(self.tried),
            "rigs_possible": self.space.size,
            "loads": self.loads,
            "best": {one.name: one.value for one in best.rig},
            "properties": [
                {
                    "name": one.name,
                    "value": one.value,
                    "source": one.source,
                    "cells_gained": self.gained(one),
                    "cells_lost_without": self.lost_without(one),
                    "cells_predicted": self.predicted_gained(one),
                    "cells_moved": [
                        {**_place(cell), "saving_from": _rounded(was), "saving_to": _rounded(now)}
                        for cell, was, now in self.moved(one)
                    ],
                }
                for one in self.space.properties
            ],
            "table": [
                {
                    **_place(cell),
                    "theirs": _figures(CellTimes(cell.off_ms, cell.tfo_ms)),
                    "base": _figures(base.times[cell]),
                    "best": _figures(best.times[cell]),
                    "agrees": best.agrees(cell),
                    "times_agree": best.times_agree(cell),
                    "fitted": cell in best.fitted,
                }
                for cell in self.cells
            ],
            "unreached": [
                {**_place(cell), "why": self.why_unreached(cell)}
                for cell in self.cells
                if not best.agrees(cell)
            ],
        }


def _place(cell: PublishedCell) -> dict[str, str | float]:
    return {"page": cell.page, "rtt_ms": cell.rtt_ms, "down_mbit": cell.down_mbit}


def _figures(times: CellTimes) -> dict[str, float | None]:
    figures = {"off_ms": times.off_ms, "tfo_ms": times.tfo_ms, "saving_percent": times.saving_percent}
    return {key: _rounded(value) for key, value in figures.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def explain(space: RigSpace, *, jobs: int | None = None, watch: Watch = lambda *_: None) -> Explained:
    """Search, in virtual time, for the rig that best explains the published figures of an experiment.

    A rig is a set of properties: assumptions on how the figures were measured. First load the base without
    properties, the rig of all properties with a source, and the rigs of one property. Then repeatedly load
    the neighbours of the best rig, which have one property more, less, or with another value. If all
    neighbours are known, load other rigs, up to SEARCH_REQUESTS requests. `jobs` is the number of emulated
    networks at once. Raises InputError if a rig is invalid or no figures are published, and MachineError
    without a kernel.
    """
    cells = _cells(space)
    search = _Search(space, cells, VirtualEngine(find_program(), kernels.find(), jobs), watch)
    base: Rig = ()
    search.load([base, sourced_rig(space), *space.neighbours(base)])
    while True:
        best = search.best.rig
        one_less = (tuple(other for other in best if other != one) for one in best)
        new = [rig for rig in (*space.neighbours(best), *one_less) if rig not in search.tried]
        if not new and search.requests < SEARCH_REQUESTS:
            # If no neighbour is better, another rig with few properties may be.
            new = [*islice((rig for rig in search.candidates if rig not in search.tried), AT_ONCE)]
        if not new:
            break
        search.load(new)
    tried = tuple(search.tried.values())
    return Explained(space, cells, tried, published_findings(cells), search.loads)


def estimate(space: RigSpace, *, jobs: int | None = None) -> tuple[int, float]:
    """Return the number of rigs (combinations of properties) that are possible, and an estimate of the
    seconds to load them all. `jobs` is the number of emulated networks at once."""
    engine = VirtualEngine(find_program(), kernels.find(), jobs)
    search = _Search(space, _cells(space), engine, lambda *_: None)
    return space.size, search.estimated_s()


def sourced_rig(space: RigSpace) -> Rig:
    """Return the rig of all properties that a source documents. Of properties with the same name, use the
    first."""
    sourced = {one.name: one for one in reversed(space.properties) if not one.assumed}
    return space.ordered(sourced.values())


def _cells(space: RigSpace) -> tuple[PublishedCell, ...]:
    cells = space.base_cells()
    if not cells:
        raise InputError("has no published figures to compare with", space.source.name, "add [published]")
    return cells


def published_findings(cells: Sequence[PublishedCell]) -> Mapping[PublishedCell, tuple[AuditFinding, ...]]:
    """Map each pair of published times (without and with TFO) to the doubts of `fastopen audit` about it.
    Pairs without doubts are left out."""
    wanted = {(one.experiment, one.page, one.rtt_ms, one.down_mbit): one for one in cells}
    found: defaultdict[PublishedCell, list[AuditFinding]] = defaultdict(list)
    for finding in audit(read_table(packaged_file("experiments", PUBLISHED)).cells):
        cell = finding.cell
        key = (cell.experiment, cell.page, float(cell.rtt_ms), float(cell.down_mbit or 0))
        if key in wanted and finding.kind in OF_TIMES:
            found[wanted[key]].append(finding)
    return {cell: tuple(findings) for cell, findings in found.items()}


def _best(tried: Sequence[Tried], left_out: Collection[PublishedCell] = ()) -> Tried:
    """Return the best rig by all cells that are not left out."""
    judged = frozenset(tried[0].times).difference(left_out)
    return min(tried, key=lambda one: one.rank(judged))


def _predicted(
    tried: Sequence[Tried], cells: Collection[PublishedCell], left_out: Iterable[Collection[PublishedCell]]
) -> int:
    """Return how many savings of `cells` agree if each group is left out: on the rig that is best for all
    other cells."""
    agreeing = 0
    for group in left_out:
        best = _best(tried, group)
        agreeing += sum(best.agrees(cell) for cell in group if cell in cells)
    return agreeing


@dataclass
class _Search:
    """A search for the rig that best explains published figures. A page is loaded once for all rigs whose
    properties of this page are equal."""

    space: RigSpace
    cells: Sequence[PublishedCell]
    engine: VirtualEngine
    watch: Watch
    tried: dict[Rig, Tried] = field(default_factory=dict)
    loads: int = 0
    requests: int = 0
    _known: dict[tuple[str, Rig], "_Row"] = field(default_factory=dict)
    _fits: dict[str, "_Row"] = field(default_factory=dict)
    """One row for each `fit_key`, with a fitted page."""
    _pages: dict[str, Page] = field(default_factory=dict)
    candidates: dict[Rig, list[tuple[str, Rig]]] = field(default_factory=dict)
    """The rigs that may be tried, those with fewer properties first, each with its keys in `_known`."""

    def __post_init__(self) -> None:
        imported = load_chosen(self.space.base.pages, self.space.base.corpus)
        self._pages = {one.page.name: one.page for one in imported if self.space.cells_of(one.page.name)}
        rigs = self.space.rigs(
            lambda rig: derive_seed(0, "rigs", *(f"{one.name}: {one.value}" for one in rig))
        )
        self.candidates = {rig: [*self._of_page(rig).values()] for rig in islice(rigs, RIGS_MAX)}

    @property
    def best(self) -> Tried:
        return _best([*self.tried.values()])

    def estimated_s(self) -> float:
        """Return an estimate of the seconds to load each page once for each combination of its properties."""
        each: dict[EngineName, int] = {"virtual": self.engine.parallel, "host": 1}
        changes = {"engines": ["virtual"], "arms": [BASELINE.name, HEADLINE.name], "repeats": 1, "vary": None}
        base = self.space.base.model_copy(update=changes)
        total = 0.0
        for page in self._pages.values():
            of_page = [one for one in self.space.properties if one.is_about(page.name)]
            names = [one.name for one in of_page]
            rows = prod(1 + names.count(name) for name in dict.fromkeys(names))
            total += rows * DRAWS * estimated_s(make_plan(base, [page], "virtual"), each)
        return total

    def load(self, rigs: Iterable[Rig]) -> None:
        new = [rig for rig in dict.fromkeys(rigs) if rig not in self.tried]
        rows: dict[tuple[str, Rig], _Row] = {}
        for rig in new:
            for page, known in self._of_page(rig).items():
                if known not in self._known:
                    rows.setdefault(known, _Row(self.space.setting(known[1], page), self._pages[page]))
        self._fit(list(rows.values()))
        self._measure(list(rows.values()))
        self._known |= rows
        # Other rigs whose pages were all loaded for rigs with the same properties need no loads of their own.
        free = (rig for rig, needed in self.candidates.items() if all(row in self._known for row in needed))
        for rig in (*new, *free):
            if rig not in self.tried:
                self.tried[rig] = self._tried(rig)

    def _of_page(self, rig: Rig) -> dict[str, tuple[str, Rig]]:
        return {page: (page, tuple(one for one in rig if one.is_about(page))) for page in self._pages}

    def _tried(self, rig: Rig) -> Tried:
        times: dict[PublishedCell, CellTimes] = {}
        fitted: set[PublishedCell] = set()
        for page, known in self._of_page(rig).items():
            row = self._known[known]
            theirs = self.space.all_cells_of(page)
            times |= {cell: row.times(network) for network, cell in theirs.items()}
            fitted |= {theirs[network] for network in row.fitted_to}
        return Tried(rig, times, frozenset(fitted), frozenset(times).difference(self.cells))

    def _fit(self, rows: Sequence["_Row"]) -> None:
        """Fit the objects or hosts of each page to published times without TFO."""
        groups = grouped((row.fit_key, row) for row in rows if row.setting.fitted in ("objects", "hosts"))
        fitting = [alike[0] for key, alike in groups.items() if key not in self._fits]
        for row in fitting:
            row.begin_fit(self.space.cells_of(row.page.name), self.space.all_cells_of(row.page.name))
        for _ in range(FITS if fitting else 0):
            records = self._run(
                (row, network, [BASELINE.name], 1) for row in fitting for network in row.fitted_to
            )
            for row in fitting:
                row.improve_fit([records.get((row, network, BASELINE.name), []) for network in row.fitted_to])
        self._fits |= {row.fit_key: row for row in fitting}
        for key, alike in groups.items():
            for row in alike:
                row.take_fit(self._fits[key])

    def _measure(self, rows: Sequence["_Row"]) -> None:
        asked = (
            (row, network, arms, DRAWS)
            for row in rows
            for network in self.space.all_cells_of(row.page.name)
            for arms in row.loaded_together
        )
        for (row, network, arm), taken in self._run(asked).items():
            row.measured[network, arm] = fmean(taken) if taken else None
        for row in rows:
            if row.setting.fitted in ("hosts", "time") or len(row.fitted_to) > 2:
                row.add_time(self.space.all_cells_of(row.page.name))

    def _run(
        self, asked: Iterable[tuple["_Row", int, list[ArmName], int]]
    ) -> dict[tuple["_Row", int, ArmName], list[float]]:
        """Load pages. An item of `asked` is (page on a rig, network index, arms, number of samples). Map
        page, network and arm (with or without TFO) to the page load times of valid loads in ms."""
        places: defaultdict[str, list[tuple[_Row, int, dict[str, ArmName]]]] = defaultdict(list)
        jobs: dict[object, Job] = {}
        known = self.loads
        for row, network, arms, draws in asked:
            for job, of_load in row.jobs(network, arms, draws):
                # A rig may change nothing of a page's jobs. They would have the same results, so one runs.
                content = (id(job.page), job.model_dump_json(exclude={"id", "page"}))
                same = content if can_be_stored(job) else len(jobs)
                first = jobs.setdefault(same, job.model_copy(update={"id": str(len(jobs))}))
                places[first.id].append((row, network, of_load))
                known += len(job.loads)
        taken: defaultdict[tuple[_Row, int, ArmName], list[float]] = defaultdict(list)
        with closing(self.engine.run(jobs.values(), {})) as events:
            for record in (event.record for event in events if isinstance(event, LoadDone)):
                for row, network, of_load in places[record.job]:
                    self.loads += 1
                    self.requests += len(record.requests)
                    if record.valid and record.plt_ns is not None:
                        taken[row, network, of_load[record.id]].append(record.plt_ns / 1e6)
                self.watch(self.loads, known)
        return taken


@dataclass(eq=False)
class _Row:
    """A page with the properties of one rig, and its load times. Networks are given as indices into the
    networks of the experiment."""

    setting: Setting
    page: Page
    measured: dict[tuple[int, ArmName], float | None] = field(default_factory=dict)
    fitted_to: tuple[int, ...] = ()
    """The networks whose published times without TFO were used to fit the page."""
    added_ms: float = 0.0
    _objects: float = 0.0
    _bytes: float = 0.0
    _wanted: tuple[float, ...] = ()

    def times(self, network: int) -> CellTimes:
        """Return the page's mean load times in ms over the network with this index, without and with TFO.
        Both include `added_ms`, the assumed processing time of the client."""
        off, tfo = (self.measured.get((network, arm)) for arm in (BASELINE.name, self.setting.arm))
        return CellTimes(
            None if off is None else off + self.added_ms, None if tfo is None else tfo + self.added_ms
        )

    def jobs(self, network: int, arms: list[ArmName], draws: int) -> Iterator[tuple[Job, dict[str, ArmName]]]:
        """Yield (job, arms) for each of `draws` samples: a job loads the page over the network with this
        index, and `arms` maps the id of each of its loads to its arm (with or without TFO)."""
        experiment = self.setting.off if BASELINE.name in arms else self.setting.experiment
        changes = {
            "networks": [experiment.networks[network]],
            "arms": list(dict.fromkeys(arms)),
            "engines": ["virtual"],
            "repeats": draws,
            "vary": Variation() if draws > 1 else None,
        }
        page = self._loaded
        if BASELINE.name not in arms:
            page = page_answered_later(page, self.setting.tfo_ms)
        plan = make_plan(experiment.model_copy(update=changes), [page], "virtual")
        for planned in plan.jobs:
            yield planned.job, {load: plan.cells[cell].arm.name for load, cell in planned.cells.items()}

    @property
    def loaded_together(self) -> list[list[ArmName]]:
        """Return the arms (without and with TFO) as one group if they are loaded in the same emulated network
        with the same page, otherwise as two groups."""
        arm, apart = self.setting.arm, self.setting.tfo_ms or self.setting.off is not self.setting.experiment
        return [[BASELINE.name], [arm]] if apart else [[BASELINE.name, arm]]

    @property
    def _loaded(self) -> Page:
        match self.setting.fitted:
            case "objects":
                return page_of_objects(self.page, round(self._objects), round(self._bytes))
            case "hosts":
                return chain_of_hosts(self.page, round(self._objects))
            case _:
                return self.page

    @property
    def fit_key(self) -> str:
        """Return a key that rows share if they load the same page in the same way without TFO."""
        return f"{self.page.name} {self.setting.fitted} {self.setting.off.model_dump_json()}"

    def begin_fit(self, own: Mapping[int, PublishedCell], known: Mapping[int, PublishedCell]) -> None:
        """Choose the published times without TFO to fit the page to: for `objects`, three of all tables of
        the rig (`known`) that differ in RTT and in rates; otherwise two of its own table, the shortest, and
        the longest or, for `hosts`, the second shortest, because timeouts may have made long times longer."""
        order = sorted(own, key=lambda network: own[network].off_ms)
        if self.setting.fitted == "hosts":
            self.fitted_to = (order[0], order[:2][-1])
        else:
            self.fitted_to = _of_both_slopes(known) or (order[0], order[-1])
        self._wanted = tuple(known[network].off_ms for network in self.fitted_to)
        self._objects, self._bytes = len(self.page.resources), self.page.body_bytes()

    def improve_fit(self, taken: Sequence[Sequence[float]]) -> None:
        """Change the number and size of the objects, so that load times come closer to the published times.
        `taken` has the load times in ms over each network in `fitted_to`."""
        if not all(taken):
            self._objects, self._bytes = max(self._objects / 2, 1), self._bytes / 2
            return
        short, long, *slow = map(fmean, taken)
        wanted_short, wanted_long, *wanted_slow = self._wanted
        networks = [self.setting.off.networks[network] for network in self.fitted_to]
        rtts = [network.rtt_us / 1000 for network in networks]
        if rtts[0] != rtts[1]:
            # The number of round trips in a row grows with the number of objects. The time that does not
            # depend on the RTT grows with their size.
            step = rtts[1] - rtts[0]
            slope, wanted_slope = (long - short) / step, (wanted_long - wanted_short) / step
            fixed, wanted_fixed = short - slope * rtts[0], wanted_short - wanted_slope * rtts[0]
            more, larger = _ratio(wanted_slope, slope), _ratio(wanted_fixed, fixed)
            if slow:
                # The client's time does not depend on the rates.
                larger = _ratio(wanted_slow[0] - wanted_short, slow[0] - short)
        else:
            larger = _ratio(wanted_long - wanted_short, long - short)
            more = _ratio(wanted_short, short)
        self._objects = min(max(self._objects * more, 1), OBJECTS_MAX)
        self._bytes = min(max(self._bytes * larger**0.8, 1000), BYTES_MAX)

    def take_fit(self, other: "_Row") -> None:
        """Load the page as it was fitted for a row with the same `fit_key`."""
        self._objects, self._bytes, self.fitted_to = other._objects, other._bytes, other.fitted_to

    def add_time(self, theirs: Mapping[int, PublishedCell]) -> None:
        """Set `added_ms`, an assumed processing time of the client, to the time by which a published time
        without TFO is longer than ours: the first in `fitted_to`, by default the shortest."""
        first = min(theirs, key=lambda network: theirs[network].off_ms)
        self.fitted_to = self.fitted_to or (first,)
        ours = self.measured.get((self.fitted_to[0], BASELINE.name))
        if ours is not None:
            self.added_ms = max(theirs[self.fitted_to[0]].off_ms - ours, 0.0)


def _of_both_slopes(cells: Mapping[int, PublishedCell]) -> tuple[int, int, int] | None:
    """Return the networks of the shortest time without TFO that has partners at other RTTs only and at other
    rates only, and of the longest partner of each kind; None if no time has both."""
    by_time = sorted(cells, key=lambda network: cells[network].off_ms)
    links = {network: (cells[network].rtt_ms, cells[network].link[1:]) for network in by_time}
    for one in by_time:
        others = [other for other in by_time if other != one]
        other_rtt = [other for other in others if links[other][1] == links[one][1]]
        other_rates = [other for other in others if links[other][0] == links[one][0]]
        if other_rtt and other_rates:
            return one, other_rtt[-1], other_rates[-1]
    return None


def _ratio(wanted: float, found: float) -> float:
    """Return the factor by which to change a parameter so that the time `found` approaches the time `wanted`.
    It is from 0.6 to 1.7, to keep steps small."""
    if found <= 0 or wanted <= 0:
        return 1.3 if wanted > found else 0.75
    return min(max(wanted / found, 0.6), 1.7)
