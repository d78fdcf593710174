"""Report browser page loads that lack the requested screenshot."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.common.phrases import plural
from fastopen.report.findings import Finding

RANK: Final = 84
SEVERITY: Final = "warning"


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding if loads of `page` lack a screenshot."""
    missing = [reason for one in results.metrics_of(page) for reason in one.missing_screenshots]
    if missing:
        words = plural(len(missing), "load has", "loads have")
        yield Finding("screenshots_missing", f"{words} no screenshot: {missing[0]}.", {"loads": len(missing)})
