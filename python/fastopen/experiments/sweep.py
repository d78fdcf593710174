"""Lists of settings multiplied out, each value with each other or first with first: networks and setups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel

from fastopen.contract import Client, Network, Origins, RateLimit, Tcp, Tls
from fastopen.experiments.clients import client_of, with_bodies_for
from fastopen.experiments.model import Setup, default_queue_bytes
from fastopen.experiments.trace import mean_rate_bit_per_s

T = TypeVar("T", bound=BaseModel)
# Settings whose own value is a list: they stand for one thing, not for several to be compared.
LISTS: Final = ("phases", "command", "http2_hosts")
Combine = Literal["cross", "zip"]
Link = Literal["auto", "program", "kernel"]
Queue = int | None | Literal["default"]


@dataclass(frozen=True)
class AskedNetworks:
    """A list of values for each thing that makes a network; in microseconds, bit/s, bytes and fractions."""

    down: Sequence[int | None]
    up: Sequence[int | None]
    queue: Sequence[Queue]
    loss: Sequence[float]
    rtt: Sequence[int]

    def combined(self, combine: Combine) -> Iterator[Self]:
        """Each single network that is asked for. Raises ValueError where lists to be zipped differ in length.

        Crossed, the RTT changes fastest. Zipped, a list of one value goes with all values of the others.
        """
        lists = {field.name: getattr(self, field.name) for field in fields(self)}
        if combine == "cross":
            yield from (type(self)(*([value] for value in values)) for values in product(*lists.values()))
            return
        lengths = {name: len(values) for name, values in lists.items() if len(values) > 1}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"lists that are combined first with first are equally long: {told} values")
        longest = max(lengths.values(), default=1)
        stretched = [values if len(values) > 1 else [values[0]] * longest for values in lists.values()]
        yield from (type(self)(*([value] for value in values)) for values in zip(*stretched, strict=True))


def networks_of(
    asked: AskedNetworks,
    combine: Combine = "cross",
    extra_rtt_us: Mapping[str, int] | None = None,
    traces_ms: tuple[list[int] | None, list[int] | None] = (None, None),
    link: Link = "auto",
) -> list[Network]:
    """The networks in base units, each once; a trace (down, up) stands for the rate of its direction.
    `link` says who makes the access link, see docs/contract.md.

    Raises ValueError or ValidationError where they cannot be made.
    """
    settings = dict.fromkeys(tuple(value[0] for value in astuple(one)) for one in asked.combined(combine))
    return [
        Network(
            rtt_us=rtt_us,
            down=_direction(down, traces_ms[0], queue, loss),
            up=_direction(up, traces_ms[1], queue, loss),
            host_extra_rtt_us=dict(extra_rtt_us or {}),
            link=link,
        )
        for down, up, queue, loss, rtt_us in settings
    ]


def _direction(rate: int | None, trace_ms: list[int] | None, queue: Queue, loss: float) -> RateLimit:
    if queue == "default":
        queue = default_queue_bytes(rate if trace_ms is None else mean_rate_bit_per_s(trace_ms))
    return RateLimit(rate_bit_per_s=rate, trace_ms=trace_ms, queue_bytes=queue, loss=loss)


def multiplied(model: type[T], settings: Mapping[str, Any]) -> list[T]:
    """A `model` for each value with each other of the settings that are lists, each once.

    A setting whose own value is a list (LISTS) is taken as it is. Raises ValidationError.
    """
    return _each_once(model.model_validate(one) for one in _combinations(settings))


def clients_of(settings: Mapping[str, Any]) -> list[Client]:
    """A client for each value with each other of the settings that are lists, each once; see `client_of`.

    `command` goes with the kind `command` alone. Raises ValueError and ValidationError.
    """
    kinds = settings.get("kind", "loader")
    if "command" in settings and "command" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ValueError("a command goes with the client command")
    combinations = _combinations(settings)
    return _each_once(
        client_of(
            {key: value for key, value in one.items() if key != "command" or one.get("kind") == "command"}
        )
        for one in combinations
    )


def _combinations(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = [
        value if isinstance(value, list) and value and key not in LISTS else [value]
        for key, value in settings.items()
    ]
    return [dict(zip(settings, values, strict=True)) for values in product(*lists)]


def _each_once(models: Iterable[T]) -> list[T]:
    return list({one.model_dump_json(): one for one in models}.values())


def with_clients(setups: Sequence[Setup], kinds: Sequence[str]) -> list[Setup]:
    """Each setup with these clients in place of its own, as far as they have its settings.

    Raises ValueError where one of `kinds` is none, or needs a command line.
    """
    own = {"kind", "name", "command"}
    # What pictures are wanted of does not change what is loaded: the wish is the experiment's.
    pictures = any(setup.client.screenshot for setup in setups)
    told: list[Setup] = []
    for setup in setups:
        settings = setup.client.model_dump(exclude=own) | {"screenshot": pictures}
        clients = clients_of({**settings, "kind": list(kinds)})
        told += setups_of(clients, [setup.origins], [setup.tcp], [setup.tls])
    return _each_once(told)


def tls_settings(settings: Mapping[str, Any]) -> list[Tls | None]:
    """Each TLS that is asked for; its `version` may also be `none`: in the clear. Raises ValidationError."""
    given = settings.get("version", "1.3")
    versions = given if isinstance(given, list) else [given]
    spoken = [version for version in versions if version != "none"]
    over: list[Tls | None] = [None] if len(spoken) < len(versions) else []
    if spoken:
        over.extend(multiplied(Tls, {**settings, "version": spoken}))
    return over


def setups_of(
    clients: Sequence[Client],
    origins: Sequence[Origins],
    tcps: Sequence[Tcp],
    tls: Sequence[Tls | None] = (None,),
) -> list[Setup]:
    """Each client with each way of answering, each TCP and each TLS, each combination once."""
    setups: list[Setup] = []
    for client, answering, tcp, encrypted in product(clients, origins, tcps, tls):
        setup = Setup(
            client=client,
            origins=with_bodies_for(client, answering),
            tcp=tcp,
            tls=_of_client(client, encrypted),
        )
        if setup not in setups:
            setups.append(setup)
    return setups


def _of_client(client: Client, tls: Tls | None) -> Tls | None:
    """What a ClientHello bets on can be told to the loader alone: other clients send what they send."""
    if tls is None or client.kind == "loader":
        return tls
    return tls.model_copy(update={"key_share": Tls().key_share})
