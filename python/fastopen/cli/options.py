"""From the command line's texts to an experiment: each option's units, and errors that name the option."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

import typer
from pydantic import TypeAdapter, ValidationError

from fastopen import units
from fastopen.contract import Client, Network, Origins, Tcp, Tls
from fastopen.contract.job import PROFILES, RttUs, View
from fastopen.errors import InputError
from fastopen.experiments import (
    KINDS,
    TRANSPORT_WORDS,
    AskedEngine,
    AskedNetworks,
    Combine,
    Experiment,
    Link,
    Setup,
    arms_and_tls,
    clients_of,
    multiplied,
    networks_of,
    read_trace,
    setups_of,
    tls_settings,
    with_clients,
)
from fastopen.experiments.spec import BitPerS, LossFraction
from fastopen.pydantic_errors import input_error

T = TypeVar("T")
N = TypeVar("N", bound=str)


LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Leave damaged entries and records out, instead of refusing them.")
]


@dataclass(frozen=True)
class NetworkOptions:
    """The texts of the options that make the networks; several values are lists with commas."""

    rtt: str
    down: str
    up: str
    queue: str | None
    loss: str
    extra_rtt: Sequence[str]
    down_trace: Path | None
    up_trace: Path | None
    combine: Combine = "cross"
    link: Link = "auto"

    def networks(self) -> list[Network]:
        """Each value with each other, or first with first. Raises InputError naming the option."""
        traces = (self._trace("down"), self._trace("up"))
        asked = AskedNetworks(
            rtt=_list(self.rtt, "--rtt", units.parse_duration_us, RttUs),
            down=[None] if traces[0] else _list(self.down, "--down", units.parse_rate_bit_per_s, BitPerS),
            up=[None] if traces[1] else _list(self.up, "--up", units.parse_rate_bit_per_s, BitPerS),
            queue=["default"] if self.queue is None else _list(self.queue, "--queue", _queue),
            loss=_list(self.loss, "--loss", units.parse_fraction, LossFraction),
        )
        try:
            return networks_of(asked, self.combine, _extra_rtts(self.extra_rtt), traces, self.link)
        except ValidationError as error:
            raise input_error(error, "the network's options") from None
        except ValueError as error:
            raise InputError(str(error), "--combine zip") from None

    def _trace(self, way: str) -> list[int] | None:
        path: Path | None = getattr(self, f"{way}_trace")
        if path is not None and "," in getattr(self, way):
            raise InputError("a trace stands for the rate", f"--{way}", f"leave it or --{way}-trace out")
        return None if path is None else read_trace(path)


@dataclass(frozen=True)
class SetupOptions:
    """The texts of the options of client and TCP, each a value or a list with commas; None: not given."""

    client: str
    command: str | None
    profile: str
    keep_alive: str | None
    connections_per_host: str | None
    processing_scale: str
    initial_window: str
    congestion_control: str
    http: str = "1.1"
    tls: str | None = None
    key_share: str = "x25519mlkem768"
    screenshots: bool = False
    view: str = "first"

    def asked_tls(self, *, encrypted: bool) -> list[Tls | None]:
        """Each version with each key share; None: in the clear. Raises InputError naming the option.

        Where no version is given, `encrypted` transports have the newest.
        """
        versions = self.tls or ("1.3" if encrypted else "none")
        shares: tuple[str, ...] = get_args(Tls.model_fields["key_share"].annotation)
        settings = {
            "version": _list(versions, "--tls", _one_of("none", "1.2", "1.3")),
            "key_share": _list(self.key_share, "--key-share", _one_of(*shares)),
        }
        return tls_settings(settings)

    def setups(self, tls: Sequence[Tls | None]) -> list[Setup]:
        """Each value with each other, and with each TLS. Raises InputError naming the option."""
        asked: dict[str, Any] = {
            "kind": _list(self.client, "--client", _one_of(*KINDS)),
            "profile": _list(self.profile, "--profile", _one_of(*PROFILES)),
            "processing_scale": _list(self.processing_scale, "--processing-scale", _number(float)),
        }
        if self.command is not None:
            asked["command"] = self.command
        if self.keep_alive is not None:
            asked["keep_alive"] = _list(self.keep_alive, "--keep-alive", _on_or_off)
        if self.connections_per_host is not None:
            asked["connections_per_host"] = _list(
                self.connections_per_host, "--connections-per-host", _number(int)
            )
        asked["view"] = _list(self.view, "--view", _one_of(*get_args(View)))
        strangers = [kind for kind in asked["kind"] if kind != "chromium"]
        if "repeat" in asked["view"] and strangers:
            raise InputError(
                f"{strangers[0]} keeps nothing from visit to visit", "--view", "with --client chromium alone"
            )
        if self.screenshots:
            asked["screenshot"] = True
            if "chromium" not in asked["kind"]:
                raise InputError("a browser alone has a picture", "--screenshots", "--client chromium")
        tcp = {
            "initial_window_segments": _list(self.initial_window, "--initial-window", _number(int)),
            "congestion_control": _list(self.congestion_control, "--congestion-control", str.strip),
        }
        try:
            clients, tcps = clients_of(asked), multiplied(Tcp, tcp)
            origins = multiplied(Origins, {"http": _list(self.http, "--http", str.strip)})
        except ValidationError as error:
            raise _of_option(error) from None
        except ValueError as error:
            raise InputError(
                str(error), "--command", "like --client command --command 'PROGRAM {url}'"
            ) from None
        for client in clients:
            _check_connections(client)
        try:
            return setups_of(clients, origins, tcps, tls)
        except ValidationError as error:
            raise InputError(input_error(error, "").message, "--http") from None


# Where an option's name is not the setting's.
_OPTION_OF: Final = {"initial_window_segments": "initial_window", "arms": "transports"}


def _of_option(error: ValidationError) -> InputError:
    """What pydantic found, with the option of the setting as its place."""
    name = str(error.errors()[0]["loc"][0])
    option = "--" + _OPTION_OF.get(name, name).replace("_", "-")
    return InputError(input_error(error, "").message, option)


def _check_connections(client: Client) -> None:
    """More for a host than in all would be a column of the table that changes nothing."""
    if client.connections_per_host > client.connections_total:
        asked, total = client.connections_per_host, client.connections_total
        raise InputError(
            f"{asked} a host, but {client.profile} opens {total} in all",
            "--connections-per-host",
            f"ask for {total} at most, or for --profile browser alone",
        )


def experiment_of(
    name: str, pages: Sequence[str], networks: list[Network], setup: SetupOptions, asked: Mapping[str, Any]
) -> Experiment:
    """The experiment of a `run`.

    `asked` are `repeats`, `arms` and `engines` (lists with commas), and `seed` (None: drawn and recorded).
    """
    words = _list(asked["arms"], "--transports", _one_of(*TRANSPORT_WORDS))
    arms, tls = arms_and_tls(words, setup.asked_tls(encrypted=any("tls" in word for word in words)))
    setups = setup.setups(tls)
    seed = asked["seed"] if asked["seed"] is not None else secrets.randbits(31)
    try:
        return Experiment(
            name=name,
            pages=list(pages),
            networks=networks,
            setups=setups,
            arms=arms,
            engines=engines_asked(asked["engines"]),
            repeats=asked["repeats"],
            seed=seed,
        )
    except ValidationError as error:
        raise _of_option(error) from None


def engines_asked(text: str) -> list[AskedEngine]:
    """`host,virtual` as a list. Raises InputError."""
    accepted: tuple[AskedEngine, ...] = ("auto", "host", "virtual")
    return _list(text, "--engine", _one_of(*accepted))


def other_clients(experiment: Experiment, text: str) -> list[Setup]:
    """The experiment's setups with the named clients in place of its own. Raises InputError."""
    kinds = _list(text, "--client", _one_of(*(kind for kind in KINDS if kind != "command")))
    try:
        return with_clients(experiment.setups, kinds)
    except ValidationError as error:
        raise input_error(error, "--client") from None


