"""Compare two runs: match their results, and find the changes of page load times and critical paths."""

from fastopen.analysis.comparison.change import Basis, Change
from fastopen.analysis.comparison.compare import CellChange, Outcome, RunComparison, compare_runs
from fastopen.analysis.comparison.limits import LimitCheck, LimitVerdict, checks_of, parse_limit
from fastopen.analysis.comparison.matching import Side, read_side, side_of
