"""Read the settings of a server benchmark, and create the jobs that run its transactions.

A transaction is a connection with one request. A cell is one combination of settings. The command's options
and the keys of TOML files have the same names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fastopen.common.errors import InputError, did_you_mean, raise_all
from fastopen.common.files import read_toml
from fastopen.common.pydantic_errors import conflict, input_errors
from fastopen.common.resources import packaged_folder
from fastopen.common.units import parse_duration_us, parse_size_bytes
from fastopen.contract import CONTRACT, Flood, Job, LinkDirection, Network, Origins, Tolerance, Transactions
from fastopen.contract.job import ARRIVALS_MAX, DURATION_MAX_US
from fastopen.contract.part import RTT_MAX_US
from fastopen.experiments import ARMS
from fastopen.pages.model import page_of_hosts

SUFFIX: Final = ".toml"
HOSTS_MAX: Final = 1000
SIZE_MAX_BYTES: Final = 100_000_000
# Each cold transaction needs a client address that is new to the server. A world has at least this many.
COLD_MAX: Final = 60_000

ArmName = Literal["off", "cold", "warm"]
NewKey = Literal["none", "replace", "add"]
Item = TypeVar("Item")
Arrivals = Literal["rate_per_s", "clients"]
# The time limit of a load, in real time. Emulating a virtual second can take many real seconds.
TIMEOUT_US: Final = 3_600_000_000
# The allowed error of the RTT that a world measures. In real time, other programs can delay packets.
RTT_TOLERANCE_US: Final = 5000


def _listed(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list | tuple) else [value]


def _by(parse: Callable[[str], Any]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _flood(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value == "none":
        return None
    cookies, _, rate = value.partition(":")
    named = {"plain": "none", "invalid": "invalid", "valid": "valid"}
    if cookies not in named or not rate.isdecimal():
        raise ValueError(f"unknown value {value!r}; use none, plain:RATE, invalid:RATE or valid:RATE")
    return {"rate_per_s": int(rate), "cookies": named[cookies]}


def flood_words(flood: Flood | None) -> str:
    """Format a SYN flood as a value of `--flood`, such as `plain:1000` (SYNs per second), or `none`."""
    if flood is None:
        return "none"
    return f"{'plain' if flood.cookies == 'none' else flood.cookies}:{flood.rate_per_s}"


Listed = Annotated[tuple[Item, ...], Field(min_length=1), BeforeValidator(_listed)]
Counts = Annotated[
    tuple[Annotated[int, Field(ge=1, le=ARRIVALS_MAX)], ...], Field(max_length=100), BeforeValidator(_listed)
]


class Bench(BaseModel):
    """The settings of a server benchmark. If settings have several values, all combinations are run.

    `arms` are uses of TFO: `off`, `cold` or `warm`. `published` maps arms to published responses per
    second, to print next to the measured ones. `rates` are numbers of transactions to begin per second, and
    `clients` are numbers of clients that each make one transaction after another. `duration` and `rtt` are
    in us. `size` is the size of a response's body in bytes, and `hosts` the number of addresses of the
    server. `new_key` changes the server's TFO cookie key halfway."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    notes: tuple[str, ...] = ()
    engine: Literal["auto", "host", "virtual"] = "auto"
    published: dict[ArmName, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    arms: Listed[ArmName] = get_args(ArmName)
    rates: Counts = ()
    clients: Counts = ()
    duration: Annotated[int, Field(ge=1, le=DURATION_MAX_US), _by(parse_duration_us)] = 10_000_000
    rtt: Annotated[int, Field(ge=0, le=RTT_MAX_US), _by(parse_duration_us)] = 20_000
    size: Annotated[int, Field(ge=0, le=SIZE_MAX_BYTES), _by(parse_size_bytes)] = 5000
    hosts: Annotated[int, Field(ge=1, le=HOSTS_MAX)] = 16
    tfo_queue: Listed[Annotated[int, Field(ge=1, le=65_535)]] = (4096,)
    syncookies: Listed[Annotated[int, Field(ge=0, le=2)]] = (0,)
    flood: Listed[Annotated[Flood | None, BeforeValidator(_flood)]] = (None,)
    new_key: Listed[NewKey] = ("none",)
    repeats: Annotated[int, Field(ge=1, le=1000)] = 5
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1

    @model_validator(mode="after")
    def _transactions_are_possible(self) -> Self:
        if not self.rates and not self.clients:
            raise conflict("needs rates or clients", "add --rates 1000 or --clients 10", "serve-bench")
        most = max(self.rates, default=0) * self.duration // 1_000_000
        if "cold" in self.arms and most > COLD_MAX:
            message = f"{most:,} cold transactions need as many client addresses, but only {COLD_MAX:,} exist"
            raise conflict(message, "use a lower rate or a shorter duration", "rates", "duration")
        return self


def packaged_benches() -> dict[str, Path]:
    """Map the name of each benchmark that comes with fastopen to its TOML file."""
    folder = packaged_folder("experiments/serve-bench")
    return {file.stem: file for file in sorted(folder.glob(f"*{SUFFIX}"))} if folder else {}


def read_bench(name_or_path: str | None, changes: Mapping[str, Any]) -> Bench:
    """Return the settings of a packaged benchmark or a TOML file, or the defaults if None is given. Values in
    `changes`, except None, replace these settings. Raises InputError for an unknown name or invalid value."""
    data: dict[str, Any] = {}
    place = ""
    if name_or_path is not None:
        path = packaged_benches().get(name_or_path)
        if path is None and not name_or_path.endswith(SUFFIX):
            remedy = f"use {', '.join(packaged_benches())}, or the path of a {SUFFIX} file"
            raise InputError("no packaged benchmark of that name", name_or_path, remedy)
        path = path or Path(name_or_path)
        place, data = path.name, read_toml(path)
    given = {key: value for key, value in changes.items() if value is not None}
    # If rates or clients are given as options, ignore both settings of the file.
    if {"rates", "clients"} & given.keys():
        data = {key: value for key, value in data.items() if key not in ("rates", "clients")}
    try:
        return Bench.model_validate(data | given)
    except ValidationError as error:
        raise_all([_at_options(one, given) for one in input_errors(error, place)])
        raise


def _at_options(found: InputError, given: Mapping[str, Any]) -> InputError:
    """Return the error `found`. If the user gave an option (`given`) for each key that the error names, name
    the options, such as `--rtt`, instead of the TOML keys. If the key is unknown, add a suggestion."""
    if found.message == "unknown key":
        key = found.place.rpartition(": ")[2]
        return InputError(found.message, found.place, did_you_mean(key, Bench.model_fields, found.remedy))
    keys = [key.partition("[")[0] for key in found.place.split(", ")]
    options = ", ".join(f"--{key.replace('_', '-')}" for key in keys)
    return InputError(found.message, options if {*keys} <= given.keys() else found.place, found.remedy)


@dataclass(frozen=True)
class BenchCell:
    """One combination of settings. `count` is the number of clients or of transactions per second, depending
    on `arrivals`. `new_key` changes the server's TFO cookie key halfway."""

    arm: ArmName
    arrivals: Arrivals
    count: int
    tfo_queue: int
    syncookies: int
    flood: Flood | None
    new_key: NewKey

    @property
    def factors(self) -> dict[str, str]:
        """Map the name of each setting except the arm to its value as text, such as `load` to `300/s`."""
        return {
            "load": f"{self.count:,}/s" if self.arrivals == "rate_per_s" else f"{self.count:,} clients",
            "queue": str(self.tfo_queue),
            "syncookies": str(self.syncookies),
            "flood": flood_words(self.flood),
            "new key": self.new_key,
        }


def cells_of(bench: Bench) -> list[BenchCell]:
    """Return all combinations of a benchmark's settings. The server changes its cookie key only in
    combinations whose clients already have TFO cookies (`warm`)."""
    loads: list[tuple[Arrivals, int]] = [("rate_per_s", rate) for rate in bench.rates]
    loads += [("clients", number) for number in bench.clients]
    factors = product(loads, bench.tfo_queue, bench.syncookies, bench.flood, bench.new_key, bench.arms)
    # A dict keeps the order and drops repeated cells.
    cells: dict[BenchCell, None] = {}
    for (arrivals, count), queue, syncookies, flood, new_key, arm in factors:
        if arm == "warm" or new_key == "none" or "none" not in bench.new_key:
            key: NewKey = new_key if arm == "warm" else "none"
            cells[BenchCell(arm, arrivals, count, queue, syncookies, flood, key)] = None
    return list(cells)


def jobs_of(bench: Bench, cells: Sequence[BenchCell], repeats: int, origins: Origins) -> Iterator[Job]:
    """Yield a job for each combination of settings (`cells`) in each of `repeats` rounds. Shuffle each round
    if there are several. A job's id, such as `3#0`, is made of the indices of its combination and round.
    `origins` has the settings of the server, except its TFO queue."""
    order = Random(bench.seed)
    for repeat in range(repeats):
        numbers = list(range(len(cells)))
        if repeats > 1:
            order.shuffle(numbers)
        for number in numbers:
            yield _job(bench, cells[number], f"{number}#{repeat}", origins)


def _job(bench: Bench, cell: BenchCell, name: str, origins: Origins) -> Job:
    transactions = Transactions(
        arrivals={cell.arrivals: cell.count},
        duration_us=bench.duration,
        syncookies=cell.syncookies,
        new_key=None if cell.new_key == "none" else cell.new_key,
        flood=cell.flood,
    )
    hosts = [f"h{number}.test" for number in range(bench.hosts)]
    no_limit = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
    return Job(
        contract=CONTRACT,
        id=name,
        seed=bench.seed,
        page=page_of_hosts("answers", "made for a server benchmark", hosts, "xhr", bench.size),
        network=Network(rtt_us=bench.rtt, down=no_limit, up=no_limit),
        origins=origins.model_copy(update={"tfo_queue": cell.tfo_queue}),
        loads=[ARMS[cell.arm].load().model_copy(update={"id": "transactions", "transactions": transactions})],
        tolerance=Tolerance(rtt_us=RTT_TOLERANCE_US, rate_fraction=1.0),
        load_timeout_us=TIMEOUT_US,
    )
