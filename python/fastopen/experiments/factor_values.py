"""Turn settings that a user requests, such as the RTT or the TLS version, into an experiment's parts.

The command line, TOML files and Python have different names for settings. All of them use the checks of this
module, so that an error has the same text everywhere.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast, get_args

from pydantic import ValidationError

from fastopen.common.errors import InputError, any_of, collected, did_you_mean, raise_all
from fastopen.common.pydantic_errors import input_error, problems_of
from fastopen.common.units import UnitError
from fastopen.contract import Client, Network, Origins, Tcp, Tls
from fastopen.contract.certificates import CLASSICAL
from fastopen.contract.client_kinds import CLIENTS
from fastopen.contract.network import QUIC_CONGESTION_CONTROLS
from fastopen.contract.origins import Http, SessionStart
from fastopen.experiments.arms import ALL, ARMS, ArmName, arms_and_tls
from fastopen.experiments.factors import ASKED, BY_NAME, ENGINE, RTT, TRANSPORT, Factor, Part, of_part
from fastopen.experiments.model import AskedEngine, Experiment, Setup, default_queue_bytes
from fastopen.experiments.named_networks import DEFAULT_NETWORKS, NAMED_NETWORKS, NamedNetwork
from fastopen.experiments.quantities import DEFAULT_QUEUE, not_accepted, shown
from fastopen.experiments.setups import clients_of, multiplied, setups_of, with_remedies
from fastopen.experiments.trace import mean_rate_bit_per_s, read_trace

T = TypeVar("T")
Combine = Literal["cross", "zip"]
DIRECTIONS: Final = ("down", "up")
# HTTP versions that `--transports=all` compares.
ALL_HTTP: Final = tuple(version for version in get_args(Http) if version != "1.0")
# Factors that a named network sets.
OF_NAMED: Final = ("rtt", "down", "up")
# Factors that can shorten the additional time that handshakes with large certificates take.
REMEDIAL: Final = frozenset({"session", "initial_window", "certificate_compression"})
_OF_THE_LINK: Final = (*OF_NAMED, "down_trace", "up_trace")
# Matches a setting in an error message: `--tls=1.3`, or with alternative values `--http=1.1/2`.
_SETTING: Final = re.compile(r"(--[a-z][a-z0-9-]+)(?:=('[^']*'|[\w.,+/-]*[\w+]))?")
_BY_FLAG: Final = {factor.flag: factor for factor in ASKED}


@dataclass(frozen=True)
class SettingSource:
    """The place where a user wrote settings: the command line, a TOML file or Python. Errors name a setting
    as it is named there: `--rtt`, `network.rtt` or `rtt`."""

    name: str
    """Text before a setting's name in errors: the path of a file, or empty."""
    key_of: Callable[[Factor], str]
    """Function that returns the source's name for a factor."""
    setting_of: Callable[[str], str] = lambda name: name
    """Function that returns the source's name for a setting that is not a factor, such as repeats or seed."""

    def text(self, message: str) -> str:
        """Rewrite a message that names options, such as `--tls=1.3`, so that it names settings as this
        source does, such as `tls.version = "1.3"`."""
        return _SETTING.sub(self._written, message)

    def _written(self, found: re.Match[str]) -> str:
        flag, values = found.groups()
        key = self.key_of(_BY_FLAG[flag]) if flag in _BY_FLAG else self.setting_of(flag[2:])
        if values is None:
            return key
        words = values.split("/")
        if self is not COMMAND_LINE:
            key, words = f"{key} =", [f'"{word}"' for word in values.strip("'").split("/")]
        return f"{key} {any_of(words)}"

    def place(self, *keys: str) -> str:
        """Return the place of an error in the settings `keys`, such as `my.toml: network.rtt`."""
        return ": ".join(part for part in (self.name, ", ".join(keys)) if part)


COMMAND_LINE: Final = SettingSource("", lambda one: one.flag, lambda name: f"--{name.replace('_', '-')}")
_IN_FILES: Final = {"combine": "network.combine", "network": "network.named"}


def toml_file(path: Path) -> SettingSource:
    return SettingSource(str(path), lambda factor: factor.toml, lambda name: _IN_FILES.get(name, name))


