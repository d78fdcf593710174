"""Make clients and setups from lists of values, one for each combination of values."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from fastopen.contract import Client, Origins, Tcp, Tls
from fastopen.contract.client_kinds import COMMAND, LOADER, OWN_SETTINGS, PICTURES
from fastopen.experiments.client_settings import client_of, with_bodies_for
from fastopen.experiments.model import Setup

T = TypeVar("T")
# Settings whose value is a list. For all other settings, a list means several values to compare.
LISTS: Final = ("phases", "command", "http2_hosts", "http3_hosts", "path_hosts", "server", "server_hosts")

# Settings that avoid the additional round trips of large certificates: sessions that are resumed without
# certificates, also with early data; compressed certificates; a larger initial window.
REMEDIES: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("tls", {"session": "resumed"}),
    ("tls", {"session": "early"}),
    ("tls", {"certificate_compression": "brotli"}),
    ("tcp", {"initial_window_segments": 32}),
)


def multiplied(make: Callable[[dict[str, Any]], T], settings: Mapping[str, Any]) -> list[T]:
    """Call `make` with each combination of the settings' values, and return the distinct results. A list
    stands for several values, except for settings in LISTS, which have a list as their value."""
    lists = [
        value if isinstance(value, list) and value and key not in LISTS else [value]
        for key, value in settings.items()
    ]
    made = (make(dict(zip(settings, values, strict=True))) for values in product(*lists))
    return list({repr(one): one for one in made}.values())


def clients_of(settings: Mapping[str, Any]) -> list[Client]:
    """Return a client for each combination of the settings' values; a list means several values. Raises
    ValueError for an unusable `kind` or `command`, and ValidationError for other invalid values."""
    kinds = settings.get("kind")
    if "command" in settings and COMMAND.label not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ValueError("works only with --client=command")
    return multiplied(client_of, settings)


def with_clients(setups: Sequence[Setup], kinds: Sequence[str]) -> list[Setup]:
    """Return the setups with their client replaced by each of these kinds of clients. A new client keeps the
    settings that it supports. Raises ValueError for an unknown kind, or a kind that needs a command line."""
    own = {"kind", "name", "command"}
    # If any old setup keeps screenshots or filmstrips, all new setups do, because these do not change loads.
    pictures = {key: any(getattr(setup.client, key) for setup in setups) for key in PICTURES}
    made: dict[str, Setup] = {}
    for setup in setups:
        others = set(OWN_SETTINGS) - setup.client.type.takes
        settings = setup.client.model_dump(exclude=own | others) | pictures
        clients = clients_of({**settings, "kind": list(kinds)})
        made |= {repr(one): one for one in setups_of(clients, [setup.origins], [setup.tcp], [setup.tls])}
    return list(made.values())


def setups_of(
    clients: Sequence[Client],
    origins: Sequence[Origins],
    tcps: Sequence[Tcp],
    tls: Sequence[Tls | None] = (None,),
) -> list[Setup]:
    """Return a setup for each combination of client, origins, TCP and TLS, without duplicates."""
    made = (_setup(*one) for one in product(clients, origins, tcps, tls))
    return list({repr(one): one for one in made}.values())


def _setup(client: Client, origins: Origins, tcp: Tcp, tls: Tls | None) -> Setup:
    """Make a setup. Change settings ruled out by others, such as `ech` if the client does not support it."""
    if tls is None and origins.http == "recorded":
        origins = origins.model_copy(update={"http": "1.1"})
    if tls is not None:
        usual = Tls()
        changes = {name: getattr(usual, name) for name in {"key_share", "ech"} - client.type.takes}
        if origins.bodies == "recorded" and "security" not in tls.model_fields_set:
            changes["security"] = "recorded"  # URLs in recorded bodies keep their schemes
        tls = tls.model_copy(update=changes)
    return Setup(client=client, origins=with_bodies_for(client, origins), tcp=tcp, tls=tls)


def with_remedies(setups: Sequence[Setup]) -> list[Setup]:
    """Return the setups, and variants with one setting that avoids additional round trips for large TLS
    certificates, such as compression. Only setups with TLS and the client `loader` have variants."""
    made = list(setups)
    for (part, remedy), setup in product(REMEDIES, setups):
        if setup.client.type is LOADER and setup.tls is not None:
            settings = getattr(setup, part)
            with suppress(ValidationError):  # for example, early data needs TLS 1.3
                remedied = type(settings).model_validate(settings.model_dump() | remedy)
                made.append(setup.model_copy(update={part: remedied}))
    return list({repr(one): one for one in made}.values())
