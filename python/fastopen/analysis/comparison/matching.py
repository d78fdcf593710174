"""Read two runs to compare, and match their results by page, use of TFO and settings (factors).

A setting that has one value in the first run and another value in the second is not used for matching. It is
listed as a difference. So runs with initial windows of 4 and of 10 segments can be compared."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastopen.analysis.attribution import Attribution, attribute
from fastopen.analysis.statistics import CellResult, Results, collect
from fastopen.common.errors import InputError
from fastopen.common.grouping import grouped
from fastopen.experiments import FACTORS, Cell, DesignPoint, Factor
from fastopen.pages import Page
from fastopen.runs import RunStore

Key = tuple[str, ...]
Pairs = tuple[tuple[CellResult, CellResult], ...]
# Arms are matched by name. Transports are not matched, because they depend on TLS, which is another factor.
MATCHED = tuple(factor for factor in FACTORS if factor.part != "arm")


@dataclass(frozen=True)
class Side:
    """One of two runs to compare: its results, and everything else that the comparison needs."""

    place: str
    """The run's folder, or a name for a run that is only in memory."""
    label: str
    """The label that the user gave the run; empty if none."""
    results: Results
    attribution: Attribution
    seeds: Mapping[tuple[int, int], int]
    """The seed of each load's emulated network, keyed by (cell index, repeat number)."""
    bodies: Mapping[str, str]
    """The digest of each page's recorded bodies, keyed by page name. Pages without bodies are left out."""


def read_side(folder: Path) -> Side:
    """Read the run in a folder for a comparison. Raises InputError if the run cannot be read."""
    with RunStore.open(folder) as store:
        return side_of(store, store.place)


def side_of(store: RunStore, place: str) -> Side:
    """Read an open run for a comparison. `place`: the run's folder, or its name if it is in memory."""
    rows, jobs = store.loads(), store.jobs()
    results = collect(store, rows)
    return Side(
        place=place,
        label=store.label,
        results=results,
        attribution=attribute(store, rows, results),
        seeds={(row.cell, row.repeat): jobs[row.job] for row in rows},
        bodies=dict(store.options.get("bodies") or {}),
    )


@dataclass(frozen=True)
class ComparedSetting:
    """A setting that differs between two runs, and its values in the first run and in the second run."""

    name: str
    before: str
    after: str

    @property
    def values(self) -> str:
        """Return both values as text, with A for the first run and B for the second: `10 in A, 4 in B`."""
        return f"{self.before or 'none'} in A, {self.after or 'none'} in B"

    def __str__(self) -> str:
        return f"{self.name} {self.values}"


@dataclass(frozen=True)
class Matching:
    """The results of two runs in pairs, the results that only one run has, and the differing settings."""

    pairs: Pairs
    only_before: tuple[CellResult, ...]
    only_after: tuple[CellResult, ...]
    settings: tuple[ComparedSetting, ...]
    """The settings that differ between the runs: factors, then programs and machines, then pages."""
    common: tuple[Factor, ...]
    """The factors by which the results were matched."""


def match(before: Side, after: Side) -> Matching:
    """Match the results of two runs by page, arm and factors. Raises InputError if no results match."""
    differing = []
    for factor in MATCHED:
        was, now = ({repr(factor.values(point)) for point in points(side)} for side in (before, after))
        if len(was) == len(now) == 1 and was != now:
            differing.append(factor)
    common = tuple(factor for factor in MATCHED if factor not in differing)
    by_url = not before.results.pages.keys() & after.results.pages.keys()
    keyed = [_keyed(side, common, by_url=by_url) for side in (before, after)]
    pairs = tuple((cell, keyed[1][key]) for key, cell in keyed[0].items() if key in keyed[1])
    if not pairs:
        raise InputError(
            f"have no page and network in common: {_why(before, after, common, by_url=by_url)}",
            f"{before.place}, {after.place}",
            "compare runs of the same page over the same networks",
        )
    known = (*_made_with(before, after, pairs), *_loaded(before, after, pairs))
    others = (ComparedSetting(name, str(was or ""), str(now or "")) for name, was, now in known if was != now)
    return Matching(
        pairs=pairs,
        only_before=tuple(cell for key, cell in keyed[0].items() if key not in keyed[1]),
        only_after=tuple(cell for key, cell in keyed[1].items() if key not in keyed[0]),
        settings=(*_settings(differing, before, after), *others),
        common=common,
    )


def points(side: Side) -> list[DesignPoint]:
    """Return the network, setup and engine of each result of a run, in the order of the results."""
    return [side.results.factors.point(result.cell) for result in side.results.cells]


