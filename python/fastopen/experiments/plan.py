"""Turn an experiment into cells and jobs, with the order and the seed of each job.

A job is one world: one page over one network in one setup with every arm, so that the arms of a repeat are
paired. The arms are shuffled within a job, and the jobs within a repeat. Shuffling sorts by a hash of the
seed and the id of the job or load, which is the same in all versions of Python. Engines run one after
another, so that nothing else runs during loads in real time.

In virtual time without random factors, one repeat is enough, and its arms keep the order of the experiment.
The seed then has no effect on results. With uncertain values (`vary`), the seed decides each repeat's sample.
"""

import secrets
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from pydantic import ValidationError

from fastopen.common.errors import InputError
from fastopen.common.pydantic_errors import input_error
from fastopen.contract import CONTRACT, Client, EngineName, Job, LoadSpec, Network, Origins, Tls
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.experiments.arms import Arm
from fastopen.experiments.client_settings import filled_in
from fastopen.experiments.factors import FACTORS, Point
from fastopen.experiments.model import Experiment
from fastopen.experiments.recorded import as_recorded
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.experiments.variation import DRAWS, DRAWS_AT_LEAST, LOADS_OF_DRAWS, Draw, derive_seed, draw
from fastopen.experiments.varying import network_labels, setup_labels
from fastopen.pages import Page

LOADS_MAX: Final = 1_000_000
LOAD_TIMEOUT_MIN_US: Final = 120_000_000
# The time limit of a load is LOAD_TIMEOUT_MIN_US plus this multiple of its transfer time on an idle link.
TRANSFER_SLACK: Final = 4


@dataclass(frozen=True)
class Comparison:
    """Cells that differ only in their arm: they are loaded together and compared with each other."""

    page: str
    network: int
    setup: int
    engine: EngineName


@dataclass(frozen=True)
class Cell:
    """Page, network, setup, arm and engine. `network` and `setup` are indices into the experiment's lists."""

    index: int
    page: str
    network: int
    setup: int
    arm: Arm
    engine: EngineName

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.page, self.network, self.setup, self.engine)


@dataclass(frozen=True)
class PlannedJob:
    """A job and its place in the plan. `cells` maps the id of each load to the index of its cell."""

    job: Job
    comparison: Comparison
    repeat: int
    cells: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """The pages, cells and jobs of a run."""

    experiment: Experiment
    pages: tuple[Page, ...]
    cells: tuple[Cell, ...]
    jobs: tuple[PlannedJob, ...]
    """Jobs in the order in which they run: engine after engine."""

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """Return the engines in the order in which they run."""
        return tuple(dict.fromkeys(cell.engine for cell in self.cells))

    def loads(self) -> int:
        return sum(len(planned.job.loads) for planned in self.jobs)


def without_chance(experiment: Experiment, comparison: Comparison) -> bool:
    """Return True if a load has the same result each time: in virtual time, if nothing is random."""
    if comparison.engine != "virtual":
        return False
    setup = experiment.setups[comparison.setup]
    point = Point(experiment.networks[comparison.network], setup, comparison.engine)
    random = any(
        factor.chance(value)
        for factor in FACTORS
        if factor.chance and factor.applies(point)
        for value in factor.values(point)
    )
    return not random and setup.client.type.deterministic


def repeats_to_the_byte(experiment: Experiment, at: Comparison | Cell) -> bool:
    """Return True if a job always gives the same records: in virtual time with a deterministic client."""
    return at.engine == "virtual" and experiment.setups[at.setup].client.type.deterministic


def with_drawn_seed(experiment: Experiment, auto: EngineName) -> Experiment:
    """Return the experiment, with a random seed if any load is random. `auto` replaces the word `auto`."""
    if all(exact(experiment, auto)):
        return experiment
    return experiment.model_copy(update={"seed": secrets.randbits(31)})


def exact(experiment: Experiment, auto: EngineName) -> list[bool]:
    """Return a flag for each combination of network, setup and engine: True if its loads have the same result
    each time. `auto` is the engine that replaces the word `auto`."""
    engines: set[EngineName] = {auto if name == "auto" else name for name in experiment.engines}
    indices = product(range(len(experiment.networks)), range(len(experiment.setups)), engines)
    return [without_chance(experiment, Comparison("", *index)) for index in indices]


