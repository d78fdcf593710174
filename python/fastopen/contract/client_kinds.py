"""Define the types of clients and their capabilities, which code looks up instead of checking client names.

To add a command-line tool, add an entry to _TOOLS. The capabilities that fastopen's Rust program needs to
load pages are in crates/contract/src/client.rs."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from fastopen.common.errors import MachineError

ClientKind = Literal["loader", "command", "chromium"]
NO_SESSION: Final = frozenset({"none"})
# Settings that only some clients support. `view` is not among them, because it depends on ClientType.cache.
OwnSetting = Literal[
    "profile",
    "processing_scale",
    "phases",
    "screenshot",
    "filmstrip",
    "key_share",
    "ech",
    "request_heads",
    "fixed_scripts",
    "h3_fallback_us",
]
PICTURES: Final[tuple[OwnSetting, ...]] = ("screenshot", "filmstrip")
"""Settings that keep screenshots of the page. They do not change how the page is loaded."""
OWN_SETTINGS: Final[tuple[OwnSetting, ...]] = get_args(OwnSetting)

URL: Final = "{url}"
URLS: Final = "{urls}"
HTTP: Final = "{http}"
CONNECTIONS: Final = "{connections_per_host}"
KEEP_ALIVE: Final = "{keep_alive}"


@dataclass(frozen=True)
class ClientType:
    """A type of client, such as curl. The default of each field suits COMMAND, the user's command line."""

    label: str
    """The client's name in options, files and tables."""
    meaning: str
    method: str
    """A description of the client for the methods section of a paper. Placeholders: `label`, `program` (with
    its version), `command`, `limits` (on connections), `profile`, `keep_alive`, `processing_scale`."""
    kind: ClientKind = "command"
    """The client's `kind` in a job."""
    command_line: str = ""
    """The tool's command line. Placeholders: CONNECTIONS (`connections_per_host`), KEEP_ALIVE (the option
    `kept` or `closed`), URL (the page's URL), HTTP (the HTTP version), and the word URLS (all URLs)."""
    kept: str = ""
    """The tool's option to keep connections open; empty: the tool keeps them open by default."""
    closed: str = ""
    """The tool's option to close a connection after each request."""
    executables: tuple[str, ...] = ()
    """Names of the client's program. The first on the PATH is used. Empty: the loader or a user's command."""
    package: str = ""
    """The Debian package of the program."""
    http_words: Mapping[str, str] = field(default_factory=dict)
    """Maps HTTP versions to the words that replace HTTP in `command_line`; by default, the version itself."""
    http_features: Mapping[str, str] = field(default_factory=dict)
    """Maps each HTTP version that only some builds of the client support to the name of a feature. The
    client's `--version` prints this name if its build supports the HTTP version."""
    exit_codes: tuple[int, ...] = ()
    """Exit codes for HTTP errors. A load with such an exit code counts as complete, as with 0."""
    takes: frozenset[OwnSetting] = frozenset()
    """The settings in OwnSetting that the client supports. The others in OwnSetting do not apply to it."""
    cache: bool = False
    """True if the client caches responses for the next view of the page (RFC 9111)."""
    paints: bool = False
    """True if the client reports first and largest contentful paint."""
    http_in_the_clear: frozenset[str] = frozenset({"1.0", "1.1", "2"})
    """Versions of HTTP that the client supports in cleartext."""
    http_over_tls: frozenset[str] = frozenset({"1.0", "1.1", "2"})
    """Versions of HTTP that the client supports over TLS; empty if it does not support TLS."""
    sessions: frozenset[str] = NO_SESSION
    """Values of the setting `session` that the client supports (contract/origins.py)."""
    encrypts_lookups: bool = False
    """True if the client itself can query resolvers over TLS or HTTPS. The system resolver uses cleartext."""
    only_by_name: frozenset[str] = frozenset()
    """HTTP versions and sessions that `--transports=all` omits, because some builds or commands lack them."""
    ours: bool = False
    """True if the client is part of fastopen, so fastopen reads its sockets and gives it session tickets."""
    tickets_kept: int | None = None
    """Number of session tickets that the client keeps for a host, each for one connection; None: no limit."""
    reads_bodies: bool = True
    """True if the client follows references in bodies, and therefore needs bodies with references."""
    chooses_address: bool = True
    """True if the client chooses between the IPv4 and the IPv6 address of a host. Browsers and some tools try
    the other address when the first does not answer (RFC 8305)."""
    loads_everything: bool = False
    """True if the client always requests each resource of the page and nothing else."""
    works_with_servers: bool = False
    """True if the client can use an external server (`--server`), because it reports its requests itself."""
    deterministic: bool = True
    """True if the client itself adds no randomness, so loads in virtual time can repeat exactly."""
    start_s: float = 0.0
    """Seconds of real time that a load takes in addition to the page load time, on an otherwise idle core."""
    virtual_load_s: float = 0.0
    """Additional processor time of a load in virtual time, compared with the loader, in seconds."""
    virtual_resource_s: float = 0.0
    """Additional processor time for each resource in virtual time, compared with the loader, in seconds."""
    worlds_per_core: float = 4
    """Number of jobs per core that can load pages in parallel in real time (engine `host`) without changing
    results (benches/parallel.py)."""
    timeout_margin_s: float = 60
    """Seconds that are added to a load's time limit, for building and measuring the network, fetching cookies
    and starting the client. The world program is killed if it writes no record for the sum of both times. The
    virtual engine's launcher by default kills its kernel after a shorter time without output."""

    @property
    def http_versions(self) -> frozenset[str]:
        return self.http_in_the_clear | self.http_over_tls

    def find(self) -> Path:
        """Return the program's path. If it is missing, raises MachineError with the package to install."""
        found = next(filter(None, map(shutil.which, self.executables)), None)
        if found is None:
            message = f"client {self.label}: program {self.executables[0]} not found"
            raise MachineError(message, f"apt install {self.package}")
        return Path(found).absolute()