def changed(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """The experiment with other values, validated again. Raises InputError naming the option."""
    try:
        return Experiment(**{**dict(experiment), **changes})
    except ValidationError as error:
        raise _of_option(error) from None


def _extra_rtts(texts: Sequence[str]) -> dict[str, int]:
    extra: dict[str, int] = {}
    for text in texts:
        host, equals, rtt = text.partition("=")
        if not equals or not host:
            raise InputError(f"{text!r} is not HOST=RTT", "--extra-rtt", "write it like cdn.example=20ms")
        extra[host.lower()] = _parsed(rtt, "--extra-rtt", units.parse_duration_us)
    return extra


def _list(text: str, option: str, parse: Callable[[str], T], bounds: Any = None) -> list[T]:
    """Each part of a list with commas, once, within the bounds of the annotated type `bounds`."""
    values = list(dict.fromkeys(_parsed(part, option, parse) for part in text.split(",")))
    if bounds is not None:
        for value in values:
            try:
                TypeAdapter(bounds).validate_python(value)
            except ValidationError as error:
                raise input_error(error, option) from None
    return values


def _parsed(text: str, option: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except units.UnitError as error:
        raise InputError(str(error), option) from None


def _queue(text: str) -> int | Literal["default"] | None:
    return "default" if text.strip() == "default" else units.parse_size_bytes(text)


def _one_of(*accepted: N) -> Callable[[str], N]:
    def parse(text: str) -> N:
        for one in accepted:
            if one == text.strip():
                return one
        raise units.UnitError(f"{text.strip()!r} is none of {', '.join(accepted)}")

    return parse


def _on_or_off(text: str) -> bool:
    return _one_of("on", "off")(text) == "on"


def _number(kind: type[T]) -> Callable[[str], T]:
    def parse(text: str) -> T:
        try:
            return kind(text)  # type: ignore[call-arg]
        except ValueError:
            raise units.UnitError(f"{text.strip()!r} is not a number") from None

    return parse
