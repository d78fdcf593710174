"""Turn settings into setups of client and servers, one for each combination of values. Fill in the parts of a
setup that depend on a page: the URLs in a client's command line, and the HTTP version of each host."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import PurePath
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from fastopen.contract import Client, Origins, Tcp, Tls
from fastopen.contract.client import RequestHeads
from fastopen.contract.client_kinds import (
    CLIENTS,
    COMMAND,
    CONNECTIONS,
    HTTP,
    KEEP_ALIVE,
    LOADER,
    OWN_SETTINGS,
    PICTURES,
    URL,
    URLS,
    ClientType,
)
from fastopen.contract.network import QUIC_CONGESTION_CONTROLS, Network
from fastopen.contract.origins import Http
from fastopen.experiments.model import Setup
from fastopen.experiments.quantities import not_accepted
from fastopen.pages import Page
from fastopen.pages.url import with_scheme

KINDS: Final = tuple(CLIENTS)
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
# Newest first: a version that a setup does not support is replaced by the next older version.
_VERSIONS: Final[tuple[Http, ...]] = ("3", "2")


def client_of(settings: Mapping[str, Any]) -> Client:
    """Return the client with these settings. The keys are fields of `Client`. `kind` names the program that
    loads pages, by default fastopen's own `loader`. Settings that this program does not support are ignored.
    `command` is a command line, as text or as a list of words. Raises ValueError for an invalid kind or
    command, and ValidationError for other invalid values."""
    asked = settings.get("kind", LOADER.label)
    if asked not in CLIENTS:
        raise not_accepted(asked, KINDS)
    of = CLIENTS[asked]
    others = set(OWN_SETTINGS) - of.takes
    given: dict[str, Any] = {key: value for key, value in settings.items() if key not in others}
    given["kind"] = of.kind
    given.setdefault("request_heads", default_request_heads(of))
    line = given.pop("command", None)
    if of is COMMAND:
        words = _words(line)
        name = PurePath(words[0]).name
        return Client.model_validate(
            {**given, "name": COMMAND.label if name in CLIENTS else name, "command": words}
        )
    if not of.command_line:
        return Client.model_validate(given)
    client = Client.model_validate({**given, "name": of.label, "command": [of.label]})
    line = of.command_line.replace(KEEP_ALIVE, of.kept if client.keep_alive else of.closed)
    line = line.replace(CONNECTIONS, str(client.connections_per_host))
    return client.model_copy(update={"command": shlex.split(line)})


def _words(line: object) -> list[str]:
    words = shlex.split(line) if isinstance(line, str) else line
    if not isinstance(words, list) or not words:
        raise ValueError("the client command needs --command, the command line to run")
    if not any(URL in str(word) for word in words) and URLS not in words:
        raise ValueError(f"the command line has neither {URL} nor {URLS}, so it cannot load the page")
    if any(URLS in str(word) and word != URLS for word in words):
        raise ValueError(f"{URLS} must be a word of its own, since it stands for several")
    return [str(word) for word in words]


def filled_in(client: Client, page: Page, origins: Origins, tls: Tls | None = None) -> Client:
    """Return the client with a page's URLs and HTTP version instead of placeholders in its command line."""
    if client.command is None:
        return client
    words: list[str] = []
    for word in client.command:
        if word == URLS:
            words += requested_urls(page, tls)
        else:
            url = served_url(page.resources[0].url, tls)
            version = client.type.http_words.get(origins.versions[0], origins.versions[0])
            words.append(word.replace(URL, url).replace(HTTP, version))
    return client.model_copy(update={"command": words})


def requested_urls(page: Page, tls: Tls | None = None) -> list[str]:
    """Return the distinct URLs that a client has to GET before the load event: those in the phase `load`."""
    wanted = (one for one in page.resources if one.phase == "load" and one.method == "GET")
    return list(dict.fromkeys(served_url(one.url, tls) for one in wanted))


def served_url(url: str, tls: Tls | None = None) -> str:
    """Return the URL at which the emulated servers serve a resource: with the scheme `http` if `tls` is None,
    unchanged if `tls.security` is `recorded`, and otherwise with `https`. The port stays the same."""
    if tls is not None and tls.security == "recorded":
        return url
    return with_scheme(url, "http" if tls is None else "https")


def default_request_heads(of: ClientType) -> RequestHeads:
    """Return the default of `request_heads`: `recorded` if the client can send recorded heads, else `own`."""
    return "recorded" if "request_heads" in of.takes else "own"


def with_bodies_for(client: Client, origins: Origins) -> Origins:
    """Return `origins`, with `bodies` set to `synthetic` if it is unset and the client reads bodies."""
    if not client.type.reads_bodies or "bodies" in origins.model_fields_set:
        return origins
    return origins.model_copy(update={"bodies": "synthetic"})


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
    """Make a setup. Change conflicting settings, such as `ech` if the client does not support it."""
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


def http_words(http: str) -> str:
    """Return a requested HTTP version in words: `HTTP/2`, or `HTTP as recorded`."""
    return "HTTP as recorded" if http == "recorded" else f"HTTP/{http}"


def as_recorded(setup: Setup, page: Page, network: Network) -> Origins:
    """Return the settings of the setup's servers. If their HTTP version is `recorded`, choose a version for
    each host: the newest version up to the recorded one that the setup and the network support."""
    origins = setup.origins
    if origins.http != "recorded":
        return origins
    named = {*origins.http2_hosts, *origins.http3_hosts}
    tls, supported = setup.tls, list[Http]()
    if tls is not None and not origins.closes:
        quic = tls.version == "1.3" and setup.tcp.congestion_control in QUIC_CONGESTION_CONTROLS
        quic &= network.mtu_bytes >= network.quic_mtu_min_bytes
        able = setup.client.type.http_over_tls
        supported = [one for one in _VERSIONS if one in able and (quic or one != "3")]
    hosts: dict[str, list[str]] = {"2": list(origins.http2_hosts), "3": list(origins.http3_hosts)}
    newest: dict[str, Http] = dict.fromkeys(page.hosts(), "1.1")
    for resource in page.resources:
        if resource.encrypted and resource.http is not None:
            newest[resource.host] = max(newest[resource.host], resource.http)
    for host, version in newest.items():
        spoken = next((one for one in supported if one <= version), None)
        if host not in named and spoken is not None:
            hosts[spoken].append(host)
    return origins.model_copy(update={"http": "1.1", "http2_hosts": hosts["2"], "http3_hosts": hosts["3"]})
