"""Statistics: from the loads of a run to the figures of each cell."""

from fastopen.statistics.bootstrap import CONFIDENCE, FULL_MIN, VALUES_MIN, change_interval, median_interval
from fastopen.statistics.bound import BEYOND_BOUND, BEYOND_BOUND_NOTE, Bound
from fastopen.statistics.browser_metrics import BrowserMetrics
from fastopen.statistics.cells import CellResult, Reason, central, summarise
from fastopen.statistics.corpus import PROPERTIES, Correlation, Distribution
from fastopen.statistics.deciding import Deciding, deciding_factor
from fastopen.statistics.first_flight import FirstFlight, syn_data_max
from fastopen.statistics.flight_savings import FlightSaving
from fastopen.statistics.judgement import (
    Effect,
    Verdict,
    effect_of,
    saves_in_the_median,
    slower_in_the_median,
    verdict_on,
)
from fastopen.statistics.listeners import ListenerUse, ServerUse
from fastopen.statistics.payoff import DROPPING_SHARE, DROPPING_SOURCE, Payoff, by_cost, payoffs
from fastopen.statistics.precision import half_width_percent, pairs_needed
from fastopen.statistics.published import AGREE_POINTS, Discrepancy, Label, discrepancies, slopes
from fastopen.statistics.results import Results, collect
from fastopen.statistics.sensitivity import Sensitivity, sensitivity
from fastopen.statistics.until import UntilInterval

__all__ = [
    "AGREE_POINTS",
    "BEYOND_BOUND",
    "BEYOND_BOUND_NOTE",
    "CONFIDENCE",
    "DROPPING_SHARE",
    "DROPPING_SOURCE",
    "FULL_MIN",
    "PROPERTIES",
    "VALUES_MIN",
    "Bound",
    "BrowserMetrics",
    "CellResult",
    "Correlation",
    "Deciding",
    "Discrepancy",
    "Distribution",
    "Effect",
    "FirstFlight",
    "FlightSaving",
    "Label",
    "ListenerUse",
    "Payoff",
    "Reason",
    "Results",
    "Sensitivity",
    "ServerUse",
    "UntilInterval",
    "Verdict",
    "by_cost",
    "central",
    "change_interval",
    "collect",
    "deciding_factor",
    "discrepancies",
    "effect_of",
    "half_width_percent",
    "median_interval",
    "pairs_needed",
    "payoffs",
    "saves_in_the_median",
    "sensitivity",
    "slopes",
    "slower_in_the_median",
    "summarise",
    "syn_data_max",
    "verdict_on",
]
