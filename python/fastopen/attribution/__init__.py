"""Attribution: where the time of a load went, what TCP Fast Open could save of it, and what that means."""

from fastopen.attribution.answers import Answer, page_answers, run_answers
from fastopen.attribution.breakdown import Attribution, Breakdown, Shown, attribute
from fastopen.attribution.critical_path import critical_path
from fastopen.attribution.curves import Curve, Place, axis_of, curves_of, position
from fastopen.attribution.excess import excess_sentence
from fastopen.attribution.pieces import PieceChange, changed_pieces
from fastopen.attribution.segments import CriticalPath, Kind
from fastopen.attribution.slower import (
    Reasons,
    reason_between,
    reasons_slower,
    request_name,
    setups_slower,
    where_slower,
)
from fastopen.attribution.source import Source, read_source
from fastopen.pages.domains import registrable_domain, third_parties

__all__ = [
    "Answer",
    "Attribution",
    "Breakdown",
    "CriticalPath",
    "Curve",
    "Kind",
    "PieceChange",
    "Place",
    "Reasons",
    "Shown",
    "Source",
    "attribute",
    "axis_of",
    "changed_pieces",
    "critical_path",
    "curves_of",
    "excess_sentence",
    "page_answers",
    "position",
    "read_source",
    "reason_between",
    "reasons_slower",
    "registrable_domain",
    "request_name",
    "run_answers",
    "setups_slower",
    "third_parties",
    "where_slower",
]
