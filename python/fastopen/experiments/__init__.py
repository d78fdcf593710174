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
from fastopen.experiments.document import load_experiment, packaged_experiments, read_experiment
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
from fastopen.experiments.model import AskedEngine, Experiment, Setup, SmallestEffect, default_queue_bytes
from fastopen.experiments.named_networks import NAMED_NETWORKS, RATES_BY_DEFAULT, all_named, name_of
from fastopen.experiments.plan import (
    Plan,
    PlannedJob,
    Shard,
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
from fastopen.experiments.rigs import load_rigs
from fastopen.experiments.setups import (
    KINDS,
    as_recorded,
    clients_of,
    http_words,
    requested_urls,
    setups_of,
    with_clients,
)
from fastopen.experiments.variation import DRAWS, UNKNOWNS, Variation, derive_seed
