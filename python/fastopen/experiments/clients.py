"""Clients by name: what `curl` and `wget2` stand for, and how an experiment's client becomes a job's.

A command's words may hold placeholders, which are filled in for each page: `{url}` is the page's own URL,
`{urls}` (a word of its own) all that a load asks for, `{http}` the version of HTTP.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from fastopen import units
from fastopen.contract import Client, Origins
from fastopen.pages import Page

KINDS: Final = ("loader", "chromium", "curl", "wget2", "command")
URL: Final = "{url}"
URLS: Final = "{urls}"
HTTP: Final = "{http}"
BROWSER_ONLY: Final = ("screenshot",)
PORTS: Final = {"http": 80, "https": 443}


def client_of(settings: Mapping[str, Any]) -> Client:
    """A client as the command line and experiments name it; `kind` is one of KINDS, `command` a command line.

    Raises ValueError and ValidationError where they do not fit.
    """
    given = dict(settings)
    kind = given.pop("kind", "loader")
    line = given.pop("command", None)
    if kind not in KINDS:
        raise ValueError(f"client {kind!r} is none of {', '.join(KINDS)}")
    if kind != "command":
        if line is not None:
            raise ValueError("a command goes with the client command")
        if kind == "chromium":
            return Client.model_validate({**_without(given, ("profile",)), "kind": kind})
        given = _without(given, BROWSER_ONLY)
        return Client.model_validate(given) if kind == "loader" else _named(kind, given)
    words = _words(line)
    name = PurePath(words[0]).name
    name = "command" if name in KINDS else name
    return _command(given, name, words)


def _words(line: object) -> list[str]:
    words = shlex.split(line) if isinstance(line, str) else line
    if not isinstance(words, list) or not words:
        raise ValueError("the client command needs its command line")
    if not any(URL in str(word) for word in words) and URLS not in words:
        raise ValueError(f"the command has neither {URL} nor {URLS}: it would not know what to load")
    if any(URLS in str(word) and word != URLS for word in words):
        raise ValueError(f"{URLS} stands for several words: it is a word of its own")
    return [str(word) for word in words]


def _command(settings: Mapping[str, Any], name: str, words: list[str]) -> Client:
    # Profiles and processing times are the loader's.
    own = _without(settings, ("profile", "processing_scale", "phases", *BROWSER_ONLY))
    return Client.model_validate({**own, "kind": "command", "name": name, "command": words})


def _without(settings: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def _named(name: str, settings: Mapping[str, Any]) -> Client:
    client = _command(settings, name, [name])
    words = (_curl if name == "curl" else _wget2)(client)
    return client.model_copy(update={"command": words})


def _curl(client: Client) -> list[str]:
    """Everything that the load event waits for, at once; curl reads no pages."""
    words = ["curl", "--silent", "--show-error", "--globoff", f"--http{HTTP}"]
    words += ["--parallel", "--parallel-max", str(client.connections_per_host)]
    if not client.keep_alive:
        words += ["--header", "Connection: close"]
    return [*words, URLS]


def _wget2(client: Client) -> list[str]:
    """The page and what it finds in HTML and CSS; it runs no scripts. Fast Open is the kernel's affair."""
    words = [
        "wget2",
        "--quiet",
        "--page-requisites",
        "--span-hosts",
        f"--max-threads={client.connections_per_host}",
    ]
    words += ["--tries=1", "--robots=off", "--no-hsts", "--no-hpkp", "--no-ocsp", "--http2=off"]
    words += ["--no-tcp-fastopen", f"--http-keep-alive={units.on_off(client.keep_alive)}"]
    return [*words, "--output-document=/dev/null", URL]


def filled_in(client: Client, page: Page, origins: Origins, *, encrypted: bool = False) -> Client:
    """The client of a job: with the page's URLs in place of placeholders."""
    if client.command is None:
        return client
    words: list[str] = []
    for word in client.command:
        if word == URLS:
            words += asked_for(page, encrypted=encrypted)
        else:
            url = served_as(page.resources[0].url, encrypted=encrypted)
            words.append(word.replace(URL, url).replace(HTTP, origins.http))
    return client.model_copy(update={"command": words})


def asked_for(page: Page, *, encrypted: bool = False) -> list[str]:
    """The URLs that a load of the page gets before its load event, each once."""
    wanted = (one for one in page.resources if one.phase == "load" and one.method == "GET")
    return list(dict.fromkeys(served_as(one.url, encrypted=encrypted) for one in wanted))


def served_as(url: str, *, encrypted: bool = False) -> str:
    """The URL under which a world's origins serve a resource: `encrypted` or not, on the port that it has."""
    parts = urlsplit(url)
    scheme, usual = ("https", 443) if encrypted else ("http", 80)
    if parts.scheme == scheme:
        return url
    port = parts.port or PORTS[parts.scheme]
    host = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
    place = host if port == usual else f"{host}:{port}"
    return url.replace(f"{parts.scheme}://{parts.netloc}", f"{scheme}://{place}", 1)


def with_bodies_for(client: Client, origins: Origins) -> Origins:
    """Bodies that a client can read, where nobody chose: the loader alone needs none."""
    if client.kind == "loader" or "bodies" in origins.model_fields_set:
        return origins
    return origins.model_copy(update={"bodies": "synthetic"})
