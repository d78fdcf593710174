"""Experiments: what to load over which networks and how often, from TOML files to the jobs of a run."""

from fastopen.experiments.files import load_experiment, packaged_experiments, read_experiment
from fastopen.experiments.model import ARMS, Arm, Experiment, PublishedTable, default_queue_bytes
from fastopen.experiments.plan import Cell, Plan, PlannedJob, derive_seed, make_plan
from fastopen.experiments.published import PublishedCell, published_cells
from fastopen.experiments.trace import read_trace

__all__ = [
    "ARMS",
    "Arm",
    "Cell",
    "Experiment",
    "Plan",
    "PlannedJob",
    "PublishedCell",
    "PublishedTable",
    "default_queue_bytes",
    "derive_seed",
    "load_experiment",
    "make_plan",
    "packaged_experiments",
    "published_cells",
    "read_experiment",
    "read_trace",
]
