"""Define findings as data that the terminal, HTML, Markdown and JSON share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fastopen.common.grid import Value

Severity = Literal["answer", "note", "warning", "detail"]
"""`answer`: answers the reader's question; `note`: explains the answer; `warning`: casts doubt on the answer;
`detail`: everything else."""


@dataclass(frozen=True)
class Finding:
    """A fact that a run shows, with the sentence that states it."""

    kind: str
    """A name for programs and tests, which stays the same if the sentence is reworded."""
    sentence: str
    figures: Mapping[str, Value] = field(default_factory=dict)
    """The figures in the sentence, not rounded, by a name that includes the unit."""
    severity: Severity = "note"
    subject: str = ""
    """The name of the page; empty for the whole run."""
