"""Read experiments from TOML files or options, and plan the jobs of their runs."""

from fastopen.contract import EngineName
from fastopen.experiments.arms import (
    ARMS,
    BASELINE,
    CONTROL,
    HEADLINE,
    Arm,
    ArmName,
    Role,
    baseline_of,
    compared,
    headline_of,
    treatments_of,
)
from fastopen.experiments.cells import Cell, Comparison, VaryingFactors, point_of, varying_factors
from fastopen.experiments.client_settings import KINDS, requested_urls
from fastopen.experiments.estimate import Pace, estimated_s, slowed_down
from fastopen.experiments.factor_values import (
    COMMAND_LINE,
    Combine,
    SettingSource,
    networks_asked,
    read_settings,
    setups_asked,
    unknown,
    with_changes,
)
from fastopen.experiments.factors import ASKED, FACTORS, SESSION_WORDS, DesignPoint, Factor, of_part
from fastopen.experiments.files import load_experiment, load_rigs, packaged_experiments, read_experiment
from fastopen.experiments.model import AskedEngine, Experiment, Setup, SmallestEffect, default_queue_bytes
from fastopen.experiments.named_networks import (
    NAMED_NETWORKS,
    RATES_BY_DEFAULT,
    all_named,
    name_of,
)
from fastopen.experiments.plan import (
    Plan,
    PlannedJob,
    default_draws,
    draw_of,
    exact_rows,
    loaded_with,
    make_plan,
    repeats_of,
    repeats_to_the_byte,
    with_drawn_seed,
    without_chance,
)
from fastopen.experiments.published import PublishedCell, published_cells
from fastopen.experiments.recorded import as_recorded, http_words
from fastopen.experiments.shard import Shard
from fastopen.experiments.sweep import clients_of, setups_of, with_clients
from fastopen.experiments.variation import DRAWS, UNKNOWNS, Variation, derive_seed
