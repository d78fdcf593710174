"""Lists of settings multiplied out, each value with each other: clients, TLS, and both together as setups."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from fastopen.clients import COMMAND
from fastopen.contract import Client, Origins, Tcp, Tls
from fastopen.experiments.clients import client_of, with_bodies_for
from fastopen.experiments.model import Setup

T = TypeVar("T", bound=BaseModel)
# Settings whose own value is a list: they stand for one thing, not for several to be compared.
LISTS: Final = ("phases", "command", "http2_hosts")


def multiplied(model: type[T], settings: Mapping[str, Any]) -> list[T]:
    """A `model` for each value with each other of the settings that are lists, each once.

    A setting whose own value is a list (LISTS) is taken as it is. Raises ValidationError.
    """
    return _each_once(model.model_validate(one) for one in _combinations(settings))


def clients_of(settings: Mapping[str, Any]) -> list[Client]:
    """A client for each value with each other of the settings that are lists, each once; see `client_of`.

    `command` goes with the kind `command` alone. Raises ValueError and ValidationError.
    """
    kinds = settings.get("kind")
    if "command" in settings and COMMAND.label not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ValueError("a command goes with the client command")
    combinations = _combinations(settings)
    return _each_once(
        client_of(
            {key: value for key, value in one.items() if key != "command" or one.get("kind") == COMMAND.label}
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
    made: list[Setup] = []
    for setup in setups:
        settings = setup.client.model_dump(exclude=own) | {"screenshot": pictures}
        clients = clients_of({**settings, "kind": list(kinds)})
        made += setups_of(clients, [setup.origins], [setup.tcp], [setup.tls])
    return _each_once(made)


def tls_settings(settings: Mapping[str, Any]) -> list[Tls | None]:
    """Each TLS that is asked for; its `version` may also be `none`: in the clear. Raises ValidationError."""
    given = settings.get("version", "1.3")
    versions = given if isinstance(given, list) else [given]
    spoken = [version for version in versions if version not in ("none", None)]
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
    """Key shares can be set for some clients alone: others send what they send."""
    if tls is None or "key_share" in client.type.takes:
        return tls
    return tls.model_copy(update={"key_share": Tls().key_share})
