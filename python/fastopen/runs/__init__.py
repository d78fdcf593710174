"""Runs: executed experiments. One SQLite file holds what was asked, where it ran, and every load."""

from fastopen.runs.environment import describe_environment
from fastopen.runs.execute import RunOutcome, RunProgress, execute
from fastopen.runs.rows import LoadRow, WorldRow
from fastopen.runs.store import ATTEMPTS, RunStore

__all__ = [
    "ATTEMPTS",
    "LoadRow",
    "RunOutcome",
    "RunProgress",
    "RunStore",
    "WorldRow",
    "describe_environment",
    "execute",
]
