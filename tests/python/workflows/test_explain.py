"""Searching for the rig behind published figures: the rule of agreement, and a real search."""

from collections.abc import Collection, Generator, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fastopen.common.errors import InputError
from fastopen.common.files import read_toml
from fastopen.common.resources import packaged_folder
from fastopen.contract import Invalid, InvalidKind, Job, LoadRecord
from fastopen.engines import Event, JobEnded, JobStarted, Reported, VirtualEngine, find_program, kernels
from fastopen.engines.results_store import Maker
from fastopen.experiments import PublishedCell, load_experiment, load_rigs, packaged_experiments
from fastopen.experiments.rigs import Property, Rig, RigSpace
from fastopen.report.explained import sentences
from fastopen.workflows.explain import RigSearch, estimate, explain
from fastopen.workflows.explained import Explained, Tried, sourced_rig
from fastopen.workflows.known_times import KnownTimes
from fastopen.workflows.page_on_rig import PageOnRig
from fastopen.workflows.predicted import CellTimes
from places import GOLDEN

DECLARED = [name for name, path in packaged_experiments().items() if "rig" in read_toml(path)]
SPACE = load_rigs("cs244-2015")
CELLS = SPACE.base_cells()


def times(cell: PublishedCell, *, longer: float = 1.0, points: float = 0.0) -> CellTimes:
    """Return a rig's times, computed from a published cell: without TFO, `longer` times the published time;
    with TFO, an improvement that is `points` percentage points larger than the published one."""
    off = cell.off_ms * longer
    return CellTimes(off, off * (1 - (cell.improvement_percent + points) / 100))


def tried(space: RigSpace, numbers: tuple[int, ...], **off: float) -> Tried:
    rig = tuple(space.properties[number] for number in numbers)
    return Tried(rig, {cell: times(cell, **off) for cell in CELLS}, frozenset())


def test_savings_agree_within_three_points_and_times_within_a_tenth() -> None:
    cell = CELLS[0]
    for points, agrees in ((0, True), (2.9, True), (-2.9, True), (3.1, False), (-3.1, False)):
        assert tried(SPACE, (), points=points).agrees(cell) == agrees, points
    for longer, agrees in ((1.0, True), (1.09, True), (0.91, True), (1.11, False), (0.89, False)):
        assert tried(SPACE, (), longer=longer).times_agree(cell) == agrees, longer
    missing = Tried((), {cell: CellTimes(None, 1.0)}, frozenset())
    assert (missing.agrees(cell), missing.times_agree(cell)) == (False, False)


def test_a_property_that_is_assumed_has_to_earn_its_place() -> None:
    assumed = next(number for number, one in enumerate(SPACE.properties) if one.assumed)
    known = next(number for number, one in enumerate(SPACE.properties) if not one.assumed)
    same = {"points": 1.0, "longer": 1.0}
    rigs = (tried(SPACE, (), **same), tried(SPACE, (known,), **same), tried(SPACE, (assumed,), **same))
    found = Explained(SPACE, CELLS, rigs, {}, 0)
    assert found.best == rigs[0], "alike, the rig of fewer properties is the best"
    better = tried(SPACE, (assumed,), points=0.0)
    worse = tried(SPACE, (), points=5.0)
    assert Explained(SPACE, CELLS, (worse, better), {}, 0).best == better


def test_of_rigs_that_agree_alike_neither_order_nor_source_decides() -> None:
    one, other = (tried(SPACE, (number,)) for number in (1, 2))
    found = [Explained(SPACE, CELLS, rigs, {}, 0).best for rigs in ((one, other), (other, one))]
    assert found[0] == found[1]


def test_a_property_of_one_page_is_predicted_by_the_pages_other_cells() -> None:
    space = load_rigs("meissner")
    cells = space.base_cells()
    page = cells[-1].page
    own = next(one for one in space.properties if one.pages == ["web-mit"])

    def of(*rig: Property) -> Tried:
        agreeing = {cell: 0.0 if rig and cell.page == page else 9.0 for cell in cells}
        figures = {cell: times(cell, longer=1.5, points=points) for cell, points in agreeing.items()}
        return Tried(rig, figures, frozenset())

    found = Explained(space, cells, (of(), of(own)), {}, 0)
    assert (found.best.agreeing, found.predicted, found.predicted_pages) == (3, 3, 0)
    assert found.predicted_gained(own) == 3


