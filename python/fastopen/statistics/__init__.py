"""Statistics: from the loads of a run to what can be said of each cell."""

from fastopen.statistics.bootstrap import median_interval, median_intervals
from fastopen.statistics.browsed import Browsed
from fastopen.statistics.cells import CellResult, Reason, summarise
from fastopen.statistics.outliers import Outlier
from fastopen.statistics.parting import Growth, Mark, Parting, growths, partings
from fastopen.statistics.precision import half_width_percent, more_pairs, pairs_needed
from fastopen.statistics.results import Results, collect
from fastopen.statistics.until import UntilInterval

__all__ = [
    "Browsed",
    "CellResult",
    "Growth",
    "Mark",
    "Outlier",
    "Parting",
    "Reason",
    "Results",
    "UntilInterval",
    "collect",
    "growths",
    "half_width_percent",
    "median_interval",
    "median_intervals",
    "more_pairs",
    "pairs_needed",
    "partings",
    "summarise",
]
