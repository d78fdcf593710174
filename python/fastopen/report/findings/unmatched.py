"""Report requests for resources that are not in the recording."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.common.phrases import plural
from fastopen.report.findings import Finding

RANK: Final = 85
SEVERITY: Final = "detail"


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding if loads of `page` requested resources that are not in the recording."""
    requests = list(dict.fromkeys(one for found in results.metrics_of(page) for one in found.unmatched))
    if requests:
        words = plural(len(requests), "request was", "requests were")
        sentence = (
            f"{words} for resources outside the recording (unmatched in loads), first {requests[0][:120]}"
        )
        yield Finding("unmatched_requests", sentence, {"requests": len(requests)})