def test_what_the_best_rig_does_not_give_has_a_reason() -> None:
    known = tuple(map(SPACE.properties.index, sourced_rig(SPACE)))
    rigs = (tried(SPACE, (), points=9.0), tried(SPACE, known, points=12.0))
    found = Explained(SPACE, CELLS, rigs, {}, 0)
    unreached = found.as_json()["unreached"]
    assert [one["rtt_ms"] for one in unreached] == [20, 100, 200]
    assert all("no rig tried reaches it (2 of 128)" in one["why"] for one in unreached)


def test_a_rig_that_gives_more_savings_than_the_best_is_not_hidden() -> None:
    known = tuple(map(SPACE.properties.index, sourced_rig(SPACE)))
    first, *others = CELLS

    def agreeing(numbers: tuple[int, ...], cells: Collection[PublishedCell], longer: float) -> Tried:
        figures = {cell: times(cell, longer=longer, points=0.0 if cell in cells else 9.0) for cell in CELLS}
        return Tried(tuple(SPACE.properties[number] for number in numbers), figures, frozenset())

    best = agreeing(known, others, 1.0)  # two savings, and the times of all cells without TFO
    more = agreeing((0,), CELLS, 1.5)  # all savings, no times
    base = agreeing((), (), 1.5)
    found = Explained(SPACE, CELLS, (base, best, more), {}, 0)
    assert found.best == best
    assert found.reachable == len(CELLS)
    (unreached,) = found.as_json()["unreached"]
    assert (unreached["rtt_ms"], "loses no other saving" in unreached["why"]) == (first.rtt_ms, True)
    only = Explained(SPACE, CELLS, (base, best, agreeing((0,), [first], 1.5)), {}, 0)
    assert "only rigs that lose other cells" in only.why_unreached(first)
    moved = {cell: (was, now) for cell, was, now in found.moved(SPACE.properties[0])}
    assert moved.keys() == set(CELLS)
    was, now = moved[first]
    assert was is not None
    assert now is not None
    assert now - was == pytest.approx(-9.0)


@pytest.mark.parametrize("name", ["purdue-method2", "purdue-method2-bandwidth"])
def test_cells_of_other_tables_of_the_rig_count_in_its_rank_only(name: str) -> None:
    space = load_rigs(name)
    own = space.base_cells()
    both = [cell for page in space.base.pages for _, cell in space.cells_of(page)]
    # Each table has twelve cells. Both print the four at an RTT of 20 ms and 10 Mbit/s, over one network.
    assert (len(own), len(set(both)), set(own) < set(both)) == (12, 24, True)
    assert {cell.experiment for cell in own} == {name}
    experiment = space.reproduction((), "amazon").experiment
    links = {(network.rtt_us, network.down.rate_bit_per_s) for network in experiment.networks}
    assert (len(experiment.networks), len(links)) == (5, 5)
    assert links == {(one.rtt_ms * 1000, one.down_mbit * 1e6) for one in both}
    other_cells = frozenset(both).difference(own)

    def agreeing_in(cells: Collection[PublishedCell]) -> Tried:
        figures = {cell: times(cell, points=0.0 if cell in cells else 20.0) for cell in both}
        return Tried((), figures, frozenset(), other_cells)

    best, worse = agreeing_in(other_cells), agreeing_in(own[:7])
    found = Explained(space, own, (worse, best), {}, 0)
    assert (found.best, found.best.agreeing, worse.agreeing) == (best, 0, 7)


def test_a_cell_that_two_tables_print_is_left_out_of_both() -> None:
    space = load_rigs("purdue-method2")
    both = [cell for page in space.base.pages for _, cell in space.cells_of(page)]
    twins = [cell for cell in both if (cell.page, cell.link) == (both[0].page, both[0].link)]
    window = next(one for one in space.properties if one.name == "initial window")

    def agreeing(rig: Rig, cells: Collection[PublishedCell]) -> Tried:
        figures = {cell: times(cell, longer=1.5, points=0.0 if cell in cells else 20.0) for cell in both}
        return Tried(rig, figures, frozenset())

    found = Explained(space, space.base_cells(), (agreeing((), ()), agreeing((window,), twins)), {}, 0)
    assert (len(twins), found.best.rig, found.predicted) == (2, (window,), 0)


