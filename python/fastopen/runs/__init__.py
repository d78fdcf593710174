"""Execute, resume, merge, list and export runs. Each run is one SQLite file."""

from fastopen.runs.database import holds_run
from fastopen.runs.execute import RunOutcome, RunProgress, TimeLimit, execute
from fastopen.runs.facts import NOTHING_ELSE, Watched, describe_environment
from fastopen.runs.folders import (
    LAST,
    RunSummary,
    find_run,
    list_runs,
    new_run_folder,
    remove_run,
    run_argument,
    run_folders,
    runs_folder,
    summary_of,
)
from fastopen.runs.merge import merge
from fastopen.runs.reader import RunReader
from fastopen.runs.resume import check_same, stored_plan
from fastopen.runs.rows import ORDERS, Listing, LoadRow
from fastopen.runs.store import RunStore