def _keyed(side: Side, common: Sequence[Factor], *, by_url: bool) -> Mapping[Key, CellResult]:
    def key(cell: Cell) -> Key:
        page, point = side.results.pages[cell.page], side.results.factors.point(cell)
        values = (repr(factor.values(point)) for factor in common)
        return (page.url if by_url else cell.page, cell.arm.name, *values)

    of_key = grouped((key(result.cell), result) for result in side.results.cells)
    # Leave out pages that share a URL, because they cannot be distinguished.
    return {key: results[0] for key, results in of_key.items() if len(results) == 1}


def _settings(differing: Sequence[Factor], before: Side, after: Side) -> Iterator[ComparedSetting]:
    """Yield the factors that differ between the runs. Leave out factors whose values are all
    defaults that depend on other settings, unless that would leave out every factor."""
    every = [*points(before), *points(after)]
    independent = [one for one in differing if not (one.has_dependent_default and one.is_usual(every))]
    for factor in independent or differing:
        texts = [factor.text_at(points(side)[0]) for side in (before, after)]
        named = [f"{text} {factor.unit}" if factor.unit and text else text for text in texts]
        yield ComparedSetting(factor.title, *named)


def _why(before: Side, after: Side, common: Sequence[Factor], *, by_url: bool) -> str:
    sides = (before, after)
    urls = [{page.url for page in side.results.pages.values()} for side in sides]
    if by_url and not urls[0] & urls[1]:
        names = [", ".join(side.results.pages) for side in sides]
        return f"the first has page {names[0]}, the second has page {names[1]}"
    arms = [list(side.results.experiment.arms) for side in sides]
    if not {*arms[0]} & {*arms[1]}:
        return f"the first has arms {', '.join(arms[0])}, the second has arms {', '.join(arms[1])}"
    for factor in common:
        values = [{repr(factor.values(point)): factor.text_at(point) for point in points(s)} for s in sides]
        if not values[0].keys() & values[1].keys():
            texts = [", ".join(one.values()) for one in values]
            return f"{factor.heading or factor.title} {texts[0]} in the first, {texts[1]} in the second"
    return "they combine their values differently"


DIGEST_SHOWN: Final = 8  # characters of a digest


def _made_with(before: Side, after: Side, pairs: Pairs) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value in the first run, value in the second run) for the programs, machines and seeds that
    can affect the results. The values may be equal."""
    old, new = before.results.environment, after.results.environment
    was, now = (side.get("versions", {}) for side in (old, new))
    yield from ((name, was.get(name), now.get(name)) for name in ("fastopen", "fastopen-world"))
    was, now = (side.get("clients") or {} for side in (old, new))
    yield from ((name, _in_words(was[name]), _in_words(now[name])) for name in was if name in now)
    engines = {result.cell.engine for pair in pairs for result in pair}
    if "virtual" in engines:
        was, now = (_kernel(side.get("virtual_kernel") or {}) for side in (old, new))
        yield "kernel of the virtual engine", was, now
    if "host" in engines:
        # In virtual time the machine has no effect.
        yield from ((name, old.get(name), new.get(name)) for name in ("kernel", "processor", "cores"))
    if not all(result.deterministic for pair in pairs for result in pair):
        experiments = [side.results.experiment for side in (before, after)]
        first, second = (one.vary for one in experiments)
        yield "seed", str(experiments[0].seed), str(experiments[1].seed)
        if first != second:
            other = "no draws" if second is None else "draws" if first is None else "other draws"
            yield "vary", "no draws" if first is None else "draws", other


def _kernel(known: Mapping[str, Any]) -> str:
    digest = str(known.get("sha256", ""))[:DIGEST_SHOWN]
    return f"{known.get('name', '')} ({digest})" if digest else str(known.get("name", ""))


def _loaded(before: Side, after: Side, pairs: Pairs) -> Iterator[tuple[str, object, object]]:
    """Yield (label, value in the first run, value in the second run) for the name, the content and the
    recorded bodies of each page. The values may be equal."""
    for old_name, new_name in dict.fromkeys((old.cell.page, new.cell.page) for old, new in pairs):
        old, new = before.results.pages[old_name], after.results.pages[new_name]
        yield f"the name of {old.url}", old_name, new_name
        yield f"page {old_name}", _facts(old), _facts(new)
        was, now = before.bodies.get(old_name, ""), after.bodies.get(new_name, "")
        yield f"recorded bodies of {old_name}", was[:DIGEST_SHOWN], now[:DIGEST_SHOWN]


def _facts(page: Page) -> str:
    """Describe a page, such as `2 requests, 30 kB (0123abcd)`. The digest does not cover the page's name."""
    digest = page.model_copy(update={"name": ""}).digest()
    return f"{len(page.resources)} requests, {page.body_bytes() / 1000:.0f} kB ({digest[:DIGEST_SHOWN]})"


def _in_words(version: object) -> str:
    if isinstance(version, Mapping):
        return " ".join(str(value) for value in version.values())
    return str(version or "")