@dataclass(frozen=True)
class RequestedSettings:
    """Settings that a user requested, in base units (us, bytes, bit/s), each with one or more values. `named`
    are networks that were requested by a name, such as `4g`. If `combine` is `cross`, networks have all
    combinations of values; if `zip`, the first network has each setting's first value, and so on."""

    values: dict[str, list[Any]]
    """The requested values, keyed by the factor's name."""
    source: SettingSource
    combine: Combine = "cross"
    folder: Path = field(default_factory=Path)
    """Folder to which the paths of traces, and of files in a server's command line, are relative."""
    named: tuple[NamedNetwork, ...] = ()

    def networks(self) -> list[Network]:
        """Return the requested networks, without duplicates. Raises InputError if a setting is invalid."""
        for way in DIRECTIONS:
            trace = f"{way}_trace"
            if {way, trace} <= self.values.keys():
                raise self.fault("a trace replaces the rate", (way, trace), "drop one of them")
        requested = list(self._networks())
        self._check_needs(requested)
        with self.converted_errors("network"):
            networks = [_network(_applying(values)) for values in requested]
        for one in networks:
            least = min(limit.queue_bytes or one.mtu_bytes for limit in (one.down, one.up))
            if least < one.mtu_bytes:
                message = f"a queue of {least} bytes is smaller than packets of {one.mtu_bytes} (--mtu)"
                raise self.fault(message, ("queue",), f"use --queue={one.mtu_bytes} or more")
        return list({one.model_dump_json(): one for one in networks}.values())

    def _networks(self) -> Iterator[dict[Factor, Any]]:
        """Return the values of each network's factors. If `combine` is `cross`, the RTT changes fastest."""
        networks = self.named
        if not networks and not self.values.keys() & {*_OF_THE_LINK}:
            networks = tuple(NAMED_NETWORKS[name] for name in DEFAULT_NETWORKS)
        factors = [one for one in of_part("network") if not (networks and one.name in OF_NAMED)]
        factors = sorted(factors, key=lambda factor: factor.name == RTT.name)
        lists = {one: values for one in factors if (values := self._values(one))}
        if self.combine == "zip":
            lengths = {factor.name: len(values) for factor, values in lists.items() if len(values) > 1}
            if len(set(lengths.values())) > 1:
                counted = ", ".join(f"{BY_NAME[one].flag} has {n} values" for one, n in lengths.items())
                message = f"--combine=zip needs lists of equal length, but {counted}"
                raise self.fault(message, tuple(lengths), "make them equally long, or use --combine=cross")
            longest = max(lengths.values(), default=1)
            stretched = (values if len(values) > 1 else values * longest for values in lists.values())
            combined: Iterable[tuple[Any, ...]] = zip(*stretched, strict=True)
        else:
            combined = product(*lists.values())
        of_named = [BY_NAME[name] for name in OF_NAMED]
        named = [{factor: factor.read(getattr(one, factor.name)) for factor in of_named} for one in networks]
        chosen = [dict(zip(lists, values, strict=True)) for values in combined]
        return ({**one, **others} for others in chosen for one in named or [{}])

    def _values(self, factor: Factor) -> list[Any]:
        """Return a factor's requested or default values, or [None] for a rate that a trace file replaces."""
        if factor.name.endswith("_trace"):
            return [read_trace(self.folder / path) for path in self.values.get(factor.name, ())]
        if f"{factor.name}_trace" in self.values:
            return [None]
        usual = [] if factor.default is None else [factor.read(text) for text in factor.default.split(",")]
        return self.values.get(factor.name, [DEFAULT_QUEUE] if factor.name == "queue" else usual)

    def arms_and_setups(self) -> tuple[list[ArmName], list[Setup]]:
        """Return the names of the requested arms, such as `warm`, and a setup for each combination of client,
        server, TCP and TLS settings. If large certificates are compared, add setups that reduce their cost,
        for example by compression. Raises InputError if a setting is invalid."""
        words = self.values.get(TRANSPORT.name, str(TRANSPORT.default).split(","))
        with self.converted_errors("client"):
            clients = clients_of(self._settings("client"))
        self._check_clients(clients)
        tls, answering = self._settings("tls"), self._settings("origins")
        if {"certificates", "chain_bytes"} <= tls.keys():
            message, names = "a kind of certificates sets the size", ("certificates", "chain_bytes")
            raise self.fault(message, names, "drop one of them")
        if "server" in answering:
            answering["server"] = _located(answering["server"], self.folder)
        if ALL in words:
            tls = {"session": self._sessions(clients), **tls}
            answering = {"http": self._versions(clients), **answering}
        by_host = {"http2_hosts", "http3_hosts"} & answering.keys()
        usual: dict[str, Any] = {"version": "1.3" if self._tls_by_default(words, clients) else None}
        # With security `recorded`, a page recorded in cleartext would have neither HTTP/2 nor HTTP/3.
        multiplexed = {"2", "3"} & {*answering.get("http", ())} or by_host
        if {*words} <= ARMS.keys() and not tls and not multiplexed:
            usual["security"] = "recorded"
        arms, over = arms_and_tls(words, self._models("tls", {**usual, **tls}, _tls))
        self._check_tls(tls, over)
        if not by_host:
            answering = {"http": "recorded", **answering}
        origins = self._models("origins", answering, Origins.model_validate)
        tcps = self._models("tcp", self._settings("tcp"), Tcp.model_validate)
        with self.converted_errors("client", "origins", "tls"):
            setups = setups_of(clients, origins, tcps, over)
        kinds = {*self.values.get("certificates", ())}
        large = len(kinds) > 1 and bool(kinds - {None, *CLASSICAL})
        return arms, with_remedies(setups) if large and not REMEDIAL & self.values.keys() else setups

    def _check_tls(self, tls: Mapping[str, Any], over: Sequence[Tls | None]) -> None:
        names = [one.name for one in of_part("tls") if one.setting in tls and tls[one.setting] != [None]]
        if names and not any(over):
            raise self.fault("has no effect in cleartext", names, "drop it, or load over TLS")
        if tls.get("version") == [None] and None not in over:
            raise self.fault("the transports need TLS", ("tls", TRANSPORT.name), "drop one of them")

    def _tls_by_default(self, words: Sequence[str], clients: Sequence[Client]) -> bool:
        if self._settings("tls"):
            return True
        able = all(client.type.http_over_tls for client in clients)
        return able and "server" not in self.values and not {*words} <= {"tcp", "tfo"}

    def _sessions(self, clients: Sequence[Client]) -> list[str]:
        words = ["none"] if 0 in self.values.get("tickets", ()) else get_args(SessionStart)
        offered = frozenset.intersection(*(one.type.sessions - one.type.only_by_name for one in clients))
        return [one for one in words if one in offered and (one != "early" or self._tls13)]

    def _versions(self, clients: Sequence[Client]) -> list[str]:
        values = self.values.get
        if False in values("origins_keep_alive", ()) or True in values("single_threaded", ()):
            return ["1.1"]
        offered = frozenset.intersection(*(one.type.http_over_tls - one.type.only_by_name for one in clients))
        quic = self._tls13 and {*values("congestion_control", ())} <= {*QUIC_CONGESTION_CONTROLS}
        return [one for one in ALL_HTTP if one in offered and (one != "3" or quic)]

    @property
    def _tls13(self) -> bool:
        return set(self.values.get("tls", ("1.3",))) == {"1.3"}

    def _models(self, part: Part, given: Mapping[str, Any], make: Callable[[dict[str, Any]], T]) -> list[T]:
        with self.converted_errors(part):
            return multiplied(make, given)

    def engines(self) -> list[AskedEngine]:
        return self.values.get(ENGINE.name, ["auto"])

    def _check_needs(self, networks: Sequence[Mapping[Factor, Any]]) -> None:
        """Raise InputError if a requested value has no effect on any network, unless it is the default."""
        applying = {factor for values in networks for factor in _applying(values)}
        for factor in {factor for values in networks for factor in values} - applying:
            given = (value for value in self.values[factor.name] if value is not None)
            if any(factor.quantity.write(value) != factor.usual for value in given):
                needed = _needed(factor).flag
                remedy = f"add {needed}, or drop {factor.flag}"
                raise self.fault(f"works only with {needed}", (factor.name,), remedy)

    def experiment(self, **others: Any) -> Experiment:
        """Return an experiment with the requested settings and the fields `others`, such as `pages`. Raises
        InputError if a setting is invalid, or if settings contradict each other."""
        arms, setups = self.arms_and_setups()
        requested = {"networks": self.networks(), "setups": setups, "arms": arms, "engines": self.engines()}
        with self.converted_errors():
            return Experiment(**requested, **others)  # type: ignore[arg-type]

    def fault(self, message: str, names: Sequence[str], remedy: str = "") -> InputError:
        """Return an error with this message and remedy. It names the settings among `names` that the user
        requested, or all of `names` if the user requested none of them."""
        given = [name for name in names if name in self.values] or names
        keys = dict.fromkeys(self.source.key_of(BY_NAME[name]) for name in given)
        return InputError(self.source.text(message), self.source.place(*keys), self.source.text(remedy))

    @contextmanager
    def converted_errors(self, *parts: Part) -> Iterator[None]:
        """In a `with` block, convert ValueErrors into InputErrors that name the invalid setting, such as
        `--rtt`. If it is unknown, they name all requested settings of `parts`, such as `tls`."""
        try:
            yield
        except ValidationError as error:
            found, problem = input_error(error, ""), problems_of(error)[0]
            names = [one.name for one in ASKED if one.toml in problem.get("ctx", {}).get("keys", ())]
            if not names and not parts:
                key = self.source.setting_of(str(next(iter(problem["loc"]), "")))
                raise InputError(found.message, self.source.place(key)) from None
            names = names or [one.name for one in of_part(*parts) if one.name in self.values]
            raise self.fault(found.message, names or [of_part(*parts)[0].name], found.remedy) from None
        except ValueError as error:
            remedy = "write for example --client=command and --command='curl {url}'"
            raise self.fault(str(error), ("client", "command"), remedy) from None

    def _settings(self, part: Part) -> dict[str, Any]:
        given = ((one, self.values[one.name]) for one in of_part(part) if one.name in self.values)
        return {factor.setting: values if factor.several else values[0] for factor, values in given}

    def _check_clients(self, clients: Sequence[Client]) -> None:
        for client in clients:
            per_host, total = client.connections_per_host, client.connections_total
            if per_host > total:
                message = f"{per_host} connections to a host, but {client.profile} opens {total} in total"
                remedy = f"use at most {total}, or a larger --connections-total"
                raise self.fault(message, ("connections_per_host", "connections_total"), remedy)
        commands = any(client.command for client in clients) or "server" in self.values
        if True in self.values.get("isolate", ()) and not commands:
            remedy = "use --client=command or --server, or drop --isolate"
            raise self.fault("works only with a command or an external server", ("isolate",), remedy)
        for factor in of_part("client", "tls"):
            able = [one for one in CLIENTS.values() if factor.setting in one.takes]
            if not able or any(client.type in able for client in clients):
                continue
            usual = (Tls if factor.part == "tls" else Client).model_fields[factor.setting].default
            if any(value != usual for value in self.values.get(factor.name, ())):
                named = "/".join(one.label for one in able)
                remedy = f"use --client={named}, or drop {factor.flag}"
                raise self.fault(f"works only with --client={named}", (factor.name,), remedy)


