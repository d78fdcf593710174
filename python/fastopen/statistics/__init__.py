"""Statistics: from the loads of a run to what can be said of each cell."""

from fastopen.statistics.bootstrap import median_interval
from fastopen.statistics.cells import CellResult, Reason, summarise
from fastopen.statistics.results import Results, collect

__all__ = ["CellResult", "Reason", "Results", "collect", "median_interval", "summarise"]
