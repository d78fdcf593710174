"""Read the settings of a server benchmark. Options and keys of its TOML file have the same names."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fastopen.common.errors import InputError, raise_all
from fastopen.common.pydantic_errors import conflict, input_errors
from fastopen.common.resources import packaged_folder
from fastopen.common.units import parse_duration_us, parse_size_bytes
from fastopen.common.user_files import read_toml
from fastopen.contract import Flood
from fastopen.contract.job import ARRIVALS_MAX, DURATION_MAX_US
from fastopen.contract.part import RTT_MAX_US

SUFFIX: Final = ".toml"
HOSTS_MAX: Final = 1000
SIZE_MAX_BYTES: Final = 100_000_000
# The maximum number of cold transactions: a world has this many addresses for new clients.
COLD_MAX: Final = 60_000

ArmName = Literal["off", "cold", "warm"]
NewKey = Literal["none", "replace", "add"]
Item = TypeVar("Item")


def _listed(value: object) -> object:
    """Return a list: from `10,100` on the command line, or from a list or a single value in a file."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list | tuple) else [value]


def _by(parse: Callable[[str], Any]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _flood(value: object) -> object:
    """Parse `none`, or the kind of a flood's SYNs and their number per second: `valid:2000`."""
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
    """Return the value of `--flood` that requests this flood."""
    if flood is None:
        return "none"
    return f"{'plain' if flood.cookies == 'none' else flood.cookies}:{flood.rate_per_s}"


Listed = Annotated[tuple[Item, ...], Field(min_length=1), BeforeValidator(_listed)]
Counts = Annotated[
    tuple[Annotated[int, Field(ge=1, le=ARRIVALS_MAX)], ...], Field(max_length=100), BeforeValidator(_listed)
]


class Bench(BaseModel):
    """A server benchmark. All combinations of the values of its lists are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    notes: tuple[str, ...] = ()
    """Notes for readers of the results."""
    published: dict[ArmName, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Published responses per second, by arm, to print next to the measured ones."""
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
    def _transactions_begin_somehow(self) -> "Bench":
        if not self.rates and not self.clients:
            raise conflict("needs rates or clients", "add --rates 1000 or --clients 10", "serve-bench")
        return self

    @model_validator(mode="after")
    def _cold_clients_have_addresses(self) -> "Bench":
        most = max(self.rates, default=0) * self.duration // 1_000_000
        if "cold" in self.arms and most > COLD_MAX:
            message = f"{most:,} cold transactions need as many client addresses, but only {COLD_MAX:,} exist"
            raise conflict(message, "use a lower rate or a shorter duration", "rates", "duration")
        return self


def packaged_benches() -> dict[str, Path]:
    """Map the names of the benchmarks that come with fastopen to their files."""
    folder = packaged_folder("experiments")
    files = sorted((folder / "serve-bench").glob(f"*{SUFFIX}")) if folder else []
    return {file.stem: file for file in files}


def read_bench(name_or_path: str | None, changes: Mapping[str, Any]) -> Bench:
    """Read a packaged benchmark or a file (None: only defaults); apply `changes`. Raises InputError."""
    data: dict[str, Any] = {}
    place = ""
    if name_or_path is not None:
        path = packaged_benches().get(name_or_path)
        if path is None and not name_or_path.endswith(SUFFIX):
            remedy = f"use {', '.join(packaged_benches())}, or the path of a {SUFFIX} file"
            raise InputError("no packaged benchmark of that name", name_or_path, remedy)
        path = path or Path(name_or_path)
        place = path.name
        data = read_toml(path)
    given = {key: value for key, value in changes.items() if value is not None}
    # Given rates or clients replace both the rates and the clients of the file.
    if {"rates", "clients"} & given.keys():
        data = {key: value for key, value in data.items() if key not in ("rates", "clients")}
    try:
        return Bench.model_validate(data | given)
    except ValidationError as error:
        raise_all([_at_options(one, given) for one in input_errors(error, place)])
        raise


def _at_options(found: InputError, given: Mapping[str, Any]) -> InputError:
    """Return the error. If all keys in its place were given as options, the place names these options."""
    keys = [key.partition("[")[0] for key in found.place.split(", ")]
    options = ", ".join(f"--{key.replace('_', '-')}" for key in keys)
    return InputError(found.message, options if {*keys} <= given.keys() else found.place, found.remedy)
