"""Find the facts to report about a run. The terminal, HTML, Markdown and JSON reports share the findings.

Every module of this package is loaded. Its functions with the decorator `finds` yield the findings of a page.
All findings of a function have the same severity. Reports list findings in order of the functions' ranks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal

from fastopen.analysis.statistics import Results
from fastopen.common.grid import Value

Severity = Literal["answer", "note", "warning", "detail"]
"""`answer`: answers the reader's question; `note`: explains the answer; `warning`: casts doubt on the answer;
`detail`: everything else."""


@dataclass(frozen=True)
class Finding:
    """A fact about a run or a page, as a sentence for readers and as exact figures."""

    kind: str
    """The kind of fact, for programs and tests. It does not change if the sentence is reworded."""
    sentence: str
    figures: Mapping[str, Value] = field(default_factory=dict)
    """The figures in the sentence, not rounded. Their names include the unit, such as `saved_percent`."""
    severity: Severity = "note"
    subject: str = ""
    """The name of the page; empty for the whole run."""


Find = Callable[[Results, str], Iterator[Finding]]
Finder = tuple[int, Severity, Find]
"""The rank and severity given to the decorator `finds`, and the decorated function, which yields findings."""
_FINDERS: Final[list[Finder]] = []


def finds(rank: int, severity: Severity) -> Callable[[Find], Find]:
    """Register a function that yields the findings of a page. `rank` must differ from all other ranks."""

    def register(find: Find) -> Find:
        _FINDERS.append((rank, severity, find))
        return find

    return register


@cache
def finders() -> list[Finder]:
    """Return the functions that find the facts to report, in the order in which reports list the facts."""
    for path in Path(__file__).parent.glob("[!_]*.py"):
        import_module(f"{__name__}.{path.stem}")
    return sorted(_FINDERS, key=itemgetter(0))


def page_findings(results: Results, page: str, severity: Severity | None = None) -> Iterator[Finding]:
    """Yield the findings of a page in the order of reports; only those of `severity` if it is given."""
    for _, of_finder, find in finders():
        if severity in (None, of_finder):
            for finding in find(results, page):
                yield replace(finding, severity=of_finder, subject=page)
