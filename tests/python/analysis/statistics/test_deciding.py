"""The factor on which a saving depends most."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fastopen.analysis.statistics import CellResult, Results, collect, deciding_factor
from fastopen.report.findings.deciding import findings
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan

LOSSES = (0.0, 0.01, 0.02)


def swept(saving: Callable[[CellResult, float], float], **experiment: Any) -> Results:
    """Return results for two RTTs and three loss rates. `saving` returns the improvement of a cell."""
    pages = [made_up_page("one")]
    plan = made_up_plan(pages, rtts_ms=(20, 100), rates_mbit=(4, 4, 4), repeats=1, **experiment)
    networks = [
        network.model_copy(
            update={way: getattr(network, way).model_copy(update={"loss": loss}) for way in ("down", "up")},
        )
        for network, loss in zip(
            plan.experiment.networks, [one for one in LOSSES for _ in (0, 1)], strict=True
        )
    ]
    with RunStore.create(None, plan, {}) as store:
        fill(store, plan)
        results = collect(store)
    cells = []
    for cell in results.cells:
        loss = LOSSES[cell.cell.network // 2]
        found = saving(cell, loss)
        spread = (found - 0.1, found + 0.1)
        cells.append(
            replace(
                cell,
                improvement_percent=found,
                improvement_ci95=spread,
                deterministic=False,
                pairs=9,
                retransmitted=300 * loss,
                plt_ms_median=1000.0,
            )
            if cell.cell.arm.fast_open
            else cell
        )
    varied = results.experiment.model_copy(update={"networks": networks})
    return replace(results, cells=cells, experiment=varied)


def warm(results: Results) -> Sequence[CellResult]:
    return [cell for cell in results.cells if cell.cell.arm.cookies == "warm"]


@pytest.mark.parametrize("setup", [{}, {"tls": {}}])
def test_the_factor_that_explains_most_of_the_savings_decides(setup: dict[str, Any]) -> None:
    results = swept(lambda cell, loss: 12 - 700 * loss + cell.cell.network % 2, setups=[setup])
    found = deciding_factor(results, warm(results))
    assert found is not None
    assert found.factor.name == "loss"
    assert [round(level.saving_percent, 1) for level in found.levels] == [12.5, 5.5, -1.5]


def test_where_factors_matter_only_together_none_decides() -> None:
    results = swept(lambda cell, loss: 12 + 400 * (loss - 0.01) * (cell.cell.network % 2 - 0.5))
    assert deciding_factor(results, warm(results)) is None


def test_more_loss_and_less_gain_are_explained_by_what_was_sent_again() -> None:
    results = swept(lambda cell, loss: 12 - 700 * loss + cell.cell.network % 2)
    (line,) = (one.sentence for one in findings(results, "one"))
    assert "Loss matters most: median saving 12.5\N{NO-BREAK SPACE}% with 0 % loss" in line
    assert "With 2 % loss no row gains for certain." in line
    assert "Retransmitted segments per load go from 0 to 6" in line


def test_factors_that_take_their_values_together_decide_together() -> None:
    results = swept(lambda cell, loss: 12 - 700 * loss + cell.cell.network % 2)
    networks = [
        network.model_copy(
            update={"down": network.down.model_copy(update={"rate_bit_per_s": (1 + number // 2) * 10**6})}
        )
        for number, network in enumerate(results.experiment.networks)
    ]
    joint = replace(results, experiment=results.experiment.model_copy(update={"networks": networks}))
    found = deciding_factor(joint, warm(joint))
    assert found is not None
    assert {found.factor.name, *(one.name for one in found.together)} == {"down", "loss"}
    assert "which vary together" in next(findings(joint, "one")).sentence
