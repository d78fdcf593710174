"""Report clients that did not request all resources that the load event waits for."""

from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results
from fastopen.experiments import asked_for
from fastopen.report.model import Finding

RANK: Final = 81
SEVERITY: Final = "detail"


def findings(results: Results, page: str) -> Iterator[Finding]:
    wanted = len(asked_for(results.pages[page]))
    least: dict[str, float] = {}
    for result in results.cells:
        client = results.experiment.setups[result.cell.setup].client
        partial = result.cell.page == page and not client.type.loads_everything
        if partial and result.requests is not None:
            least[client.label] = min(result.requests, least.get(client.label, result.requests))
    for name, requests in least.items():
        if requests < wanted:
            sentence = (
                f"{name} requested {requests:g} of the {wanted} resources that the load event waits for."
            )
            yield Finding("requests_missing", sentence, {"requests": requests, "resources": wanted})