def test_an_unknown_table_of_the_rig_is_refused(tmp_path: Path) -> None:
    packaged = packaged_folder("experiments")
    assert packaged is not None
    text = (packaged / "purdue-method2.toml").read_text()
    (tmp_path / "wrong.toml").write_text(text.replace("-bandwidth", "-bandwith"))
    with pytest.raises(InputError) as raised:
        load_rigs(str(tmp_path / "wrong.toml"))
    assert raised.value.remedy == "did you mean purdue-method2-bandwidth?"


@pytest.mark.parametrize("time", [17.65, 0.0, 24.885])
def test_a_misprint_that_is_not_one_time_of_the_table_is_refused(tmp_path: Path, time: float) -> None:
    packaged = packaged_folder("experiments")
    assert packaged is not None
    text = (packaged / "purdue-method1-bandwidth.toml").read_text().replace("[[17.655,", f"[[{time},")
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(InputError) as raised:
        load_experiment(str(tmp_path / "wrong.toml"))
    assert "published.misprints" in raised.value.place


@pytest.mark.usefixtures("kernel")
def test_a_page_is_fitted_to_times_at_two_rtts_and_two_rates_if_tables_have_them() -> None:
    space = load_rigs("purdue-method2")
    rig = tuple(one for one in space.properties if one.fitted or one.name == "initial window")
    engine = VirtualEngine(find_program(), kernels.find(), 2)
    search = RigSearch(space, space.base_cells(), engine, lambda *_: None)
    page = search.pages["wikipedia-tcp"]
    row = PageOnRig(space.reproduction(rig, page.name), page)
    search.fit([row])
    cells = dict(space.cells_of(page.name))
    chosen = [(cells[one].rtt_ms, cells[one].down_mbit) for one in row.fitted_to]
    assert chosen == [(20, 10), (200, 10), (20, 5)]
    search.measure([row])
    off = {network: row.times(network).off_ms for network in cells}
    assert off == {network: pytest.approx(ms, rel=0.06) for network, ms in space.off_ms(page.name).items()}
    again = PageOnRig(space.reproduction((*rig, space.properties[-1]), page.name), page)
    loads = search.loads
    search.fit([again])
    assert search.loads == loads, "a page that loads alike without TFO is fitted once"
    assert again.fitted_to == row.fitted_to


class CountingEngine:
    """An engine that records its jobs, and whose loads take 5 ms."""

    jobs: tuple[Job, ...] = ()
    parallel = 2
    attempt = 1
    invalid: tuple[InvalidKind, ...] = ()
    fault: str | None = None

    def run(self, jobs: Iterable[Job], _: object) -> Generator[Event]:
        golden = LoadRecord.model_validate_json((GOLDEN / "load.json").read_text())
        self.jobs = tuple(jobs)
        for job in self.jobs:
            yield JobStarted(job.id, self.attempt)
            for load in job.loads:
                taken = {"job": job.id, "id": load.id, "valid": not self.invalid, "plt_ns": 5_000_000}
                taken["invalid"] = [Invalid(kind=kind, detail="") for kind in self.invalid]
                yield Reported(golden.model_copy(update=taken), "")
            yield JobEnded(job.id, self.fault)


@pytest.mark.parametrize(("invalid", "steps"), [((), 5), ((InvalidKind.INCOMPLETE,), 16)])
def test_a_fit_ends_after_four_steps_in_a_row_that_are_no_better_or_after_sixteen(
    invalid: tuple[InvalidKind, ...], steps: int
) -> None:
    space, engine = load_rigs("purdue-method2"), CountingEngine()
    engine.invalid = invalid
    search = RigSearch(space, space.base_cells(), cast("VirtualEngine", engine), lambda *_: None)
    page = search.pages["wikipedia-tcp"]
    objects = next(one for one in space.properties if one.fitted == "objects")
    search.fit([PageOnRig(space.reproduction((objects,), page.name), page)])
    networks, draws = 3, 2
    assert search.loads == steps * networks * draws


def test_jobs_that_a_rig_does_not_change_run_once_for_all_rigs() -> None:
    engine = CountingEngine()
    search = RigSearch(SPACE, CELLS, cast("VirtualEngine", engine), lambda *_: None)
    page = next(iter(search.pages.values()))
    one, same = (PageOnRig(SPACE.reproduction((), page.name), page) for _ in range(2))
    found = search.run([(one, 0, ["off"], 1), (same, 0, ["off"], 1)])
    assert found == {(row, 0, "off"): [5.0] for row in (one, same)}
    assert (len(engine.jobs), search.loads) == (1, 1)
    search.run([(one, 0, ["off"], 1)])
    assert search.loads == 1, "a search counts a load once, even if several rigs share it"