def read_settings(
    written: Mapping[str, object],
    source: SettingSource,
    *,
    combine: object = "cross",
    folder: Path | None = None,
    named: object = None,
) -> RequestedSettings:
    """Check the settings that a user wrote, and convert them to base units. `written` maps their names to a
    value, a list, a comma-separated text, or None (not set). `named` lists names of networks, such as `4g`.
    `combine` and `folder` are those of RequestedSettings. Raises InputError, which names an invalid setting
    as the user wrote it in `source`: `--rtt`, or `network.rtt` in TOML."""
    if combine not in get_args(Combine):
        message = str(not_accepted(combine, get_args(Combine)))
        raise InputError(message, source.place(source.setting_of("combine")))
    values: dict[str, list[Any]] = {}
    problems: list[InputError] = []
    for name, value in written.items():
        if value is not None:
            with collected(problems):
                values[name] = _read(BY_NAME[name], value, source)
    networks: list[NamedNetwork] = []
    with collected(problems):
        networks = _read_named(named, values, source)
    raise_all(problems)
    return RequestedSettings(values, source, cast("Combine", combine), folder or Path(), tuple(networks))


def with_changes(experiment: Experiment, changes: Mapping[str, Any], source: SettingSource) -> Experiment:
    """Return a copy of the experiment with new values of some fields. Raises InputError if it is invalid."""
    with RequestedSettings({}, source).converted_errors():
        return Experiment(**{**dict(experiment), **changes})


