"""Report the sampled value that affects the saving most."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from fastopen.analysis.statistics import Results, sensitivity
from fastopen.experiments import UNKNOWNS, headline_of
from fastopen.report.findings.verdict import ROWS_IN_WORDS, at_rows
from fastopen.report.model import Finding

RANK: Final = 80
SEVERITY: Final = "detail"
NO_UNKNOWN: Final = "no single unknown"


def findings(results: Results, page: str) -> Iterator[Finding]:
    of_unknown: dict[str, list[str]] = defaultdict(list)
    for row, cells in results.comparisons(page).items():
        headline = headline_of(cells)
        found = None if headline is None else sensitivity(results.experiment, headline)
        if headline is not None and found is not None:
            words = NO_UNKNOWN if found.most is None else UNKNOWNS[found.most]
            of_unknown[words].append(results.factors.name(row))
    # Usually no value stands out, so rows without such a value are mentioned only if another row has one.
    if of_unknown.keys() - {NO_UNKNOWN}:
        total = sum(map(len, of_unknown.values()))
        many = total > ROWS_IN_WORDS
        word = results.factors.word
        named = (
            f"{words} {f'in {len(rows)} of {total} rows' if many else at_rows(word, rows)}"
            for words, rows in of_unknown.items()
        )
        yield Finding("sensitivity", f"What moves the saving most: {'; '.join(named)}.")