def test_jobs_of_an_earlier_search_do_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maker = Maker("program", "kernel", ())

    def searched(maker: Maker) -> tuple[RigSearch, CountingEngine]:
        engine = CountingEngine()
        watch = cast("VirtualEngine", engine), lambda *_: None
        search = RigSearch(SPACE, CELLS, *watch, KnownTimes(maker))
        page = next(iter(search.pages.values()))
        search.measure([PageOnRig(SPACE.reproduction((), page.name), page)])
        return search, engine

    first, engine = searched(maker)
    networks, arms, draws = 3, 2, 2
    assert (len(engine.jobs), first.loads) == (networks * draws, networks * draws * arms)
    (file,) = tmp_path.rglob("*.jsonl")
    again, engine = searched(maker)
    assert (engine.jobs, again.loads, again.requests) == ((), first.loads, first.requests)
    assert len(searched(Maker("other", "kernel", ()))[1].jobs) == 6
    lines = [line for line in file.read_bytes().splitlines() if line]
    damaged = (
        b'["cut',
        b"[1, 2]",
        b'["key", [["load", {}, 1]]]',
        b'["key", [["load", 1e999, 1]]]',
        b"\xff\0",
    )
    file.write_bytes(b"\n".join([*damaged, lines[0], lines[1], lines[2][:-9]]))
    assert len(searched(maker)[1].jobs) == 4
    assert searched(maker)[1].jobs == ()
    file.unlink()
    file.mkdir()
    assert len(searched(maker)[1].jobs) == 6


def jobs_of_a_page() -> list[Job]:
    """Return the jobs that a search runs for one page. Their ids are their keys in KnownTimes."""
    search = RigSearch(SPACE, CELLS, cast("VirtualEngine", CountingEngine()), lambda *_: None)
    page = next(iter(search.pages.values()))
    made = PageOnRig(SPACE.reproduction((), page.name), page).jobs(0, ["off", "warm"], 2)
    return [job.model_copy(update={"id": KnownTimes().key(job)}) for job, _ in made]


@pytest.mark.parametrize(
    ("attempt", "invalid", "fault", "kept"),
    [
        (1, (), None, True),
        (1, (InvalidKind.INCOMPLETE,), None, True),
        (1, (InvalidKind.LINK_LATE,), None, False),
        (1, (), "ended early", False),
        # The second attempt at a job makes only the loads that the first did not.
        (2, (), None, False),
    ],
)
def test_only_times_that_the_machine_did_not_change_are_kept(
    attempt: int, invalid: tuple[InvalidKind, ...], fault: str | None, kept: bool
) -> None:
    engine, known, jobs = CountingEngine(), KnownTimes(), jobs_of_a_page()
    engine.attempt, engine.invalid, engine.fault = attempt, invalid, fault
    found = [*known.keep(jobs, engine.run(jobs, {}))]
    assert [one.plt_ns for _, one in found] == [None if invalid else 5_000_000] * 4
    for job in jobs:
        times = tuple(one for key, one in found if key == job.id)
        assert known.get(job) == (times if kept else None)


def test_a_job_that_may_give_other_times_is_not_kept() -> None:
    known, captured = KnownTimes(), [job.model_copy(update={"packets": True}) for job in jobs_of_a_page()]
    assert [known.key(job) for job in captured] == [None, None]
    assert len([*known.keep(captured, CountingEngine().run(captured, {}))]) == 4
    assert [known.get(job) for job in captured] == [None, None]


def test_a_search_that_is_interrupted_keeps_the_times_of_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maker, jobs = Maker("program", "kernel", ()), jobs_of_a_page()
    loads = [*islice(KnownTimes(maker).keep(jobs, CountingEngine().run(jobs, {})), 3)]
    first, second = (KnownTimes(maker).get(job) for job in jobs)
    assert (first, second) == (tuple(one for _, one in loads[:2]), None)


@pytest.fixture(name="fake_engine")
def _fake_engine(monkeypatch: pytest.MonkeyPatch) -> CountingEngine:
    engine = CountingEngine()
    monkeypatch.setattr("fastopen.workflows.explain.VirtualEngine", lambda *_: engine)
    monkeypatch.setattr("fastopen.workflows.explain.find_program", Path)
    monkeypatch.setattr("fastopen.workflows.explain.kernels", SimpleNamespace(find=lambda: None))
    return engine


