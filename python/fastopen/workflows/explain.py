"""Find the test conditions that explain published figures: load pages under each, and compare the savings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from operator import attrgetter
from statistics import fmean
from typing import Final

from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.contract import Job
from fastopen.engines import VirtualEngine, find_program, kernels
from fastopen.experiments import BASELINE, ArmName, PublishedCell, derive_seed
from fastopen.experiments.rigs import Rig, RigSpace
from fastopen.pages import Page, load_chosen
from fastopen.workflows.engines import maker_of
from fastopen.workflows.explained import Explained, Tried, published_findings, sourced_rig
from fastopen.workflows.known_times import KnownTimes, LoadTime
from fastopen.workflows.page_on_rig import PageOnRig
from fastopen.workflows.predicted import CellTimes

# A search loads pages under all rigs if that takes at most this many requests without fits: a minute or two.
FULL_REQUESTS: Final = 150_000
# Else, after this many requests (half a minute on two cores), it tries only neighbours of the best rig.
SEARCH_REQUESTS: Final = 60_000
# Such a search, including fits, takes ROUNDS times as many requests as all rigs with one condition, roughly.
ROUNDS: Final = 4
# Processor time of a request in virtual time, in seconds.
REQUEST_S: Final = 0.0008
# Number of further rigs that a search loads at once after it has tried all neighbours of the best rig.
AT_ONCE: Final = 4
# Apart from neighbours of the best rig, a search tries only this many rigs, those with the fewest conditions.
RIGS_MAX: Final = 50_000
# Number of loads of each cell, each with its own sample of uncertain inputs. Their mean is compared.
DRAWS: Final = 2

Watch = Callable[[int, int], None]
"""A callback that receives the number of finished loads, and the number of all loads known so far."""


def explain(
    space: RigSpace,
    *,
    jobs: int | None = None,
    watch: Watch = lambda *_: None,
    known: KnownTimes | None = None,
) -> Explained:
    """Search for the test conditions that best explain an experiment's published figures. Load its pages in
    virtual time under many sets of the possible conditions (`space`). `jobs` is the number of networks
    emulated at once. `watch` receives the number of finished page loads and the number planned so far.
    `known` contains times of earlier loads, by default those in the user's cache folder. Raises InputError if
    conditions are invalid or no figures are published, MachineError if no kernel for virtual time exists."""
    # Begin with the rig without conditions, the rig of all conditions with a source, and each rig with one
    # condition. Then load the neighbours of the best rig: they add, remove or change one condition.
    full, _ = estimate(space, jobs=jobs)
    cells, program, kernel = space.base_cells(), find_program(), kernels.find()
    known = KnownTimes(maker_of(program, kernel)) if known is None else known
    search = RigSearch(space, cells, VirtualEngine(program, kernel, jobs), watch, known)
    new: list[Rig] = [(), sourced_rig(space), *space.neighbours(())]
    while new:
        search.load(new)
        best = search.best.rig
        one_less = (tuple(other for other in best if other != one) for one in best)
        new = search.untried((*space.neighbours(best), *one_less))
        if not new:
            # No neighbour is better, but a rig that differs in several conditions of one page may be.
            new = search.untried(space.page_neighbours(best))
        if not new and (full or search.requests < SEARCH_REQUESTS):
            # If none of these is better, try the other rigs, those with few conditions first.
            new = [*islice(search.candidates, AT_ONCE)]
    return Explained(space, cells, tuple(search.tried.values()), published_findings(cells), search.loads)


def estimate(space: RigSpace, *, jobs: int | None = None) -> tuple[bool, float]:
    """Return True if a search loads pages under all possible rigs (test conditions of published figures), and
    the estimated seconds of the search. `jobs` is the number of networks emulated at once. Raises InputError
    if no figures are published."""
    if not space.base_cells():
        raise InputError("has no published figures to compare with", space.source.name, "add [published]")
    requests, usual = 0, 0
    for page in _pages(space):
        of_rig = 2 * DRAWS * len(space.networks) * len(page.resources)
        of_page = {space.of_page((one,), page.name) for one in space.properties}
        counts = Counter(one.name for rig in of_page for one in rig)
        requests += of_rig * prod(1 + count for count in counts.values())
        usual += of_rig * len(of_page) * ROUNDS
    full = requests <= FULL_REQUESTS and space.size <= RIGS_MAX
    parallel = VirtualEngine(find_program(), kernels.find(), jobs).parallel
    return full, REQUEST_S * (requests if full else min(usual, requests)) / parallel


def _pages(space: RigSpace) -> list[Page]:
    imported = load_chosen(space.base.pages, space.base.corpus)
    return [one.page for one in imported if space.cells_of(one.page.name)]


@dataclass
class RigSearch:
    """A search for the set of test conditions ("rig") that best reproduces the published times in `cells`.
    `tried` maps rigs to the results so far, and `known` contains times of earlier loads. `loads` and
    `requests` count page loads and their requests so far, including known loads. Loads that several rigs
    share count once: `_counted` has the keys of their jobs. `_keys` assigns a number to each pair of a page
    and its conditions. `candidates` maps rigs to try, those with few conditions first, to the numbers of
    their pages. `_loaded` maps such a number to the page's times, and to the published results to which the
    page was fitted. `_fits` maps each `PageOnRig.fit_key` to a fitted page."""

    space: RigSpace
    cells: Sequence[PublishedCell]
    engine: VirtualEngine
    watch: Watch
    known: KnownTimes = field(default_factory=KnownTimes)
    tried: dict[Rig, Tried] = field(default_factory=dict)
    loads: int = 0
    requests: int = 0
    _counted: set[str] = field(default_factory=set)
    _keys: dict[tuple[str, Rig], int] = field(default_factory=dict)
    _loaded: dict[int, tuple[dict[PublishedCell, CellTimes], set[PublishedCell]]] = field(
        default_factory=dict
    )
    _fits: dict[str, PageOnRig] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    candidates: dict[Rig, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pages = {page.name: page for page in _pages(self.space)}
        rigs = self.space.rigs(
            lambda rig: derive_seed(0, "rigs", *(f"{one.name}: {one.value}" for one in rig))
        )
        self.candidates = {rig: self._keys_of(rig) for rig in islice(rigs, RIGS_MAX)}

    @property
    def best(self) -> Tried:
        return min(self.tried.values(), key=attrgetter("rank"))

    def untried(self, rigs: Iterable[Rig]) -> list[Rig]:
        return [rig for rig in dict.fromkeys(rigs) if rig not in self.tried]

    def load(self, rigs: Iterable[Rig]) -> None:
        """Load the pages of the untried rigs in `rigs`, and of equivalent rigs with fewer conditions."""
        new = {
            one: self._keys_of(one)
            for rig in rigs
            for one in (rig, self.space.shortest(rig))
            if one not in self.tried
        }
        wanted = {key for keys in new.values() for key in keys}.difference(self._loaded)
        rows = {
            key: PageOnRig(self.space.reproduction(rig, page), self.pages[page])
            for (page, rig), key in self._keys.items()
            if key in wanted
        }
        self.fit(list(rows.values()))
        self.measure(list(rows.values()))
        for key, row in rows.items():
            cells = self.space.cells_of(row.page.name)
            fitted = {cell for network, cell in cells if network in row.fitted_to}
            self._loaded[key] = {cell: row.times(network) for network, cell in cells}, fitted
        # A candidate needs no loads if each of its pages was already loaded under the same conditions.
        free = {rig: keys for rig, keys in self.candidates.items() if self._loaded.keys() >= {*keys}}
        for rig, keys in (new | free).items():
            self.candidates.pop(rig, None)
            self.tried[rig] = self._tried(rig, keys)

    def _keys_of(self, rig: Rig) -> list[int]:
        """Return a number for each page. It identifies the page together with its conditions in `rig`."""
        owns = ((page, self.space.of_page(rig, page)) for page in self.pages)
        return [self._keys.setdefault(own, len(self._keys)) for own in owns]

    def _tried(self, rig: Rig, keys: Iterable[int]) -> Tried:
        pages = [self._loaded[key] for key in keys]
        times = {cell: of_cell for of_page, _ in pages for cell, of_cell in of_page.items()}
        fitted = frozenset(cell for _, fitted_of_page in pages for cell in fitted_of_page)
        return Tried(rig, times, fitted, frozenset(times).difference(self.cells))

    def fit(self, rows: Sequence[PageOnRig]) -> None:
        """Change the number or size of each page's objects, or the number of its hosts, until its page load
        times without TFO are close to the published ones."""
        groups = grouped((row.fit_key, row) for row in rows if row.reproduction.fitted not in (None, "time"))
        fitting = [alike[0] for key, alike in groups.items() if key not in self._fits]
        last = {(row.page.name, row.reproduction.fitted): row for row in self._fits.values()}
        for row in fitting:
            like = last.get((row.page.name, row.reproduction.fitted))
            row.begin_fit(self.space.off_ms(row.page.name), like)
        while unfinished := [row for row in fitting if not row.is_fitted]:
            records = self.run(
                (row, network, [BASELINE.name], DRAWS) for row in unfinished for network in row.fitted_to
            )
            for row in unfinished:
                row.improve_fit([records.get((row, network, BASELINE.name), []) for network in row.fitted_to])
        self._fits |= {row.fit_key: row for row in fitting}
        for key, alike in groups.items():
            for row in alike:
                row.take_fit(self._fits[key])

    def measure(self, rows: Sequence[PageOnRig]) -> None:
        """Load pages without and with TFO. Set mean times and any fitted processing time of the client."""
        asked = (
            (row, network, arms, DRAWS)
            for row in rows
            for network in self.space.off_ms(row.page.name)
            for arms in row.loaded_together
        )
        for (row, network, arm), taken in self.run(asked).items():
            row.measured[network, arm] = fmean(taken) if taken else None
        for row in rows:
            row.add_time(self.space.off_ms(row.page.name))

    def run(
        self, asked: Iterable[tuple[PageOnRig, int, list[ArmName], int]]
    ) -> dict[tuple[PageOnRig, int, ArmName], list[float]]:
        """Load pages under test conditions. An item of `asked` is (page with its conditions, network's index,
        arms, number of loads with each arm). An arm is `off` (without TFO), `cold` or `warm` (TFO with such
        cookies). Return the load times in ms of valid loads, keyed by (page, network's index, arm)."""
        places: defaultdict[str, list[tuple[PageOnRig, int, dict[str, ArmName]]]] = defaultdict(list)
        jobs: dict[str, Job] = {}
        for row, network, arms, draws in asked:
            for job, of_load in row.jobs(network, arms, draws):
                # Different conditions may lead to equal jobs. Run only one of them: their results are equal.
                key = self.known.key(job) or f"{len(self._counted)}.{len(jobs)}"
                jobs.setdefault(key, job.model_copy(update={"id": key}))
                places[key].append((row, network, of_load))
        all_loads = self.loads + sum(len(job.loads) for key, job in jobs.items() if key not in self._counted)
        taken: defaultdict[tuple[PageOnRig, int, ArmName], list[float]] = defaultdict(list)

        def take(job: str, one: LoadTime) -> None:
            if job not in self._counted:
                self.loads += 1
                self.requests += one.requests
            if one.plt_ns is not None:
                for row, network, of_load in places[job]:
                    taken[row, network, of_load[one.load]].append(one.plt_ns / 1e6)
            self.watch(self.loads, all_loads)

        new: list[Job] = []
        for key, job in jobs.items():
            if (times := self.known.get(job)) is None:
                new.append(job)
            for one in times or ():
                take(key, one)
        with closing(self.engine.run(new, {})) as events:
            for key, one in self.known.keep(new, events):
                take(key, one)
        self._counted |= jobs.keys()
        return taken
