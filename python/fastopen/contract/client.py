"""Define the settings of the client that loads a page, and check that the type of client supports them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from fastopen.common.pydantic_errors import conflict
from fastopen.contract.client_kinds import CLIENTS, COMMAND, LOADER, PICTURES, ClientKind, ClientType
from fastopen.contract.part import RTT_MAX_US, NotEmpty, Part, Scale, Word
from fastopen.pages.model import Phase

RequestHeads = Literal["own", "recorded"]
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "browser": {"connections_per_host": 6, "connections_total": 256, "keep_alive": True},
    "mget": {"connections_per_host": 5, "connections_total": 5, "keep_alive": False},
}
# If one of these settings is null, it has the profile's value or, if the profile sets none, its default.
_NULL_IS_DEFAULT: Final = (*PROFILES["browser"], "processing_scale", "phases")

# Maps settings that only some clients support to an error message and a remedy (or "") that keeps the client.
_NEED_A_CAPABILITY: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(PICTURES, ("{} draws no pictures", "")),
    "view": ("{} has no cache", "--view=first"),
    "fixed_scripts": ("{} runs no scripts", "--fixed-scripts=off"),
    "h3_fallback_us": ("{} has its own rule for falling back to TCP", "--h3-fallback=none"),
    "request_heads": ("fastopen cannot set the request headers of {}", "--request-heads=own"),
}


def _with_nulls(schema: dict[str, Any]) -> None:
    properties = schema["properties"]
    for key in _NULL_IS_DEFAULT:
        given = properties[key]
        properties[key] = {"anyOf": [given, {"type": "null"}], "default": given.pop("default", None)}
    schema["required"] = [key for key in schema["required"] if key not in _NULL_IS_DEFAULT]


class Client(Part):
    """The client that loads the page, such as a browser. `profile` selects the order of requests, `phases`
    the resources to load. In a job, `command` contains URLs, not placeholders such as `{url}`."""

    model_config = ConfigDict(json_schema_extra=_with_nulls)

    kind: ClientKind = LOADER.kind
    """The built-in loader, a command line, or the browser Chromium."""
    name: NotEmpty | None = None
    """The client's name in tables; null: the value of `kind`."""
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    """The program and its arguments: required with the kind `command`, forbidden with other kinds. No word
    may contain a NUL or be longer than 131,071 bytes, and the first word must not be empty."""
    isolate: bool = False
    """True if a command sees only programs, libraries, fonts and certificates instead of all files of the
    machine (docs/security.md). Other kinds of clients always see only these files."""
    exit_codes: list[Annotated[int, Field(ge=1, le=255)]] = Field(default=[])
    """Exit codes of a command that count as success, in addition to 0. Some programs have an exit code for
    HTTP errors, which a recorded page may contain."""
    profile: Literal["browser", "mget"] = "browser"
    """The order of the loader's requests. `browser`: as in a browser. `mget`: as in a parallel downloader of
    listed URLs. The profile sets `connections_per_host`, `connections_total` and `keep_alive` if null."""
    connections_per_host: Annotated[int, Field(ge=1, le=256)]
    """The maximum number of parallel connections to one server, with HTTP/1; null: 6, or 5 with `mget`."""
    connections_total: Annotated[int, Field(ge=1, le=4096)]
    """The maximum number of parallel connections to all servers; null: 256, or 5 with `mget`."""
    keep_alive: bool
    """True if a connection may carry more than one request; null: true, or false with `mget`."""
    processing_scale: Scale = 1.0
    """The factor by which the page's processing times are multiplied; null: 1. `mget` ignores these times."""
    phases: Annotated[list[Phase], Field(min_length=1)] = Field(default=["load", "async"])
    """Resources are loaded if their `phase` is in this list; `load` is required. null: `load` and `async`."""
    fixed_scripts: bool = False
    """True if the page's scripts get the same times and random numbers in each load (only in `chromium`):
    `Date` begins at the recording's time and advances with each call. `Math.random` has a fixed sequence."""
    screenshot: bool = False
    """True to keep a screenshot of the page at the end of a load (only with `chromium`)."""
    filmstrip: bool = False
    """True to keep a screenshot of the page at each visual change (only with `chromium`)."""
    view: Literal["first", "repeat"] = "first"
    """`first`: each load is the first view of the page. `repeat` (only clients with a cache, so `chromium`):
    each load is a second view, with the cache that a first view has filled."""
    request_heads: RequestHeads = "own"
    """`own`: the client chooses the heads of its requests. `recorded` (only `chromium`): heads have the
    page's sizes (`request_header_bytes`), see [Chromium](chromium.md#request-heads). The loader's heads
    always have these sizes."""
    h3_fallback_us: Annotated[int, Field(ge=0, le=RTT_MAX_US)] | None = None
    """The time that a QUIC handshake with a host may take before the loader also opens a TCP connection with
    HTTP/2 to this host. The loader then uses the connection that is ready first. null: only QUIC."""

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
        """Return the client's type. A command named after a known tool, such as curl, has the tool's type."""
        found = CLIENTS.get(self.label if self.kind == COMMAND.kind else self.kind, COMMAND)
        return found if found.kind == self.kind else COMMAND

    @model_validator(mode="after")
    def _settings_are_supported(self) -> Self:
        if (self.kind == COMMAND.kind) != (self.command is not None):
            raise ValueError("command needs the kind command, and the kind command needs it")
        if self.command and not self.command[0]:
            raise ValueError("the first word of command is empty")
        for key, (message, otherwise) in _NEED_A_CAPABILITY.items():
            if getattr(self, key) != type(self).model_fields[key].default:
                require(self, partial(_has, key), message.format(self.label), otherwise, f"client.{key}")
        if "load" not in self.phases:
            raise conflict("the phase load is missing", "add it", "client.phases")
        return self


def _has(setting: str, client: ClientType) -> bool:
    return client.cache if setting == "view" else setting in client.takes


def require(
    client: Client, can: Callable[[ClientType], bool], message: str, otherwise: str, *keys: str
) -> None:
    """Raise an error with `message` about the settings `keys` if `can` returns False for the client's type.
    The error's remedy lists clients for which `can` returns True, and the alternative `otherwise`, if any."""
    if not can(client.type):
        able = "/".join(one.label for one in CLIENTS.values() if can(one))
        remedy = f"use --client={able}" + (f", or {otherwise}" if otherwise else "")
        raise conflict(message, remedy, "client.kind", *keys)