@pytest.mark.usefixtures("fake_engine")
def test_a_search_may_have_no_properties() -> None:
    watched: list[tuple[int, int]] = []
    space = replace(SPACE, properties=())
    found = explain(space, watch=lambda *counts: watched.append(counts), known=KnownTimes())
    assert ([one.rig for one in found.tried], space.size) == ([()], 1)
    assert watched == [(done, found.loads) for done in range(1, found.loads + 1)]
    assert (found.predicted, found.predicted_pages) == (found.base.agreeing, found.base.agreeing)


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.usefixtures("fake_engine")
def test_a_search_compares_each_rig_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastopen.workflows.explain.SEARCH_REQUESTS", 1000)
    monkeypatch.setattr("fastopen.workflows.explain.RIGS_MAX", 2000)
    space = load_rigs(name)
    rigs = [one.rig for one in explain(space, known=KnownTimes()).tried]
    assert len({*map(frozenset, rigs)}) == len(rigs) <= space.size


@pytest.mark.parametrize(("name", "full"), [("cs244-2015", True), ("radhakrishnan2011", False)])
@pytest.mark.usefixtures("fake_engine")
def test_the_estimate_is_of_the_search_that_follows(name: str, full: bool) -> None:
    everything, seconds = estimate(load_rigs(name))
    assert (everything, 20 < seconds < 90) == (full, True)


@pytest.mark.usefixtures("fake_engine")
def test_properties_that_changed_no_load_are_named() -> None:
    space = replace(SPACE, properties=SPACE.properties[:2])
    found = explain(space, known=KnownTimes())
    assert found.without_effect == [*space.properties]
    assert "Properties that changed no load: delay: " in " ".join(sentences(found))
    lost = tuple(replace(one, times=dict.fromkeys(one.times, CellTimes(None, None))) for one in found.tried)
    assert replace(found, tried=lost).without_effect == []


@pytest.mark.usefixtures("kernel")
def test_the_class_report_of_cs244_is_explained() -> None:
    found = explain(SPACE, known=KnownTimes())
    document = found.as_json()
    assert (document["cells"], document["rigs_possible"]) == (3, 128)
    assert document["agree_best"] >= document["agree_base"]
    assert {"agree_sourced", "times_agree_sourced"} <= document.keys()
    # Delays on both links, and one cookie for all hosts that is missing at the start, give the absolute
    # times.
    assert document["times_agree_best"] >= 2
    best: dict[str, str] = document["best"]
    assert {"delay", "addresses", "cookies"} <= best.keys()
    names = [one["name"] for one in document["properties"]]
    assert names == [one.name for one in SPACE.properties]


@pytest.mark.usefixtures("kernel")
def test_virtual_time_repeats_a_search_to_the_digit() -> None:
    space = replace(SPACE, properties=SPACE.properties[:3])
    one, other = (explain(space, known=KnownTimes()).as_json() for _ in range(2))
    assert one == other


@pytest.mark.usefixtures("kernel")
def test_rigs_whose_pages_were_all_loaded_are_compared_without_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rigs = '[[rig]]\nname = "cost"\nvalue = "9 s"\nsource = "assumed"\neach_page = true\ntfo_ms = 9000\n'
    rigs += 'pages = ["wikipedia-tcp", "amazon"]\n'
    packaged = packaged_folder("experiments")
    assert packaged is not None
    text = (packaged / "palguyev.toml").read_text()
    (tmp_path / "costly.toml").write_text(text.replace('rig = "meissner"', "") + rigs)
    # The best rig is the base. A rig of two properties is not its neighbour, and is not tried by chance.
    monkeypatch.setattr("fastopen.workflows.explain.FULL_REQUESTS", 0)
    monkeypatch.setattr("fastopen.workflows.explain.SEARCH_REQUESTS", 0)
    space = load_rigs(str(tmp_path / "costly.toml"))
    found = explain(space, known=KnownTimes())
    assert (found.best.rig, found.of(space.properties) is None) == ((), False)
    # The cost of both pages and those of each page need the same loads.
    pages, costs, networks, arms, draws = 2, 2, 3, 2, 2
    assert (len(space.properties), len(found.tried)) == (3, space.size)
    assert found.loads == pages * costs * networks * arms * draws


def test_properties_of_a_rig_stand_in_the_order_of_the_file() -> None:
    backwards: list[Property] = [*reversed(SPACE.properties)]
    assert SPACE.ordered(backwards) == SPACE.properties
