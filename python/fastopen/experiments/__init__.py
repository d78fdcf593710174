"""Experiments: what to load over which networks and how often, from TOML files to the jobs of a run."""

from fastopen.experiments.axes import RTT, Axes, Axis, Point, axes_of
from fastopen.experiments.clients import KINDS, asked_for
from fastopen.experiments.estimate import estimated_s
from fastopen.experiments.files import load_experiment, packaged_experiments, read_experiment
from fastopen.experiments.model import (
    ARMS,
    Arm,
    ArmName,
    AskedEngine,
    EngineName,
    Experiment,
    PublishedTable,
    Setup,
    default_queue_bytes,
)
from fastopen.experiments.plan import (
    Cell,
    Comparison,
    Plan,
    PlannedJob,
    derive_seed,
    make_plan,
    repeats_of,
    without_chance,
)
from fastopen.experiments.published import PublishedCell, published_cells
from fastopen.experiments.sweep import (
    AskedNetworks,
    Combine,
    Link,
    clients_of,
    multiplied,
    networks_of,
    setups_of,
    tls_settings,
    with_clients,
)
from fastopen.experiments.trace import read_trace
from fastopen.experiments.transports import TRANSPORT_WORDS, arms_and_tls

__all__ = [
    "ARMS",
    "KINDS",
    "RTT",
    "TRANSPORT_WORDS",
    "Arm",
    "ArmName",
    "AskedEngine",
    "AskedNetworks",
    "Axes",
    "Axis",
    "Cell",
    "Combine",
    "Comparison",
    "EngineName",
    "Experiment",
    "Link",
    "Plan",
    "PlannedJob",
    "Point",
    "PublishedCell",
    "PublishedTable",
    "Setup",
    "arms_and_tls",
    "asked_for",
    "axes_of",
    "clients_of",
    "default_queue_bytes",
    "derive_seed",
    "estimated_s",
    "load_experiment",
    "make_plan",
    "multiplied",
    "networks_of",
    "packaged_experiments",
    "published_cells",
    "read_experiment",
    "read_trace",
    "repeats_of",
    "setups_of",
    "tls_settings",
    "with_clients",
    "without_chance",
]
