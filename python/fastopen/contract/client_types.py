"""What each client is, can do and needs: rules ask this table, and no rule asks for a client by its name.

A further command-line tool is one more entry of _TOOLS. What the world program has to know of the kinds of
clients stands in crates/world/src/contract/job.rs (Capabilities).
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from fastopen.common.errors import MachineError

ClientKind = Literal["loader", "command", "chromium"]
NO_SESSION: Final = frozenset({"none"})
# Settings that some clients have; all have keep_alive, connections and view.
OwnSetting = Literal[
    "profile",
    "processing_scale",
    "phases",
    "screenshot",
    "filmstrip",
    "key_share",
    "request_heads",
    "fixed_scripts",
    "h3_fallback_us",
]
PICTURES: Final[tuple[OwnSetting, ...]] = ("screenshot", "filmstrip")
"""Settings that keep what a client shows; what is loaded is the same."""
OWN_SETTINGS: Final[tuple[OwnSetting, ...]] = get_args(OwnSetting)

URL: Final = "{url}"
URLS: Final = "{urls}"
HTTP: Final = "{http}"
CONNECTIONS: Final = "{connections_per_host}"
KEEP_ALIVE: Final = "{keep_alive}"


@dataclass(frozen=True)
class ClientType:
    """One client. What is not said is as of any command."""

    label: str
    """What people call it, in options, files and tables."""
    meaning: str
    """What it does, in a line of a table."""
    method: str
    """What a methods section calls it; placeholders: `label`, `program` (its version), `command`, `limits`
    (of its connections), `profile`, `keep_alive`, `processing_scale`."""
    kind: ClientKind = "command"
    """What the contract calls it."""
    command_line: str = ""
    """How a tool is started: CONNECTIONS stands for the setting, KEEP_ALIVE for `kept` or `closed`. As in a
    command of the user's, URL is the page's, HTTP the version, and the word URLS all that a load asks for."""
    kept: str = ""
    """What tells it to keep connections."""
    closed: str = ""
    """What tells it to close them."""
    executables: tuple[str, ...] = ()
    """What it is called on machines, the first that is there; none: it is part of fastopen, or the user's."""
    package: str = ""
    """What it is in, on Debian and its like."""
    http_words: Mapping[str, str] = field(default_factory=dict)
    """What HTTP stands for in its command line, by version, where that is not the version itself."""
    http_features: Mapping[str, str] = field(default_factory=dict)
    """The versions of HTTP that not every build of it speaks: what it calls them in its `--version`."""
    exit_codes: tuple[int, ...] = ()
    """By which, besides 0, it says that it loaded the page: those for answers that are errors."""
    takes: frozenset[OwnSetting] = frozenset()
    """The settings of its own; others are nothing to it."""
    cache: bool = False
    """Whether it caches answers, and has them in its next view (RFC 9111)."""
    paints: bool = False
    """Whether it reports when it painted: first and largest contentful paint."""
    http_in_the_clear: frozenset[str] = frozenset({"1.0", "1.1", "2"})
    """The versions of HTTP that it speaks without TLS."""
    http_over_tls: frozenset[str] = frozenset({"1.0", "1.1", "2"})
    """The versions of HTTP that it speaks over TLS; none: it does not speak TLS."""
    sessions: frozenset[str] = NO_SESSION
    """How its TLS connections can begin: `resumed` and `early` need a session of an earlier visit."""
    by_name_alone: frozenset[str] = frozenset()
    """The versions of HTTP and sessions of these that `--arms all` leaves out: not every such program has
    them."""
    ours: bool = False
    """Whether it is part of fastopen, which has its sockets and gives it its session tickets."""
    tickets_kept: int | None = None
    """How many session tickets of a host it keeps, of which each serves one connection; None: those that an
    origin sends."""
    reads_bodies: bool = True
    """Whether it follows references in bodies, so that it needs some that hold them."""
    loads_everything: bool = False
    """Whether it asks for each resource of the page and for nothing else, by construction."""
    meets_servers: bool = False
    """Whether it is run against a server of others (`--server`), which tells nothing of requests."""
    deterministic: bool = True
    """Whether it does the same each time where nothing else is random."""
    start_s: float = 0.0
    """What a load takes in real time besides the page: starting it, on a core of its own."""
    virtual_load_s: float = 0.0
    """Processor time that a load takes in virtual time besides what the built-in loader's takes."""
    virtual_resource_s: float = 0.0
    """And for each resource of the page."""
    worlds_per_core: float = 4
    """How many may run at once on a core of the host engine without moving results (benches/parallel.py)."""
    timeout_margin_s: float = 60
    """How long a world may write no record in addition to the time that a load may take: building and
    measuring it, taking cookies, starting the client. The launcher of the virtual engine ends
    a silent kernel before."""

    def find(self) -> Path:
        """Where its program is. Raises MachineError that names the package."""
        found = next(filter(None, map(shutil.which, self.executables)), None)
        if found is None:
            raise MachineError(
                f"client {self.label}: there is no program {self.executables[0]}",
                f"apt install {self.package}",
            )
        return Path(found).absolute()