LOADER: Final = ClientType(
    label="loader",
    kind="loader",
    meaning="the page in the order of its initiators, as a browser or as the paper's downloader mget"
    " (`--profile`)",
    method="the loader in its {profile} profile: {limits}, keep-alive {keep_alive}, recorded processing times"
    " multiplied by {processing_scale}",
    takes=frozenset({"profile", "processing_scale", "phases", "key_share", "ech", "h3_fallback_us"}),
    http_over_tls=frozenset({"1.0", "1.1", "2", "3"}),
    sessions=frozenset({"none", "resumed", "early"}),
    encrypts_lookups=True,
    ours=True,
    chooses_address=False,
    reads_bodies=False,
    loads_everything=True,
    works_with_servers=True,
)
CHROMIUM: Final = ClientType(
    label="chromium",
    kind="chromium",
    meaning="the page as a [browser](#load-pages-in-chromium), until the load event",
    method="unmodified {program}, with a profile of its own for each load; connections and priorities are the"
    " browser's",
    # The first program that exists is used, as in crates/world/src/clients/chromium/browser.rs.
    executables=("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    package="chromium",
    takes=frozenset({"processing_scale", "phases", *PICTURES, "request_heads", "fixed_scripts"}),
    cache=True,
    paints=True,
    http_in_the_clear=frozenset({"1.1"}),
    http_over_tls=frozenset({"1.1", "2", "3"}),
    sessions=frozenset({"none", "resumed", "early"}),
    tickets_kept=2,
    # Chromium uses random numbers, and the timing of its threads differs from load to load.
    deterministic=False,
    start_s=3.0,
    virtual_load_s=4.0,
    virtual_resource_s=0.1,
    # Chromium has a dozen busy processes: with four browsers on two cores, the link released packets late.
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
    only_by_name=frozenset({"3", "resumed", "early"}),
)


def _tool(label: str, meaning: str, **can: Any) -> ClientType:
    usual = {"package": label, "sessions": NO_SESSION, "only_by_name": frozenset()}
    usual |= dict.fromkeys(("http_in_the_clear", "http_over_tls"), frozenset({"1.1"}))
    return replace(COMMAND, label=label, meaning=meaning, executables=(label,), **{**usual, **can})


_TOOLS: Final = (
    _tool(
        "curl",
        "all `{urls}` in parallel: `--connections-per-host` at a time over **all** hosts",
        command_line=f"curl --no-progress-meter --globoff --http{HTTP} --parallel"
        f" --parallel-max {CONNECTIONS} {KEEP_ALIVE} {URLS}",
        closed="--header 'Connection: close'",
        # With plain `3`, curl also tries HTTP/2 after 200 ms.
        http_words={"3": "3-only"},
        http_features={"3": "HTTP3"},
        http_over_tls=frozenset({"1.0", "1.1", "2", "3"}),
        only_by_name=frozenset({"3"}),
        # Before 8.0, curl fails at the second request on an HTTP/2 connection without TLS.
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
    ),
    # wget finds references only in files, not in output to /dev/null.
    _tool(
        "wget",
        "as wget2, but one request after another",
        command_line="wget --no-config --quiet --page-requisites --span-hosts --tries=1 --no-hsts --execute"
        f" robots=off {KEEP_ALIVE} --delete-after {URL}",
        exit_codes=(8,),
        closed="--no-http-keep-alive",
    ),
    # aria2's resolver (c-ares) queries a name server and does not read the hosts file, so it is switched off.
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
    ),
)
CLIENTS: Final = {one.label: one for one in (LOADER, CHROMIUM, *_TOOLS, COMMAND)}
