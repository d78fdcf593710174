"""Compare page loads under assumed test conditions with published figures, and find the best conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from fastopen.analysis.audit import QUESTIONS, AuditFinding, audit, read_table
from fastopen.common.grouping import grouped
from fastopen.common.resources import packaged_file
from fastopen.experiments import PublishedCell
from fastopen.experiments.published import FILE as PUBLISHED
from fastopen.experiments.rigs import Property, Rig, RigSpace
from fastopen.workflows.predicted import CellTimes, CrossValidation, score

# Kinds of audit findings that concern the times. Other kinds are printing errors.
OF_TIMES: Final = ("monotony", "growth", "bound", "below_rtt", "below_rate", *QUESTIONS)


@dataclass(frozen=True)
class Tried:
    """A set of assumed test conditions (`rig`), and the mean load times that fastopen measured under it.
    `times` maps each published result (one page over one network) to the measured times. `fitted` contains
    the published results whose times without TFO were used to fit the page. Results in
    `cells_of_other_tables` affect only `rank` and predictions."""

    rig: Rig
    times: Mapping[PublishedCell, CellTimes]
    fitted: frozenset[PublishedCell]
    cells_of_other_tables: frozenset[PublishedCell] = frozenset()

    def agrees(self, cell: PublishedCell) -> bool:
        """Return True if TFO's saving is within 3 percentage points of the published saving in `cell`."""
        return self.times[cell].saving_agrees(cell)

    def times_agree(self, cell: PublishedCell) -> bool:
        """Return True if both page load times are within 10 % of the published times in `cell`."""
        return self.times[cell].times_agree(cell)

    @property
    def agreeing(self) -> int:
        """Return the number of savings that agree with published ones, except in `cells_of_other_tables`."""
        return sum(map(self.agrees, self.times.keys() - self.cells_of_other_tables))

    @property
    def times_agreeing(self) -> int:
        return sum(map(self.times_agree, self.times.keys() - self.cells_of_other_tables))

    @cached_property
    def rank(self) -> tuple[int, int, int, list[tuple[str, str]]]:
        """Return a sort key that is lowest for the best set of test conditions: the set with the most points.
        Break ties by more agreeing savings and times, then by fewer conditions."""
        savings, times = sum(map(self.agrees, self.times)), sum(map(self.times_agree, self.times))
        named = [(one.name, one.value) for one in self.rig]
        return -score(savings, times, self.rig), -(savings + times), len(self.rig), named


