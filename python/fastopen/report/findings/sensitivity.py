"""Report the sampled input (`--vary`) on which the saving by TFO depends most."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Effect, Results, effect_of, sensitivity
from fastopen.experiments import UNKNOWNS, headline_of
from fastopen.report.findings import Finding
from fastopen.report.findings.verdict import ROWS_IN_WORDS, at_rows

RANK: Final = 80
SEVERITY: Final = "detail"


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding that names the sampled input on which the saving depends most, if there is any."""
    of_unknown: dict[str, list[str]] = defaultdict(list)
    rows = results.comparisons(page)
    for row, cells in rows.items():
        headline = headline_of(cells)
        found = None if headline is None else sensitivity(results.experiment, headline)
        if headline is None or found is None or found.most is None:
            continue
        if effect_of(headline, results.experiment.smallest_effect) is not Effect.NONE:
            of_unknown[UNKNOWNS[found.most]].append(results.factors.name(row))
    if of_unknown:
        many = sum(map(len, of_unknown.values())) > ROWS_IN_WORDS
        preposition = results.factors.preposition
        named = (
            f"on {words} {f'in {len(names)} of {len(rows)} rows' if many else at_rows(preposition, names)}"
            for words, names in of_unknown.items()
        )
        yield Finding("sensitivity", f"Of the sampled inputs, the saving depends most {'; '.join(named)}.")
