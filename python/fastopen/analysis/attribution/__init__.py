"""Explain page load times: the waits on the critical path, the saving by TCP Fast Open, and slow loads."""

from fastopen.analysis.attribution.answers import Answer, page_answers, run_answers
from fastopen.analysis.attribution.breakdown import Attribution, Breakdown, Shown, attribute
from fastopen.analysis.attribution.critical_path import critical_path
from fastopen.analysis.attribution.curves import Curve, Place, axis_of, curves_of
from fastopen.analysis.attribution.excess import excess_sentence
from fastopen.analysis.attribution.segments import CriticalPath, Kind, PieceChange, changed_pieces
from fastopen.analysis.attribution.slower import (
    reason_between,
    request_name,
    setups_slower,
    where_slower,
    with_reasons,
)
from fastopen.analysis.attribution.source import Source, read_source
from fastopen.pages.describe import registrable_domain, third_parties