def _located(words: Sequence[str], folder: Path) -> list[str]:
    """Return a command line with absolute paths of files. A program's name without a slash is unchanged."""
    located = list(words)
    for number, word in enumerate(words):
        path = (folder / word).absolute()
        if (number > 0 or "/" in word) and path.is_file():
            located[number] = str(path)
    return located


def _read_named(written: object, values: Mapping[str, object], source: SettingSource) -> list[NamedNetwork]:
    key = source.setting_of("network")
    place = source.place(key)
    names = _words(written, place) if isinstance(written, str) else written or []
    if not isinstance(names, list | tuple):
        raise InputError(f"{shown(names)} is not a list of names", place)
    for name in names:
        if name not in NAMED_NETWORKS:
            raise InputError(str(not_accepted(name, [*NAMED_NETWORKS])), place)
    if names and (taken := [name for name in _OF_THE_LINK if name in values]):
        own = source.key_of(BY_NAME[taken[0]])
        raise InputError(f"a named network sets {own} itself", place, f"remove {own} or {key}")
    return [NAMED_NETWORKS[name] for name in dict.fromkeys(names)]


def _read(factor: Factor, written: object, source: SettingSource) -> list[Any]:
    key = source.key_of(factor)
    parts: list[tuple[object, str]] = [(written, key)]
    if factor.several and isinstance(written, list | tuple):
        parts = [(one, f"{key}[{number}]") for number, one in enumerate(written)]
        if not parts:
            raise InputError("is an empty list", source.place(key), "drop it, or give a value")
    elif factor.several and isinstance(written, str):
        parts = [(one, key) for one in _words(written, source.place(key))]
    values: list[Any] = []
    for one, place in parts:
        try:
            value = factor.read(one)
        except UnitError as error:
            raise InputError(str(error), source.place(place)) from None
        if value not in values:
            values.append(value)
    return values


