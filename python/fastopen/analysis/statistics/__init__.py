"""Compute the results of a run: figures for each cell, and statistics over the cells and pages."""

from fastopen.analysis.statistics.bound import BEYOND_BOUND, BEYOND_BOUND_NOTE, Bound
from fastopen.analysis.statistics.browser_metrics import BrowserMetrics
from fastopen.analysis.statistics.cells import CellResult, Reason, range_of_samples, summarise
from fastopen.analysis.statistics.certificate_sizes import SizeLevel, levels, round_trips_of_sizes
from fastopen.analysis.statistics.corpus import PROPERTIES, Correlation, Distribution
from fastopen.analysis.statistics.deciding import deciding_factor, sensitivity
from fastopen.analysis.statistics.first_flight import HELLO_BEYOND_SYN, FirstFlight, syn_data_max
from fastopen.analysis.statistics.flight_savings import FlightSaving
from fastopen.analysis.statistics.intervals import FULL_MIN, change_interval, confidence_of, median_interval
from fastopen.analysis.statistics.listeners import ServerUse
from fastopen.analysis.statistics.payoff import DROPPING_SHARE, DROPPING_SOURCE, Payoff, by_cost, payoffs
from fastopen.analysis.statistics.precision import UntilInterval, half_width_percent, pairs_needed
from fastopen.analysis.statistics.published import AGREE_POINTS, Discrepancy, Label, discrepancies, slopes
from fastopen.analysis.statistics.results import Results, collect
from fastopen.analysis.statistics.verdicts import (
    Effect,
    Verdict,
    certain_sign,
    effect_of,
    slower_in_the_median,
    verdict_on,
)
