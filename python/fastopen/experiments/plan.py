"""From an experiment to cells and jobs: what is compared, in which order it is loaded, from which seeds.

A job is one world: one page over one network once, with every arm in it, so that the arms of a repeat are
paired. The arms are shuffled within a job, and the jobs within a repeat. Shuffling is
sorting by a hash of the seed, so that the order is the same for ever, whatever version of Python runs it.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ValidationError

from fastopen import units
from fastopen.contract import CONTRACT, Job, Network
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.experiments.model import ARMS, Arm, Experiment
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.pages import Page
from fastopen.validation import input_error

Engine = Literal["host", "virtual"]
LOAD_TIMEOUT_MIN_US: Final = 120_000_000
# A load may take this many times as long as its bytes need on an idle link before it counts as hung.
TRANSFER_SLACK: Final = 4


@dataclass(frozen=True)
class Cell:
    """Page x network x arm x client x engine. `network` is an index into the experiment's networks."""

    index: int
    page: str
    network: int
    arm: Arm
    client: str
    engine: Engine


@dataclass(frozen=True)
class PlannedJob:
    """A job and where it belongs. `cells` maps the id of each of its loads to the index of its cell."""

    job: Job
    page: str
    network: int
    repeat: int
    cells: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """Everything that a run of the experiment will do."""

    experiment: Experiment
    pages: tuple[Page, ...]
    cells: tuple[Cell, ...]
    jobs: tuple[PlannedJob, ...]


def derive_seed(seed: int, *parts: str | int) -> int:
    """A seed of its own (0 to 2^63 - 1) for each use, from the experiment's one."""
    digest = hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def make_plan(experiment: Experiment, pages: Sequence[Page], engine: Engine = "host") -> Plan:
    """Cells in the order of tables, jobs in the order in which they run. Raises InputError."""
    named = _with_unique_names(pages)
    arms = [ARMS[name] for name in experiment.arms]
    cells: list[Cell] = []
    jobs: list[PlannedJob] = []
    labels = _network_labels(experiment.networks)
    for page in named:
        for number, network in enumerate(experiment.networks):
            first = len(cells)
            cells += (
                Cell(first + offset, page.name, number, arm, experiment.client.kind, engine)
                for offset, arm in enumerate(arms)
            )
            of_load = {arm.load().id: first + offset for offset, arm in enumerate(arms)}
            timeout_us = load_timeout_us(page, network)
            for repeat in range(experiment.repeats):
                identity = f"{page.name}@{labels[number]}#{repeat}"
                try:
                    job = _job(experiment, page, network, identity, arms, timeout_us)
                except ValidationError as error:
                    raise input_error(error, f"page {page.name}") from None
                jobs.append(PlannedJob(job, page.name, number, repeat, of_load))
    jobs.sort(key=lambda planned: (planned.repeat, derive_seed(experiment.seed, "job order", planned.job.id)))
    return Plan(experiment, named, tuple(cells), tuple(jobs))


def _job(
    experiment: Experiment, page: Page, network: Network, identity: str, arms: Sequence[Arm], timeout_us: int
) -> Job:
    seed = experiment.seed
    # A network is the same for all pages of an experiment; a job names the hosts of its own page alone.
    hosts = set(page.hosts())
    extra = {host: rtt for host, rtt in network.host_extra_rtt_us.items() if host in hosts}
    loads = sorted(
        (arm.load() for arm in arms), key=lambda load: derive_seed(seed, "arms", identity, load.id)
    )
    return Job(
        contract=CONTRACT,
        id=identity,
        seed=derive_seed(seed, "world", identity),
        page=page,
        network=network.model_copy(update={"host_extra_rtt_us": extra}),
        tcp=experiment.tcp,
        client=experiment.client,
        origins=experiment.origins,
        loads=loads,
        tolerance=experiment.tolerance,
        load_timeout_us=timeout_us,
    )


def load_timeout_us(page: Page, network: Network) -> int:
    """How long one load may take: two minutes, more where the page's bytes need it, an hour at most."""
    received = page.body_bytes() + sum(r.response_header_bytes for r in page.resources)
    sent = page.wire_bytes() - received
    needed_s = 0.0
    for size, limit in ((received, network.down), (sent, network.up)):
        rate = limit.rate_bit_per_s
        if limit.trace_ms is not None:
            rate = mean_rate_bit_per_s(limit.trace_ms)
        if rate is not None:
            needed_s += size * 8 / rate
    return min(LOAD_TIMEOUT_MIN_US + int(TRANSFER_SLACK * needed_s * 1e6), LOAD_TIMEOUT_MAX_US)


def _network_labels(networks: Sequence[Network]) -> list[str]:
    """The RTT where that tells the networks apart, else with a number."""
    labels = [units.format_duration_us(network.rtt_us) for network in networks]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label}~{number}" for number, label in enumerate(labels)]


def _with_unique_names(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Two pages of one name would share cells: later ones get a number."""
    taken: set[str] = set()
    named: list[Page] = []
    for page in pages:
        name, number = page.name, 1
        while name in taken:
            number += 1
            name = f"{page.name} ({number})"
        taken.add(name)
        named.append(page if name == page.name else page.model_copy(update={"name": name}))
    return tuple(named)
