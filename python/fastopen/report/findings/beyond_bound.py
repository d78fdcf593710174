"""Report results whose saving by TFO is larger than the time that the avoided handshakes take."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.attribution import excess_sentence
from fastopen.analysis.statistics import Results
from fastopen.experiments import baseline_of, treatments_of
from fastopen.report.findings import Finding

RANK: Final = 70
SEVERITY: Final = "warning"


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each result on `page` with a saving above its upper bound."""
    for row, arms in results.comparisons(page).items():
        for arm in treatments_of(arms):
            cell = arms[arm.name]
            if cell.bound is not None and cell.beats_bound:
                sentence = excess_sentence(results.factors.name(row), baseline_of(arms), cell)
                figures = {"saved_percent": cell.improvement_percent, "bound_percent": cell.bound.percent}
                yield Finding("beyond_bound", sentence, figures)
