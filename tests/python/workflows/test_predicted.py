"""Predicting published savings from the test conditions that explain the others. All times are made up."""

from dataclasses import replace

import pytest

from fastopen.experiments import PublishedCell, load_rigs
from fastopen.experiments.rigs import Property, Rig
from fastopen.workflows.predicted import CellTimes, CrossValidation, _most_likely

SPACE = load_rigs("meissner")
CELLS = SPACE.base_cells()
CHAIN = next(one for one in SPACE.properties if one.fitted == "hosts")
OF_PAGES = [one for one in SPACE.properties if one.value == CHAIN.value and one.pages]


def agreeing_with(rig: Rig) -> dict[PublishedCell, CellTimes]:
    """Return times with all published savings of the pages that have the condition CHAIN in `rig`, and with
    savings that differ by 9 percentage points on other pages."""

    def times(cell: PublishedCell, chain: bool) -> CellTimes:
        off_ms = 1.5 * cell.off_ms
        return CellTimes(off_ms, off_ms * (1 - (cell.improvement_percent + 9 * (not chain)) / 100))

    pages = {cell: page for page in SPACE.base.pages for _, cell in SPACE.cells_of(page)}
    return {cell: times(cell, CHAIN in SPACE.of_page(rig, pages[cell])) for cell in CELLS}


@pytest.mark.parametrize(
    ("rigs", "cells", "pages"),
    [
        # A page that is left out has the condition that the other pages have in common.
        ([(CHAIN,)], 9, 9),
        # A rig counts if each page was loaded under its conditions, on whatever rig.
        ([tuple(OF_PAGES[:2]), tuple(OF_PAGES[2:])], 9, 9),
        # A condition that not all pages were loaded under is assumed for each page, and needs its figures.
        ([tuple(OF_PAGES[:2])], 6, 0),
        ([], 0, 0),
    ],
)
def test_a_prediction_uses_what_explains_the_other_figures(rigs: list[Rig], cells: int, pages: int) -> None:
    found = CrossValidation(SPACE, CELLS, {rig: agreeing_with(rig) for rig in [(), *rigs]})
    assert len(OF_PAGES) == 3
    assert (found.correct(), found.correct(whole_pages=True)) == (cells, pages)


@pytest.mark.parametrize(("ignored", "cells"), [(CHAIN, 0), *((one, 6) for one in OF_PAGES)])
def test_a_condition_can_be_ignored_for_all_pages_or_for_one(ignored: Property, cells: int) -> None:
    found = CrossValidation(SPACE, CELLS, {rig: agreeing_with(rig) for rig in [(), (CHAIN,)]})
    assert found.correct(ignored=ignored) == cells


def test_a_rig_counts_if_only_some_values_of_its_condition_can_be_set_for_each_page() -> None:
    others = [one for one in SPACE.properties if one.name != CHAIN.name and one not in OF_PAGES]
    whole = CHAIN.model_copy(update={"value": "for all pages", "each_page": False})
    space = replace(SPACE, properties=(*others, CHAIN, *OF_PAGES, whole))
    found = CrossValidation(space, CELLS, {rig: agreeing_with(rig) for rig in [(), tuple(OF_PAGES[:2])]})
    assert space.names_for_each_page == []
    assert found.correct() == 6


def test_the_likeliest_range_of_savings_has_the_largest_weight() -> None:
    # The mean of all would be 5, which no rig gives.
    assert _most_likely([(0.0, 1.0), (1.0, 1.0), (9.5, 2.1), (None, 9.0)]) == 9.5
    assert _most_likely([(0.0, 1.0), (1.0, 1.0), (6.0, 1.0), (9.5, 2.1)]) == pytest.approx(25.95 / 3.1)
    assert _most_likely([(0.0, 1.0), (6.0, 3.0)]) == 4.5
    assert _most_likely([(None, 1.0)]) is None
    assert _most_likely([]) is None