@dataclass(frozen=True)
class Explained:
    """The result of a search for the test conditions ("rig") that best explain the published figures in
    `cells`. `findings` maps figures to the findings of `fastopen audit` on their times, if any."""

    space: RigSpace
    cells: tuple[PublishedCell, ...]
    tried: tuple[Tried, ...]
    """The load times measured under each rig that was tried; first the base, which sets no condition."""
    findings: Mapping[PublishedCell, Sequence[AuditFinding]]
    loads: int

    @property
    def base(self) -> Tried:
        """Return the result for the base: the experiment as in its file, without any added condition."""
        return self.tried[0]

    @property
    def sourced(self) -> Tried:
        """Return the load times measured under all test conditions that have a source, such as a paper that
        states the initial window, and under no other conditions."""
        return self._by_rig[sourced_rig(self.space)]

    @cached_property
    def best(self) -> Tried:
        """Return the result for the test conditions with the best `rank` over all published figures."""
        return min(self.tried, key=attrgetter("rank"))

    def of(self, rig: Rig) -> Tried | None:
        """Return the result for a rig; None if it was not tried."""
        return self._by_rig.get(rig)

    @cached_property
    def _by_rig(self) -> Mapping[Rig, Tried]:
        return {one.rig: one for one in self.tried}

    def gained(self, one: Property) -> int | None:
        """Return the number of published savings that agree with savings measured under only the condition
        `one`, minus the number that agree without any condition. None if `one` was not tried by itself."""
        only = self.of((one,))
        return None if only is None else only.agreeing - self.base.agreeing

    def lost_without(self, one: Property) -> int | None:
        """Return how many fewer of our savings agree with the published ones without the condition `one` of
        the best test conditions. None if `one` is not among them, or if its removal was not tried."""
        if one not in self.best.rig:
            return None
        without = self.of(tuple(other for other in self.best.rig if other != one))
        return None if without is None else self.best.agreeing - without.agreeing

    @cached_property
    def predicted(self) -> int:
        """Return the number of published savings that a cross-validation predicts correctly. Each prediction
        ignores all published results for the same page and network."""
        return self._validation.correct()

    @cached_property
    def predicted_pages(self) -> int:
        """Return the number of published savings that a cross-validation over pages predicts correctly. Each
        prediction uses only published results of other pages. An experiment with one page has none."""
        return self._validation.correct(whole_pages=True)

    def predicted_gained(self, one: Property) -> int:
        """Return the number of correct predictions (`predicted`) that are lost if the search ignores all sets
        of test conditions in which `one` holds for a page."""
        return self.predicted - self._validation.correct(ignored=one)

    @cached_property
    def _validation(self) -> CrossValidation:
        return CrossValidation(self.space, self.cells, {one.rig: one.times for one in self.tried})

    @cached_property
    def without_effect(self) -> list[Property]:
        """Return the test conditions that changed no load time under any of the rigs tried. Omit conditions
        under which no load was valid."""
        space, changing, loaded = self.space, set[Property](), set[Property]()
        for rig in self.tried:
            for one in rig.rig:
                without = self.of(tuple(other for other in rig.rig if other != one))
                if without and without.times != rig.times:
                    changing.add(space.original(one))
                elif any(times.off_ms or times.tfo_ms for times in rig.times.values()):
                    loaded.add(space.original(one))
        return [one for one in space.properties if not space.is_copy(one) and one in loaded - changing]

    @property
    def reachable(self) -> int:
        """Return the number of published savings that any of the tried sets of test conditions reproduces."""
        return sum(any(one.agrees(cell) for one in self.tried) for cell in self.cells)

    def moved(self, one: Property) -> list[tuple[PublishedCell, float | None, float | None]]:
        """Return the published results for which the condition `one`, compared with no condition, changes
        whether our saving agrees. An item is (published result, our saving in percent under no condition, our
        saving under only `one`). The list is empty if `one` was not tried by itself."""
        base, only = self.base, self.of((one,))
        if only is None:
            return []
        changed = [cell for cell in self.cells if only.agrees(cell) != base.agrees(cell)]
        return [(cell, base.times[cell].saving_percent, only.times[cell].saving_percent) for cell in changed]

    def why_unreached(self, cell: PublishedCell) -> str:
        """Return the reason why the best test conditions do not reproduce the published saving of `cell`."""
        kinds = dict.fromkeys(one.kind for one in self.findings.get(cell, ()))
        faults, questions = (
            ", ".join(kind for kind in kinds if (kind in QUESTIONS) == asked) for asked in (False, True)
        )
        note = f"; its times break a bound (fastopen audit: {faults})" if faults else ""
        note += f"; fastopen audit has a question ({questions})" if questions else ""
        giving = [one for one in self.tried if one.agrees(cell)]
        kept = [other for other in self.cells if self.best.agrees(other)]
        keeping = [one for one in giving if all(map(one.agrees, kept))]
        savings = (one.times[cell].saving_percent for one in keeping or giving or self.tried)
        known = [saving for saving in savings if saving is not None]
        if not known:
            return f"no rig tried loads it{note}"
        nearest = min(known, key=lambda saving: abs(saving - cell.improvement_percent))
        such = f"(such as {nearest:.1f} %){note}"
        if keeping:
            return (
                f"a rig gives it and loses no other saving, but fewer times agree or it assumes more {such}"
            )
        if giving:
            return f"only rigs that lose other cells give it {such}"
        tried = f"{len(self.tried):,} of {self.space.size:,}"
        return f"no rig tried reaches it ({tried}): the nearest saves {nearest:.1f} %{note}"

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
            "without_effect": [{"name": one.name, "value": one.value} for one in self.without_effect],
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


def sourced_rig(space: RigSpace) -> Rig:
    """Return the rig with all conditions that have a source: for each name, the first with a source."""
    sourced = {one.name: one for one in reversed(space.properties) if not one.assumed}
    return space.ordered(sourced.values())


def published_findings(cells: Sequence[PublishedCell]) -> Mapping[PublishedCell, Sequence[AuditFinding]]:
    """Map each pair of published times (without and with TFO) to the findings of `fastopen audit` on these
    times. Leave out pairs without a finding."""
    wanted = {(one.experiment, one.page, one.rtt_ms, one.down_mbit): one for one in cells}
    found: list[tuple[PublishedCell, AuditFinding]] = []
    for finding in audit(read_table(packaged_file("experiments", PUBLISHED)).cells):
        cell = finding.cell
        key = (cell.experiment, cell.page, float(cell.rtt_ms), float(cell.down_mbit or 0))
        if key in wanted and finding.kind in OF_TIMES:
            found.append((wanted[key], finding))
    return grouped(found)
