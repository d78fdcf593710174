"""Describe a saving that exceeds its upper bound: both figures, and other causes that the loads show."""

from collections.abc import Iterable

from fastopen.analysis.statistics import CellResult
from fastopen.common.phrases import decapitalised, listed, percent, plural, time


def excess_sentence(
    where: str, baseline: CellResult | None, result: CellResult, shorter: Iterable[str] = ()
) -> str:
    """Return a sentence on a saving that exceeds its bound; empty if it does not. `shorter`: clauses on other
    waits that became shorter."""
    if not result.beats_bound or result.bound is None or result.saved_ms is None:
        return ""
    assert result.improvement_percent is not None
    causes = list(shorter)
    if baseline is not None and (fewer := (baseline.retransmitted or 0) - (result.retransmitted or 0)) > 0:
        causes.append(
            f"{plural(fewer, 'segment')} fewer per load {'was' if fewer == 1 else 'were'} retransmitted"
        )
    return (
        f"At {where}, {decapitalised(result.cell.arm.condition)}, TFO saves"
        f" {percent(result.improvement_percent)}"
        f" ({time(result.saved_ms)}), more than the {percent(result.bound.percent)}"
        f" ({time(result.bound.ms)}) that handshakes in a row took:"
        f" {listed(causes) if causes else 'something else took less time as well'}."
    )
