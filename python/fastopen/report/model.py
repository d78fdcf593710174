"""A finding as data, which terminal, HTML, Markdown and JSON each render."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fastopen.common.grid import Value

Severity = Literal["answer", "note", "warning", "detail"]
"""`answer`: of the reader's question; `note`: explains it; `warning`: casts doubt on it; `detail`: others."""


@dataclass(frozen=True)
class Finding:
    """One thing that a run shows, with the sentence that states it."""

    kind: str
    """For programs and tests: it stays when the sentence is improved."""
    sentence: str
    figures: Mapping[str, Value] = field(default_factory=dict)
    """The figures of the sentence, not rounded, by name with their unit."""
    severity: Severity = "note"
    subject: str = ""
    """The page; empty: the whole run."""
