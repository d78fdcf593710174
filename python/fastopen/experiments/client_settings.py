"""Turn settings into an experiment's client, such as curl, and put a page's URLs into its command line."""

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from fastopen.contract import Client, Origins, Tls
from fastopen.contract.client import RequestHeads
from fastopen.contract.client_kinds import (
    CLIENTS,
    COMMAND,
    CONNECTIONS,
    HTTP,
    KEEP_ALIVE,
    LOADER,
    OWN_SETTINGS,
    URL,
    URLS,
    ClientType,
)
from fastopen.experiments.quantities import not_accepted
from fastopen.pages import Page
from fastopen.pages.url import with_scheme

KINDS: Final = tuple(CLIENTS)


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
