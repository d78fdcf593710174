"""Explain page load times: the waits on the critical path, the saving by TCP Fast Open, and slow loads."""

from fastopen.analysis.attribution.answers import excess_sentence, page_answers, run_answers
from fastopen.analysis.attribution.breakdown import Attribution, Breakdown, Shown, attribute
from fastopen.analysis.attribution.critical_path import (
    CriticalPath,
    Kind,
    PieceChange,
    changed_pieces,
    critical_path,
)
from fastopen.analysis.attribution.curves import Place, RunAnalysis, analyse_run, axis_of, curves_of
from fastopen.analysis.attribution.slower import (
    place_and_reason,
    reason_between,
    request_label,
    request_name,
    slower_setup_sentences,
    with_reasons,
)
