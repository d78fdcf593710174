"""Execute, resume, merge, list and export runs. Each run is one SQLite file."""

from fastopen.runs.database import holds_run
from fastopen.runs.environment import describe_environment
from fastopen.runs.execute import NOTHING_ELSE, RunOutcome, RunProgress, Watched, execute
from fastopen.runs.folders import (
    LAST,
    RunSummary,
    find_run,
    list_runs,
    new_run_folder,
    remove_run,
    run_folders,
    runs_folder,
    summary_of,
)
from fastopen.runs.listing import ORDERS, Listing, Order
from fastopen.runs.merge import Merged, merge
from fastopen.runs.reader import RunReader
from fastopen.runs.resume import check_same, stored_plan
from fastopen.runs.rows import LoadRow
from fastopen.runs.store import RunStore
from fastopen.runs.time_limit import TimeLimit