LOADER: Final = ClientType(
    label="loader",
    kind="loader",
    meaning="the page in the order of its initiators, as a browser or as mget (`--profile`)",
    method="the loader in its {profile} profile: {limits}, keep-alive {keep_alive}, recorded processing times"
    " multiplied by {processing_scale}",
    takes=frozenset({"profile", "processing_scale", "phases", "key_share", "h3_fallback_us"}),
    http_over_tls=frozenset({"1.0", "1.1", "2", "3"}),
    sessions=frozenset({"none", "resumed", "early"}),
    ours=True,
    reads_bodies=False,
    loads_everything=True,
    meets_servers=True,
)
CHROMIUM: Final = ClientType(
    label="chromium",
    kind="chromium",
    meaning="the page as a [browser](#load-pages-in-chromium), until the load event",
    method="unmodified {program}, with a profile of its own for each load; connections and priorities are the"
    " browser's",
    # The first that is there, as in crates/world/src/clients/chromium/browser.rs.
    executables=("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    package="chromium",
    takes=frozenset({"processing_scale", "phases", *PICTURES, "request_heads", "fixed_scripts"}),
    cache=True,
    paints=True,
    http_in_the_clear=frozenset({"1.1"}),
    http_over_tls=frozenset({"1.1", "2", "3"}),
    sessions=frozenset({"none", "resumed", "early"}),
    tickets_kept=2,
    # It draws random numbers of its own, and has threads that wait for each other's clocks.
    deterministic=False,
    start_s=3.0,
    virtual_load_s=4.0,
    virtual_resource_s=0.1,
    # It is a dozen processes that compute all the time: four at once on two cores made the link late.
    worlds_per_core=0.5,
    timeout_margin_s=660,
)
COMMAND: Final = ClientType(
    label="command",
    meaning="your command, with `{url}`, `{urls}` and `{http}`",
    method="{label} ({command}), run once for each load, from its start to its exit; the origins recorded its"
    " requests",
    http_over_tls=frozenset({"1.0", "1.1", "2", "3"}),
    sessions=frozenset({"none", "resumed", "early"}),
    by_name_alone=frozenset({"3", "resumed", "early"}),
)
_HTTP11: Final = frozenset({"1.1"})


def _tool(label: str, meaning: str, **can: Any) -> ClientType:
    """A command that has a name: that of its program and of its package."""
    usual = {"package": label, "sessions": NO_SESSION, "by_name_alone": frozenset()}
    return replace(COMMAND, label=label, meaning=meaning, executables=(label,), **{**usual, **can})


_TOOLS: Final = (
    _tool(
        "curl",
        "all `{urls}` in parallel: `--connections-per-host` at a time over **all** hosts",
        command_line=f"curl --silent --show-error --globoff --http{HTTP} --parallel"
        f" --parallel-max {CONNECTIONS} {KEEP_ALIVE} {URLS}",
        closed="--header 'Connection: close'",
        # Otherwise it tries HTTP/2 as well, after 200 ms.
        http_words={"3": "3-only"},
        http_features={"3": "HTTP3"},
        http_over_tls=frozenset({"1.0", "1.1", "2", "3"}),
        by_name_alone=frozenset({"3"}),
        # Before 8.0 it breaks off at the second request of HTTP/2 without TLS.
        http_in_the_clear=frozenset({"1.0", "1.1"}),
    ),
    _tool(
        "wget2",
        "the page and the references in its HTML and CSS, without scripts",
        command_line=f"wget2 --quiet --page-requisites --span-hosts --max-threads={CONNECTIONS} --tries=1"
        " --robots=off --no-hsts --no-hpkp --no-ocsp --http2=off --no-tcp-fastopen"
        f" {KEEP_ALIVE} --output-document=/dev/null {URL}",
        exit_codes=(8,),
        kept="--http-keep-alive=on",
        closed="--http-keep-alive=off",
        http_in_the_clear=_HTTP11,
        http_over_tls=_HTTP11,
    ),
    # It finds references in files alone, not in what goes to /dev/null.
    _tool(
        "wget",
        "as wget2, but one request after another",
        command_line="wget --no-config --quiet --page-requisites --span-hosts --tries=1 --no-hsts --execute"
        f" robots=off {KEEP_ALIVE} --delete-after {URL}",
        exit_codes=(8,),
        closed="--no-http-keep-alive",
        http_in_the_clear=_HTTP11,
        http_over_tls=_HTTP11,
    ),
    # Its own resolver (c-ares) asks a server of names, and no file.
    _tool(
        "aria2c",
        "as curl, each file over one connection",
        command_line="aria2c --no-conf --quiet --async-dns=false --max-tries=1 --file-allocation=none"
        " --force-sequential=true --parameterized-uri=false --max-connection-per-server=1"
        f" --check-certificate=false --max-concurrent-downloads={CONNECTIONS} {KEEP_ALIVE} {URLS}",
        package="aria2",
        exit_codes=(3, 22, 24, 29),
        kept="--enable-http-keep-alive=true",
        closed="--enable-http-keep-alive=false",
        http_in_the_clear=_HTTP11,
        http_over_tls=_HTTP11,
    ),
)
CLIENTS: Final = {one.label: one for one in (LOADER, CHROMIUM, *_TOOLS, COMMAND)}


def client_type(kind: ClientKind, label: str) -> ClientType:
    """What a client of the contract is: a command by the name of a tool is that tool."""
    if kind == COMMAND.kind:
        return next((one for one in _TOOLS if one.label == label), COMMAND)
    return CLIENTS[kind]