def default_draws(experiment: Experiment, pages: int, auto: EngineName) -> int:
    """Return the default number of samples for a report: fewer for a large sweep."""
    loads_of_a_draw = pages * len(exact(experiment, auto)) * len(experiment.arms)
    return min(DRAWS, max(DRAWS_AT_LEAST, LOADS_OF_DRAWS // max(loads_of_a_draw, 1)))


def repeats_of(experiment: Experiment, comparison: Comparison) -> int:
    """Return the number of repeats of a comparison: as requested, but 1 if all would have the same result."""
    once = experiment.vary is None and without_chance(experiment, comparison)
    return 1 if once else experiment.repeats


def draw_of(experiment: Experiment, comparison: Comparison, repeat: int) -> Draw | None:
    """Return the sample of a repeat; None if the experiment does not vary values."""
    return draw(experiment.vary, experiment.seed, comparison.engine, repeat)


def loaded_with(experiment: Experiment, cell: Cell, repeat: int) -> tuple[Network, Client]:
    """Return network and client of a cell's loads, with the values that this repeat samples."""
    network, client = experiment.networks[cell.network], experiment.setups[cell.setup].client
    drawn = draw_of(experiment, cell.comparison, repeat)
    return (network, client) if drawn is None else (drawn.network(network), drawn.client(client))


def make_plan(experiment: Experiment, pages: Sequence[Page], auto: EngineName = "host") -> Plan:
    """Return the plan of an experiment with these pages. `auto` is the engine that replaces the word `auto`.
    Raises InputError if a page or setting is invalid, or if there are too many loads."""
    named = _with_unique_names(pages)
    engines: list[EngineName] = [auto if name == "auto" else name for name in experiment.engines]
    engines = list(dict.fromkeys(engines))
    _check_size(experiment, len(named), engines)
    cells: list[Cell] = []
    jobs: list[PlannedJob] = []
    labels = _Labels(experiment, engines)
    for page, (network, setup, engine) in product(named, _rows(experiment, engines)):
        comparison = Comparison(page.name, network, setup, engine)
        arms = experiment.arms_of(setup)
        first = len(cells)
        cells += (
            Cell(first + offset, page.name, network, setup, arm, engine) for offset, arm in enumerate(arms)
        )
        of_load = {arm.load().id: first + offset for offset, arm in enumerate(arms)}
        try:
            usual = _job(experiment, page, comparison, labels)
            for repeat in range(repeats_of(experiment, comparison)):
                job = _repeated(experiment, usual, page, comparison, labels, repeat)
                jobs.append(PlannedJob(job, comparison, repeat, of_load))
        except ValidationError as error:
            raise input_error(error, f"page {page.name}") from None
    jobs.sort(key=lambda planned: _turn(experiment, engines, planned))
    return Plan(experiment, named, tuple(cells), tuple(jobs))


def _rows(experiment: Experiment, engines: Sequence[EngineName]) -> list[tuple[int, int, EngineName]]:
    """Return (network, setup, engine) for each row of a page's table. The RTT changes fastest."""
    besides_rtt = [network.model_copy(update={"rtt_us": 0}) for network in experiment.networks]
    rows = product(range(len(experiment.networks)), range(len(experiment.setups)), engines)

    def place(row: tuple[int, int, EngineName]) -> tuple[int, int, int, int]:
        network, setup, engine = row
        return (besides_rtt.index(besides_rtt[network]), setup, engines.index(engine), network)

    return sorted(rows, key=place)


def _turn(experiment: Experiment, engines: Sequence[EngineName], planned: PlannedJob) -> tuple[int, int, int]:
    """Return a key that sorts jobs by engine, then by repeat, and shuffles the jobs of a repeat."""
    shuffled = derive_seed(experiment.seed, "job order", planned.job.id)
    return (engines.index(planned.comparison.engine), planned.repeat, shuffled)


class _Labels:
    """Short and unique names of worlds and jobs. A world has the same name, and so the same seed, on each
    engine."""

    def __init__(self, experiment: Experiment, engines: Sequence[EngineName]) -> None:
        self._networks = network_labels(experiment)
        self._setups = setup_labels(experiment)
        self._several_engines = len(engines) > 1

    def world(self, comparison: Comparison, repeat: int) -> str:
        setup = self._setups[comparison.setup]
        where = self._networks[comparison.network] + (f",{setup}" if setup else "")
        return f"{comparison.page}@{where}#{repeat}"

    def job(self, comparison: Comparison, repeat: int) -> str:
        world = self.world(comparison, repeat)
        return f"{world}/{comparison.engine}" if self._several_engines else world


def _job(experiment: Experiment, page: Page, comparison: Comparison, labels: _Labels) -> Job:
    """Return the job of the first repeat without sampled values, as a template. Raises ValidationError."""
    network, setup = experiment.networks[comparison.network], experiment.setups[comparison.setup]
    # A network is the same for all pages of an experiment, but a job names only the hosts of its own page.
    hosts = set(page.hosts())
    extra = {host: rtt for host, rtt in network.host_extra_rtt_us.items() if host in hosts}
    named = network.path_hosts
    behind = None if named is None else [host for host in named if host in hosts]
    origins = as_recorded(setup, page, network)
    speak = {
        key: [host for host in getattr(origins, key) if host in hosts]
        for key in ("http2_hosts", "http3_hosts")
    }
    speak |= _served(origins, hosts)
    return Job(
        contract=CONTRACT,
        id=labels.job(comparison, 0),
        seed=derive_seed(experiment.seed, "world", labels.world(comparison, 0)),
        page=page.explained(page.explanation) if page.explanations else page,
        network=network.model_copy(update={"host_extra_rtt_us": extra, "path_hosts": behind}),
        tcp=setup.tcp,
        client=filled_in(setup.client, page, origins, setup.tls),
        origins=origins.model_copy(update=speak),
        tls=setup.tls or Tls(),
        loads=[arm.load() for arm in experiment.arms_of(comparison.setup)],
        tolerance=experiment.tolerance,
        load_timeout_us=load_timeout_us(page, network),
    )


def _served(origins: Origins, hosts: Set[str]) -> dict[str, Any]:
    """Return changes that restrict `server_hosts` to a page's hosts, or that remove the external server if it
    serves none of these hosts. Empty if the server serves all hosts or there is no server."""
    if origins.server_hosts is None:
        return {}
    served = [host for host in origins.server_hosts if host in hosts]
    keys = ("server", "server_hosts", "server_listen", "upstream_tfo", "upstream_rtt_us")
    usual = Origins()
    return {"server_hosts": served} if served else {key: getattr(usual, key) for key in keys}


def _repeated(
    experiment: Experiment, usual: Job, page: Page, comparison: Comparison, labels: _Labels, repeat: int
) -> Job:
    """Return a copy of `usual` with a repeat's seed, order and sample. Copying skips checking the page."""
    world = labels.world(comparison, repeat)
    changes: dict[str, Any] = {
        "id": labels.job(comparison, repeat),
        "seed": derive_seed(experiment.seed, "world", world),
        "loads": _shuffled(experiment, comparison, world, usual.loads),
    }
    if (drawn := draw_of(experiment, comparison, repeat)) is not None:
        changes |= {
            "page": drawn.page(page) if page.explanations else usual.page,
            "network": drawn.network(usual.network),
            "client": drawn.client(usual.client),
            "origins": drawn.origins(usual.origins),
            "start_phase_us": drawn.start_phase,
            "shuffle_equal_requests": drawn.order,
        }
    return usual.model_copy(update=changes)


def _shuffled(
    experiment: Experiment, comparison: Comparison, world: str, loads: Sequence[LoadSpec]
) -> list[LoadSpec]:
    """Return the loads in an order derived from the seed, or unchanged if their order has no effect."""
    if without_chance(experiment, comparison):
        return [*loads]
    return sorted(loads, key=lambda load: derive_seed(experiment.seed, "arms", world, load.id))


def _check_size(experiment: Experiment, pages: int, engines: Sequence[EngineName]) -> None:
    """Raise InputError for too many loads, which a small mistake in a sweep can cause."""
    indices = product(range(len(experiment.networks)), range(len(experiment.setups)), engines)
    repeats = max(repeats_of(experiment, Comparison("", *index)) for index in indices)
    words, loads = counted(experiment, pages, len(engines), repeats)
    if loads > LOADS_MAX:
        remedy = f"use fewer values or repeats, for at most {LOADS_MAX:,} loads"
        raise InputError(f"{words} are {loads:,} loads", "", remedy)


def counted(experiment: Experiment, pages: int, engines: int, repeats: int) -> tuple[str, int]:
    """Return the run's size as text, such as `2 pages x 3 networks x 10 repeats`, and its number of loads."""
    counts = {
        "page": pages,
        "network": len(experiment.networks),
        "setup": len(experiment.setups),
        "transport": len(experiment.arms),
        "engine": engines,
        "repeat": repeats,
    }
    listed = [(n, what) for what, n in counts.items() if n > 1 or what not in ("setup", "engine")]
    return " x ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in listed), prod(counts.values())


def load_timeout_us(page: Page, network: Network) -> int:
    """Return a load's time limit: two minutes plus TRANSFER_SLACK transfer times, but at most an hour."""
    slack_us = int(TRANSFER_SLACK * transfer_s(page, network) * 1e6)
    return min(LOAD_TIMEOUT_MIN_US + slack_us, LOAD_TIMEOUT_MAX_US)


def transfer_s(page: Page, network: Network) -> float:
    """Return the seconds that an idle link needs to carry the page's bytes, first down, then up."""
    received = page.body_bytes() + sum(r.response_header_bytes for r in page.resources)
    sent = page.wire_bytes() - received
    needed_s = 0.0
    for size, limit in ((received, network.down), (sent, network.up)):
        rate = limit.rate_bit_per_s
        if limit.trace_ms is not None:
            rate = mean_rate_bit_per_s(limit.trace_ms)
        if rate is not None:
            needed_s += size * 8 / rate
    return needed_s


def _with_unique_names(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Return the pages, with numbers added to repeated names, because such pages would share cells."""
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
