"""Plan the jobs of an experiment: the page, the conditions, the order and the random seed of each job.

A job loads one page once with each arm, such as without TFO and with warm cookies, under otherwise equal
conditions. The results of a job can therefore be paired. The experiment's seed decides the order of jobs and
the order of loads in a job. Engines run one after another, so that nothing else runs during loads in real
time. In virtual time, if nothing is random, one repeat is enough, and the seed has no effect on results.
With uncertain values (`vary`), the seed decides the values of each repeat.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, product
from math import prod
from typing import Any, Final, Self

from pydantic import ValidationError

from fastopen.common.errors import InputError
from fastopen.common.pydantic_errors import input_error
from fastopen.contract import CONTRACT, Client, EngineName, Job, Network, Origins, Tls
from fastopen.contract.job import LOAD_TIMEOUT_MAX_US
from fastopen.experiments.cells import Cell, Comparison, network_labels, point_of, setup_labels
from fastopen.experiments.factors import FACTORS
from fastopen.experiments.model import Experiment
from fastopen.experiments.setups import as_recorded, filled_in
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.experiments.variation import DRAWS, DRAWS_AT_LEAST, LOADS_OF_DRAWS, Draw, derive_seed
from fastopen.pages import Page

LOADS_MAX: Final = 1_000_000
LOAD_TIMEOUT_MIN_US: Final = 120_000_000
# A load's time limit is LOAD_TIMEOUT_MIN_US or, if longer, ROUND_TRIPS round trips for each request, plus
# TRANSFER_SLACK times the load's transfer time on an idle link.
ROUND_TRIPS: Final = 8
TRANSFER_SLACK: Final = 4
OPTION: Final = "--shard"
SHARDS_MAX: Final = 1_000_000


@dataclass(frozen=True)
class PlannedJob:
    """A job that loads a page once with each arm (without and with TFO). `cells` maps the id of each page
    load to the index of its cell in `Plan.cells`. `repeat` is the number of the repeat, from 0."""

    job: Job
    comparison: Comparison
    repeat: int
    cells: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """The jobs of an experiment, and the pages and conditions (cells) of their page loads."""

    experiment: Experiment
    pages: tuple[Page, ...]
    cells: tuple[Cell, ...]
    jobs: tuple[PlannedJob, ...]
    """Jobs in the order in which they run: all of one engine, then all of the next."""

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """Return the engines in the order in which they run."""
        return tuple(dict.fromkeys(cell.engine for cell in self.cells))

    def loads(self) -> int:
        return sum(len(planned.job.loads) for planned in self.jobs)


def without_chance(experiment: Experiment, comparison: Comparison) -> bool:
    """Return True if a comparison's repeats have equal results: time is virtual, and nothing is random."""
    point = point_of(experiment, comparison)
    return repeats_to_the_byte(experiment, comparison) and not any(
        factor.chance(value)
        for factor in FACTORS
        if factor.chance and factor.applies(point)
        for value in factor.values(point)
    )


def repeats_to_the_byte(experiment: Experiment, at: Comparison) -> bool:
    """Return True if a job with the same seed always has exactly the same results under the conditions `at`.
    The time must be virtual, and the client deterministic."""
    return at.engine == "virtual" and experiment.setups[at.setup].client.type.deterministic


def with_drawn_seed(experiment: Experiment, auto: EngineName) -> Experiment:
    """Return the experiment with a new random seed, or unchanged if time is virtual and no setting is random.
    `auto` is the engine (`host` or `virtual`) that "auto" stands for."""
    if all(exact_rows(experiment, auto)):
        return experiment
    return experiment.model_copy(update={"seed": secrets.randbits(31)})


def exact_rows(experiment: Experiment, auto: EngineName) -> list[bool]:
    """Return a flag for each combination of network, setup and engine: True if all its repeats have the same
    result, because nothing is random. `auto` is the engine (`host` or `virtual`) to use for "auto"."""
    return [without_chance(experiment, Comparison("", *row)) for row in _rows(experiment, auto)]


