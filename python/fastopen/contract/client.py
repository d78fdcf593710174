"""Define the client of a job: its settings, and the capabilities that the settings require."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from fastopen.common.pydantic_errors import conflict
from fastopen.contract.clients import (
    CLIENTS,
    COMMAND,
    LOADER,
    PICTURES,
    ClientKind,
    ClientType,
    client_type,
)
from fastopen.contract.part import RTT_MAX_US, NotEmpty, Part, Scale, Word
from fastopen.pages.model import Phase

RequestHeads = Literal["own", "recorded"]
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "browser": {"connections_per_host": 6, "connections_total": 256, "keep_alive": True},
    "mget": {"connections_per_host": 5, "connections_total": 5, "keep_alive": False},
}
# Settings that may be null. If null, they have the profile's value, if any, or their default.
_NULL_IS_DEFAULT: Final = (*PROFILES["browser"], "processing_scale", "phases")

# Settings that not every client supports, each with the message of the error and a remedy, if there is one in
# addition to using another client.
_NEED_A_CAPABILITY: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(PICTURES, ("{} draws no pictures", "")),
    "view": ("{} has no cache", "--view=first"),
    "fixed_scripts": ("{} runs no scripts", "--fixed-scripts=off"),
    "h3_fallback_us": ("{} has its own rule for falling back to TCP", "--h3-fallback=none"),
    "request_heads": ("fastopen cannot set the request headers of {}", "--request-heads=own"),
}


def _with_nulls(schema: dict[str, Any]) -> None:
    """Make the schema allow null, or omission, for the settings that the profile fills in."""
    for key in _NULL_IS_DEFAULT:
        given = schema["properties"][key]
        schema["properties"][key] = {
            "anyOf": [given, {"type": "null"}],
            "default": given.pop("default", None),
        }
    schema["required"] = [key for key in schema["required"] if key not in _NULL_IS_DEFAULT]


class Client(Part):
    """The client that loads the page, with its settings. Omitted settings have the profile's values. In an
    experiment, the words of `command` may contain placeholders; in a job, they are the words to run."""

    model_config = ConfigDict(json_schema_extra=_with_nulls)

    kind: ClientKind = LOADER.kind
    """The built-in loader, a command, or Chromium (see below)."""
    name: NotEmpty | None = None
    """The name in tables, if it is not the kind."""
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    """The program and its arguments: required with the kind `command`, forbidden with other kinds. No word
    contains a NUL or is longer than 131,071 bytes, and the first word is not empty."""
    isolate: bool = False
    """True if a command sees only programs, libraries, fonts and certificates instead of all files of the
    machine (docs/security.md). Clients of other kinds never see more than that."""
    exit_codes: list[Annotated[int, Field(ge=1, le=255)]] = Field(default=[])
    """Exit codes, in addition to 0, that mean that a command has loaded the page. Some programs have a code
    for HTTP errors, and a recorded page may contain such errors."""
    profile: Literal["browser", "mget"] = "browser"
    """The order of the loader's requests: that of a browser (`browser`), or of a parallel downloader that has
    a list of URLs (`mget`). The profile also sets the values of keys that are null."""
    connections_per_host: Annotated[int, Field(ge=1, le=256)]
    """Parallel connections to one server, with HTTP/1; null: 6, with `mget` 5."""
    connections_total: Annotated[int, Field(ge=1, le=4096)]
    """Parallel connections to all servers; null: 256, with `mget` 5."""
    keep_alive: bool
    """True if a connection may carry more than one request; null: true, with `mget` false."""
    processing_scale: Scale = 1.0
    """The factor by which the page's processing times are multiplied; null: 1. `mget` has no processing."""
    phases: Annotated[list[Phase], Field(min_length=1)] = Field(default=["load", "async"])
    """The phases to load; `load` is required. null: the default."""
    fixed_scripts: bool = False
    """True if scripts of the page get the same times and random numbers in each load (only in `chromium`,
    which runs scripts): `Date` begins at the time of the recording and advances with each call, and
    `Math.random` returns a fixed sequence."""
    screenshot: bool = False
    """True to keep a picture of the page at the end of a load, for clients that draw pictures
    (`chromium`)."""
    filmstrip: bool = False
    """True to keep a picture of the page at each change, for clients that draw pictures (`chromium`)."""
    view: Literal["first", "repeat"] = "first"
    """`first`, or for clients with a cache (`chromium`) `repeat`: each load is a second view of the page,
    with the cache that a first view has filled."""
    request_heads: RequestHeads = "own"
    """`own`: the client chooses the heads of its requests. `recorded` (only `chromium`): requests have the
    page's `request_header_bytes`, see [Chromium](chromium.md#request-heads). The loader's requests always
    have this size."""
    h3_fallback_us: Annotated[int, Field(ge=0, le=RTT_MAX_US)] | None = None
    """The time without a complete QUIC handshake, counted for each host, after which the loader also opens a
    TCP connection with HTTP/2. The loader then uses the connection that is ready first. null: only QUIC."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_profile(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        profile = data.get("profile", "browser")
        defaults = PROFILES.get(profile, {}) if isinstance(profile, str) else {}
        given = {
            key: value for key, value in data.items() if value is not None or key not in _NULL_IS_DEFAULT
        }
        return {**defaults, **given}

    @property
    def label(self) -> str:
        return self.name or self.kind

    @property
    def type(self) -> ClientType:
        return client_type(self.kind, self.label)

    @model_validator(mode="after")
    def _the_client_can_do_it(self) -> Self:
        if (self.kind == COMMAND.kind) != (self.command is not None):
            raise ValueError("command needs the kind command, and the kind command needs it")
        if self.command and not self.command[0]:
            raise ValueError("the first word of command is empty")
        for key, (message, otherwise) in _NEED_A_CAPABILITY.items():
            if getattr(self, key) != type(self).model_fields[key].default:
                can = partial(_has, key)
                require(self, can, message.format(self.label), otherwise, f"client.{key}")
        if "load" not in self.phases:
            raise conflict("the phase load is missing", "add it", "client.phases")
        return self


def _has(setting: str, client: ClientType) -> bool:
    return client.cache if setting == "view" else setting in client.takes


def require(
    client: Client, can: Callable[[ClientType], bool], message: str, otherwise: str, *keys: str
) -> None:
    """Raise an error unless `can` is true for the client's type. The remedy names the clients for which it is
    true, and `otherwise`, a second remedy, if this is not empty."""
    if not can(client.type):
        able = "/".join(one.label for one in CLIENTS.values() if can(one))
        remedy = f"use --client={able}" + (f", or {otherwise}" if otherwise else "")
        raise conflict(message, remedy, "client.kind", *keys)
