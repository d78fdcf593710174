"""Define the findings of an audit of published results, and the kinds of faults that it finds."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from fastopen.analysis.audit.table import PrintedCell

Kind = Literal[
    "improvement", "rounding", "sign", "swapped_columns", "units", "monotony", "growth", "slope", "bound",
    "below_rtt", "below_rate", "duplicate",
]  # fmt: skip

# The meaning of each kind, as printed for users. docs/audit.md gives the reasons.
MEANING: Final[dict[Kind, str]] = {
    "improvement": "the printed improvement contradicts the cell's own two times",
    "rounding": "the printed improvement is the cell's own, but rounded wrongly",
    "sign": "a slowdown is printed as a gain, or a gain as a slowdown",
    "swapped_columns": "the printed improvement is right if the two times change places",
    "units": "the printed unit of the times is wrong",
    "monotony": "the page loads sooner over a longer RTT",
    "growth": "the time grows more than 1.5 times as fast as the RTT",
    "slope": "the growth per ms of RTT falls by more than half in one of the two times only",
    "bound": "the saving exceeds the time that handshakes can have taken",
    "below_rtt": "the page loads sooner than its first bytes can arrive",
    "below_rate": "the page loads sooner than its bytes can arrive at this rate",
    "duplicate": "the same cell appears twice, with different times",
}

# Kinds that question a row without calling it a fault, because real loads can have such times.
QUESTIONS: Final[frozenset[Kind]] = frozenset({"slope"})


@dataclass(frozen=True)
class AuditFinding:
    """A fault in one row (`cell`) of a published table, or a doubt about the row. `kind` is a key of MEANING,
    such as `monotony`: the page loads sooner over a longer RTT. `detail`: the fault with its figures."""

    cell: PrintedCell
    kind: Kind
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding with the keys that docs/json.md lists."""
        rtt = self.cell.rtt_ms
        return {
            "experiment": self.cell.experiment,
            "page": self.cell.page,
            "rtt_ms": int(rtt) if rtt == int(rtt) else float(rtt),
            "kind": self.kind,
            "detail": self.detail,
        }