def _words(written: str, place: str) -> list[str]:
    """Split a text at its commas. Raises InputError if one of several words is empty."""
    words = [word.strip() for word in written.split(",")]
    if len(words) > 1 and not all(words):
        raise InputError("has an empty value", place, "remove the extra comma")
    return words


def networks_asked(**written: object) -> list[Network]:
    """Return a network for each combination of the values of settings, such as `rtt="20ms,100ms"`. Raises
    InputError if a value is invalid."""
    return read_settings(written, COMMAND_LINE).networks()


def setups_asked(**written: object) -> list[Setup]:
    """Return a setup (client and servers) for each combination of the values of settings, such as
    `profile="browser,mget"`. Raises InputError if a value is invalid."""
    return read_settings(written, COMMAND_LINE).arms_and_setups()[1]


def unknown(key: str, known: Iterable[str], place: str) -> InputError:
    """Return the error for a key that is not in `known`. It suggests a similar known key, if there is one."""
    listed = list(known)
    elsewhere = [one for one in listed if one.rpartition(".")[2] == key.rpartition(".")[2]]
    otherwise = did_you_mean(key, listed, "fastopen factors lists them")
    return InputError("unknown key", place, f"did you mean {elsewhere[0]}?" if elsewhere else otherwise)


def _tls(settings: Mapping[str, Any]) -> Tls | None:
    return None if settings["version"] is None else Tls.model_validate(settings)


def _needed(factor: Factor) -> Factor:
    assert factor.needs is not None
    field, _ = factor.needs
    return next(one for one in of_part(factor.part) if field in one.fields)


def _applying(values: Mapping[Factor, Any]) -> dict[Factor, Any]:
    """Return `values` without factors that have no effect, so that equivalent networks become equal."""
    return {
        factor: value
        for factor, value in values.items()
        if factor.needs is None or values.get(_needed(factor), factor.needs[1]) != factor.needs[1]
    }


def _network(values: Mapping[Factor, Any]) -> Network:
    document: dict[str, Any] = {
        way: {"rate_bit_per_s": None, "queue_bytes": None, "trace_ms": None} for way in DIRECTIONS
    }
    for factor, value in values.items():
        for path in factor.fields:
            *inner, last = path.split(".")
            reduce(dict[str, Any].__getitem__, inner, document)[last] = value
    for limit in (document[way] for way in DIRECTIONS):
        if limit["queue_bytes"] == DEFAULT_QUEUE:
            rate = mean_rate_bit_per_s(limit["rate_bit_per_s"], limit["trace_ms"])
            limit["queue_bytes"] = default_queue_bytes(rate)
    return Network.model_validate(document)
