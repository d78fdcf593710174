"""From the command line's texts to an experiment: each option's units, and errors that name the option."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from fastopen import units
from fastopen.contract import Client, Network, Origins, RateLimit, Tcp
from fastopen.errors import InputError
from fastopen.experiments import Experiment, default_queue_bytes, read_trace
from fastopen.experiments.trace import mean_rate_bit_per_s
from fastopen.validation import input_error

T = TypeVar("T")


LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Leave broken entries of a HAR out instead of refusing the file.")
]


@dataclass(frozen=True)
class NetworkOptions:
    """The texts of the options that make the networks."""

    rtt: str
    down: str
    up: str
    queue: str | None
    loss: str
    extra_rtt: Sequence[str]
    down_trace: Path | None
    up_trace: Path | None

    def networks(self) -> list[Network]:
        """One for each RTT. Raises InputError naming the option."""
        rtts = _list(self.rtt, "--rtt", units.parse_duration_us)
        down = self._direction(self.down, self.down_trace, "--down")
        up = self._direction(self.up, self.up_trace, "--up")
        extra = _extra_rtts(self.extra_rtt)
        return [
            _checked("--rtt", Network, rtt_us=rtt, down=down, up=up, host_extra_rtt_us=extra) for rtt in rtts
        ]

    def _direction(self, text: str, trace: Path | None, option: str) -> RateLimit:
        times = None if trace is None else read_trace(trace)
        rate = None if times is not None else _parsed(text, option, units.parse_rate_bit_per_s)
        queue = default_queue_bytes(rate if times is None else mean_rate_bit_per_s(times))
        if self.queue is not None:
            queue = _parsed(self.queue, "--queue", units.parse_size_bytes)
        loss = _parsed(self.loss, "--loss", units.parse_fraction)
        return _checked(option, RateLimit, rate_bit_per_s=rate, trace_ms=times, queue_bytes=queue, loss=loss)


def experiment_of(
    name: str,
    pages: Sequence[str],
    networks: list[Network],
    client: Mapping[str, Any],
    tcp: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Experiment:
    """The experiment of a `run`. `asked` are `repeats`, `arms`, and `seed` (None: drawn now and recorded)."""
    seed = asked["seed"] if asked["seed"] is not None else secrets.randbits(31)
    arms = list(dict.fromkeys(part.strip() for part in asked["arms"].split(",")))
    return _checked(
        "",
        Experiment,
        name=name,
        pages=list(pages),
        networks=networks,
        arms=arms,
        client=_checked("the client's options", Client, **{k: v for k, v in client.items() if v is not None}),
        tcp=_checked("the TCP options", Tcp, **tcp),
        origins=Origins(),
        repeats=asked["repeats"],
        seed=seed,
    )


def _extra_rtts(texts: Sequence[str]) -> dict[str, int]:
    extra: dict[str, int] = {}
    for text in texts:
        host, equals, rtt = text.partition("=")
        if not equals or not host:
            raise InputError(f"{text!r} is not HOST=RTT", "--extra-rtt", "write it like cdn.example=20ms")
        extra[host.lower()] = _parsed(rtt, "--extra-rtt", units.parse_duration_us)
    return extra


def _list(text: str, option: str, parse: Callable[[str], T]) -> list[T]:
    """Each part of a list with commas, once."""
    return list(dict.fromkeys(_parsed(part, option, parse) for part in text.split(",")))


def _parsed(text: str, option: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except units.UnitError as error:
        raise InputError(str(error), option) from None


def _checked(option: str, model: Callable[..., T], **values: Any) -> T:
    try:
        return model(**values)
    except ValidationError as error:
        raise input_error(error, option) from None
