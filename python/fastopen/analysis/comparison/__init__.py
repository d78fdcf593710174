"""Compare two runs: match their cells, and find the changes of each cell and of its critical path."""

from fastopen.analysis.comparison.cells import CellChange, Outcome
from fastopen.analysis.comparison.change import Basis, Change
from fastopen.analysis.comparison.compare import RunComparison, compare_runs
from fastopen.analysis.comparison.limits import Limit, LimitCheck, LimitVerdict, checks_of, parse_limit
from fastopen.analysis.comparison.side import Side, read_side, side_of
