"""Find the facts to report about a run, with one module for each kind of finding.

Every module of this package is loaded. A module defines a function `findings`, which yields the findings of a
page, and the SEVERITY of all these findings. Reports list findings in order of the modules' RANK. The
terminal, HTML, Markdown and JSON reports share the findings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

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


@cache
def finders() -> Sequence[ModuleType]:
    """Return the modules that find the facts to report, in the order in which reports list the facts."""
    names = (path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    found = [import_module(f"{__name__}.{name}") for name in names]
    return sorted(found, key=lambda module: int(module.RANK))


def page_findings(results: Results, page: str, severity: Severity | None = None) -> Iterator[Finding]:
    """Yield the findings of a page in the order of reports; only those of `severity` if it is given."""
    for module in finders():
        if severity in (None, module.SEVERITY):
            for finding in module.findings(results, page):
                yield replace(finding, severity=module.SEVERITY, subject=page)