def default_draws(experiment: Experiment, pages: int, auto: EngineName) -> int:
    """Return the default number of samples for `--report` without `--vary`. It is lower if each sample has
    many page loads. `pages` is the number of pages, and `auto` the engine to use for "auto"."""
    loads_of_a_draw = pages * len(exact_rows(experiment, auto)) * len(experiment.arms)
    return min(DRAWS, max(DRAWS_AT_LEAST, LOADS_OF_DRAWS // max(loads_of_a_draw, 1)))


def repeats_of(experiment: Experiment, comparison: Comparison) -> int:
    """Return the number of repeats of a comparison: as requested, or 1 if all would have the same result."""
    once = experiment.vary is None and without_chance(experiment, comparison)
    return 1 if once else experiment.repeats


def draw_of(experiment: Experiment, comparison: Comparison, repeat: int) -> Draw | None:
    """Return the random inputs of a repeat, such as its RTT; None if the experiment does not use `vary`."""
    vary = experiment.vary
    return None if vary is None else vary.draw(experiment.seed, comparison.engine, repeat)


def loaded_with(experiment: Experiment, cell: Cell, repeat: int) -> tuple[Network, Client]:
    """Return the network and the client of a cell's load in a repeat, with random values if `vary` is set."""
    network, client = experiment.networks[cell.network], experiment.setups[cell.setup].client
    drawn = draw_of(experiment, cell.comparison, repeat)
    return (network, client) if drawn is None else (drawn.network(network), drawn.client(client))


def make_plan(experiment: Experiment, pages: Sequence[Page], auto: EngineName = "host") -> Plan:
    """Plan an experiment's loads of these pages. `auto` is the engine (`host` or `virtual`) to use for
    "auto". Raises InputError if a page or setting is invalid, or if there are too many loads."""
    named = _with_unique_names(pages)
    engines, rows = _engines(experiment, auto), _rows(experiment, auto)
    repeats = max(repeats_of(experiment, Comparison("", *row)) for row in rows)
    words, loads = plan_size(experiment, len(named), len(engines), repeats)
    if loads > LOADS_MAX:
        remedy = f"use fewer values or repeats, for at most {LOADS_MAX:,} loads"
        raise InputError(f"{words} are {loads:,} loads", "", remedy)
    cells: list[Cell] = []
    jobs: list[PlannedJob] = []
    networks, setups = network_labels(experiment), setup_labels(experiment)
    for page, (network, setup, engine) in product(named, rows):
        comparison = Comparison(page.name, network, setup, engine)
        arms = enumerate(experiment.arms_of(setup), len(cells))
        own = [Cell(page.name, network, setup, engine, index, arm) for index, arm in arms]
        cells += own
        of_load = {cell.arm.load().id: cell.index for cell in own}
        label = f"{page.name}@{networks[network]}" + (f",{setups[setup]}" if setups[setup] else "")
        suffix = f"/{engine}" if len(engines) > 1 else ""
        try:
            template = _job(experiment, page, comparison, label)
            for repeat in range(repeats_of(experiment, comparison)):
                # A world has the same name, and so the same seed, on each engine.
                world = f"{label}#{repeat}"
                changes = _changes_of_repeat(experiment, template, page, comparison, repeat, world)
                # A copy skips the validation of the page.
                job = template.model_copy(update={"id": world + suffix, **changes})
                jobs.append(PlannedJob(job, comparison, repeat, of_load))
        except ValidationError as error:
            raise input_error(error, f"page {page.name}") from None

    def turn(planned: PlannedJob) -> tuple[int, int, int]:
        shuffled = derive_seed(experiment.seed, "job order", planned.job.id)
        return (engines.index(planned.comparison.engine), planned.repeat, shuffled)

    return Plan(experiment, named, tuple(cells), tuple(sorted(jobs, key=turn)))


def _engines(experiment: Experiment, auto: EngineName) -> list[EngineName]:
    engines: list[EngineName] = [auto if name == "auto" else name for name in experiment.engines]
    return list(dict.fromkeys(engines))


def _rows(experiment: Experiment, auto: EngineName) -> list[tuple[int, int, EngineName]]:
    """Return (network index, setup index, engine) for each row of a page's table. Rows that differ only in
    the RTT are adjacent. `auto` is the engine to use for "auto"."""
    engines = _engines(experiment, auto)
    first: dict[str, int] = {}
    without_rtt = (network.model_copy(update={"rtt_us": 0}) for network in experiment.networks)
    besides_rtt = [first.setdefault(repr(network), index) for index, network in enumerate(without_rtt)]
    rows = product(range(len(experiment.networks)), range(len(experiment.setups)), engines)

    def place(row: tuple[int, int, EngineName]) -> tuple[int, int, int, int]:
        network, setup, engine = row
        return (besides_rtt[network], setup, engines.index(engine), network)

    return sorted(rows, key=place)


def _job(experiment: Experiment, page: Page, comparison: Comparison, label: str) -> Job:
    """Return a job with id `label`. The caller adds the id, seed and random values of a repeat to a copy."""
    network, setup = experiment.networks[comparison.network], experiment.setups[comparison.setup]
    # A network is the same for all pages of an experiment, but a job names only the hosts of its own page.
    hosts = set(page.hosts())
    extra = {host: rtt for host, rtt in network.host_extra_rtt_us.items() if host in hosts}
    named = network.path_hosts
    behind = None if named is None else [host for host in named if host in hosts]
    origins = as_recorded(setup, page, network)
    changes: dict[str, Any] = {}
    if origins.server_hosts is not None:
        served = [host for host in origins.server_hosts if host in hosts]
        # A server that serves none of the page's hosts is removed.
        keys = {"server", "server_hosts", "server_listen", "upstream_tfo", "upstream_rtt_us"}
        changes = {"server_hosts": served} if served else Origins().model_dump(include=keys)
    for key in ("http2_hosts", "http3_hosts"):
        changes[key] = [host for host in getattr(origins, key) if host in hosts]
    return Job(
        contract=CONTRACT,
        id=label,
        seed=experiment.seed,
        page=page.with_explanation(page.explanation) if page.explanations else page,
        network=network.model_copy(update={"host_extra_rtt_us": extra, "path_hosts": behind}),
        tcp=setup.tcp,
        client=filled_in(setup.client, page, origins, setup.tls),
        origins=origins.model_copy(update=changes),
        tls=setup.tls or Tls(),
        loads=[arm.load() for arm in experiment.arms_of(comparison.setup)],
        tolerance=experiment.tolerance,
        load_timeout_us=load_timeout_us(page, network),
    )


def _changes_of_repeat(
    experiment: Experiment, template: Job, page: Page, comparison: Comparison, repeat: int, world: str
) -> dict[str, Any]:
    """Return the fields of a repeat's job that differ from `template`, the job without random values. Derive
    the repeat's seed and order of loads from `world`, the name of the repeat's emulated network."""
    changes: dict[str, Any] = {"seed": derive_seed(experiment.seed, "world", world)}
    if not without_chance(experiment, comparison):
        # If nothing is random, the order of the loads has no effect, and stays that of the experiment.
        key = partial(derive_seed, experiment.seed, "arms", world)
        changes["loads"] = sorted(template.loads, key=lambda load: key(load.id))
    if (drawn := draw_of(experiment, comparison, repeat)) is not None:
        changes |= {
            "page": drawn.page(page) if page.explanations else template.page,
            "network": drawn.network(template.network),
            "client": drawn.client(template.client),
            "origins": drawn.origins(template.origins),
            "start_phase_us": drawn.start_phase,
            "shuffle_equal_requests": drawn.order,
        }
    return changes


def plan_size(experiment: Experiment, pages: int, engines: int, repeats: int) -> tuple[str, int]:
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
    """Return the time limit of a page load in microseconds. It grows with the RTT, the number of requests and
    the transfer time. It is at least two minutes and at most an hour."""
    waits_us = max(LOAD_TIMEOUT_MIN_US, ROUND_TRIPS * network.rtt_us * len(page.resources))
    slack_us = int(TRANSFER_SLACK * transfer_s(page, network) * 1e6)
    return min(waits_us + slack_us, LOAD_TIMEOUT_MAX_US)


def transfer_s(page: Page, network: Network) -> float:
    """Return the sum of the seconds that an idle link needs for a page's responses and for its requests."""
    received = page.body_bytes() + sum(r.response_header_bytes for r in page.resources)
    sent = page.wire_bytes() - received
    ways = ((received, network.down), (sent, network.up))
    rates = ((size, mean_rate_bit_per_s(way.rate_bit_per_s, way.trace_ms)) for size, way in ways)
    return sum(size * 8 / rate for size, rate in rates if rate is not None)


def _with_unique_names(pages: Sequence[Page]) -> tuple[Page, ...]:
    named: dict[str, Page] = {}
    for page in pages:
        names = chain([page.name], (f"{page.name} ({number})" for number in count(2)))
        name = next(name for name in names if name not in named)
        named[name] = page if name == page.name else page.model_copy(update={"name": name})
    return tuple(named.values())


@dataclass(frozen=True, order=True)
class Shard:
    """Shard number `index` of `count` shards. The first shard has number 1."""

    count: int
    index: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as `17/200`, shard 17 of 200. Raises InputError if the text is invalid."""
        found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text.strip(), re.ASCII)
        index, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= index <= count <= SHARDS_MAX:
            remedy = f"use I/N, such as 17/200; N is at most {SHARDS_MAX:,}"
            raise InputError(f"invalid shard {text!r}", OPTION, remedy)
        return cls(count, index)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, plan: Plan) -> Plan:
        """Return the plan with only this shard's jobs. Each shard gets a mix of pages and networks. If there
        are fewer jobs than shards, the last shards are empty."""
        # The jobs of a plan are in random order.
        return replace(plan, jobs=plan.jobs[self.index - 1 :: self.count])


def ranges(numbers: list[int]) -> str:
    """Return sorted numbers as text, with consecutive numbers as ranges: `3, 7-9`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
