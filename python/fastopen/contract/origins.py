"""Define the settings of the origin servers of a job, and of TLS."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fastopen.common.pydantic_errors import conflict
from fastopen.contract.certificates import CHAIN_BYTES, CLASSICAL, CertificateKind
from fastopen.contract.part import Part, RttUs, Scale, Word
from fastopen.pages.model import HttpVersion
from fastopen.pages.url import host_of

# The number of tickets that a rustls client keeps for each host.
TICKETS_MAX: Final = 8
Http = Literal[HttpVersion, "recorded"]
# HTTP versions of jobs. Experiments may also have `recorded`, which their plan replaces in each job.
_InJobs = Annotated[Http, WithJsonSchema({"enum": list(get_args(HttpVersion)), "type": "string"})]
SessionStart = Literal["none", "resumed", "early"]
KeyShare = Literal["x25519mlkem768", "mlkem1024", "x25519", "secp256r1"]
CertificateCompression = Literal["none", "brotli", "zlib"]
TlsVersion = Literal["1.2", "1.3"]
# `synthetic` bodies are `structural` in old job files.
_Renamed: Final = BeforeValidator(lambda bodies: "synthetic" if bodies == "structural" else bodies)


class Origins(Part):
    """The settings of the origin servers, and of an external `server` in front of them."""

    http: _InJobs = "1.1"
    """The version of HTTP, see [https.md](../https.md). `recorded` (only in experiments): over TLS, each host
    of a page speaks its recorded version (HTTP/1.1 if unknown), or the next older one that is supported."""
    http2_hosts: list[str] = Field(default_factory=list)
    """Hosts of the page that speak HTTP/2, whatever `http` is."""
    http3_hosts: list[str] = Field(default_factory=list)
    """Hosts of the page that speak HTTP/3, whatever `http` is."""
    keep_alive: bool = True
    """True if origins keep connections open after a response. HTTP/2 and HTTP/3 require this."""
    single_threaded: bool = False
    """True if each address serves one connection at a time, in the order of the handshakes, and closes it
    after the response, as Python's `http.server.HTTPServer` does. Only with HTTP/1."""
    think_scale: Scale = 1.0
    """The factor by which the page's `server_think_us` and `server_send_us` are multiplied."""
    one_address: bool = False
    """True if all hosts share one address, and so one TFO cookie, as with some replay tools. Needs the loader
    and cleartext."""
    tfo_queue: Annotated[int, Field(ge=1, le=65535)] = 4096
    """Maximum number of connections with data in the SYN that wait for the handshake's end (TCP_FASTOPEN)."""
    server: Annotated[list[Word], Field(min_length=1)] | None = None
    """The program and arguments of an external [server](../servers.md). The client connects to it instead of
    the origins, on port 80 of every host and in cleartext. null: no external server."""
    server_hosts: Annotated[list[str], Field(min_length=1)] | None = None
    """The hosts of the page that the external server serves; null: all. The client connects to the origins of
    the other hosts on port 8080."""
    server_listen: bool = False
    """True to give the external server's listeners a Fast Open queue of `tfo_queue` if they have no queue."""
    upstream_tfo: bool = False
    """True if the external server may use TCP Fast Open to the origins behind it, in all loads, with cookies
    fetched before the first load. Each connection to these origins must then show TCP Fast Open."""
    upstream_rtt_us: RttUs = 0
    """The RTT between the external server and the origins behind it."""
    bodies_file: str | None = None
    """The path of the file with the recorded bodies; null: there are none."""
    bodies: Annotated[Literal["filler", "synthetic", "recorded"], _Renamed] = "filler"
    """`filler`: the recorded bytes, or dots if there are none. `synthetic`: HTML, CSS, scripts and images of
    the page's sizes that make a browser request exactly the page's resources, see [synthetic
    bodies](../bodies.md#synthetic-bodies). `recorded`: the recorded response, with its header fields, to the
    request with the same host, method and path, and the nearest query; 404 for all other requests, see
    [recorded bodies](../bodies.md#recorded-bodies)."""

    @property
    def versions(self) -> list[Http]:
        """Return the versions of HTTP that any host speaks, the newest first."""
        hosts: dict[Http, list[str]] = {"2": self.http2_hosts, "3": self.http3_hosts}
        named: Http = "1.1" if self.http == "recorded" else self.http
        return sorted({named, *(version for version in hosts if hosts[version])}, reverse=True)

    def http_at(self, url: str, tls: "Tls | None") -> Http:
        """Return the HTTP version for a page's URL in a load with the TLS settings `tls` (None: cleartext).
        With `security` `recorded`, http URLs are in cleartext, so their version is 1.1 (or 1.0) even if their
        host speaks a newer version over TLS."""
        host = host_of(url)
        version: Http = "3" if host in self.http3_hosts else "2" if host in self.http2_hosts else self.http
        mixed = tls is not None and tls.security == "recorded"
        return "1.1" if mixed and version != "1.0" and not url.startswith("https:") else version

    @property
    def quic(self) -> bool:
        """Return True if any host speaks HTTP/3, which runs over QUIC."""
        return "3" in self.versions

    @property
    def all_quic(self) -> bool:
        """Return True if all hosts speak HTTP/3. TFO is then impossible, because QUIC has no SYN."""
        return self.http == "3"

    def remedy_without(self, version: str) -> str:
        """Return the remedy for an error due to the HTTP `version`: `--http=1.1` or `drop --http3-hosts`."""
        return "--http=1.1" if self.http == version else f"drop --http{version}-hosts"

    @property
    def closes(self) -> bool:
        """Return True if origins close each connection after its response."""
        return not self.keep_alive or self.single_threaded

    @model_validator(mode="after")
    def _settings_are_compatible(self) -> Self:
        versions = ("origins.http", "origins.http2_hosts", "origins.http3_hosts")
        message = f"HTTP/{self.versions[0]} keeps the connections of origins open"
        multiplexed = self.versions[0] in ("2", "3")
        if multiplexed and not self.keep_alive:
            raise conflict(message, "use --keep-alive=off instead", *versions, "origins.keep_alive")
        if multiplexed and self.single_threaded:
            remedy = f"use --single-threaded=off, or {self.remedy_without(self.versions[0])}"
            raise conflict(message, remedy, *versions, "origins.single_threaded")
        if self.server and not self.server[0]:
            raise ValueError("the first word of server is empty")
        for key in ("server_hosts", "server_listen", "upstream_tfo", "upstream_rtt_us"):
            if getattr(self, key) and self.server is None:
                option = key.removesuffix("_us").replace("_", "-")
                raise conflict("needs --server", f"add --server, or drop --{option}", f"origins.{key}")
        if both := set(self.http2_hosts) & set(self.http3_hosts):
            message = f"{min(both)} is in both lists"
            raise conflict(message, "remove it from one", "origins.http2_hosts", "origins.http3_hosts")
        return self


class Tls(Part):
    """The settings of TLS, for loads whose transport uses TLS (docs/https.md)."""

    version: TlsVersion = "1.3"
    """The newest TLS version that the origins speak."""
    key_share: KeyShare = "x25519mlkem768"
    """The group of the key share in the loader's ClientHello. Other clients choose their own groups."""
    session: SessionStart = "none"
    """The way in which TLS connections begin. `none`: without a session of an earlier visit, so the first
    handshake with each host is a full handshake. `resumed`: with the session tickets of an earlier visit,
    which had one connection to each host. `early`: like `resumed`, and the first request is early data
    (0-RTT) with the ClientHello, if its method is safe."""
    tickets: Annotated[int, Field(ge=0, le=TICKETS_MAX)] = 2
    """The number of session tickets that an origin sends on a connection. Each ticket serves one connection
    of TLS 1.3, so the number limits the connections to a host that can resume a session of the earlier visit.
    0: no resumption."""
    address_tokens: bool = True
    """True if an origin gives an address token with each ticket of a QUIC connection, and accepts the token
    on a later connection (RFC 9000 section 8.1.3). Without a token, the origin sends at most three times the
    bytes that it has received, and then waits for the client's next flight."""
    retry: bool = False
    """True if an origin sends a Retry (RFC 9000 section 8.1.2) to each QUIC client that presents no address
    token. The Retry costs one round trip."""
    early_data_rejected: bool = False
    """True if origins reject early data, which clients then send again after the handshake."""
    ticket_state: Literal["valid", "stale", "expired", "forgotten"] = "valid"
    """The state of the earlier visit's tickets. `stale`: origins expect a different age, so connections
    resume, but early data is rejected (RFC 8446 section 8.3). `expired`: the tickets are older than their
    lifetime, so the client does not use them. `forgotten`: origins have lost the tickets' keys, so the client
    sends tickets, but gets full handshakes."""
    certificates: CertificateKind | None = None
    """The kind of certificates, which sets `chain_bytes` if that is missing. Origins always sign with ECDSA;
    padding stands for larger keys and signatures. null: only `chain_bytes` sets the size."""
    chain_bytes: Annotated[int, Field(ge=0, le=60_000)] = 3500
    """The size of the certificates that an origin sends, raised to their smallest possible size if needed.
    If missing, the size for the kind in `certificates`, or 3,500 if that is null."""
    certificate_compression: CertificateCompression = "none"
    """Certificate compression (RFC 8879) of origins and loader. Other clients offer their own algorithms."""
    ech: Literal["none", "grease"] = "none"
    """Encrypted ClientHello (RFC 9849) of the loader. `grease`: the loader offers only TLS 1.3 and sends the
    placeholder that browsers send to hosts without a key, which is as large as the real extension."""
    security: Literal["tls", "recorded"] = "tls"
    """URLs served over TLS if a load's transport has TLS: all (`tls`), or only https URLs (`recorded`)."""

    @model_validator(mode="before")
    @classmethod
    def _upgrade_and_fill_in(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = dict(data)
        if "resumption" in given and not given.pop("resumption"):  # old runs: false means 0 `tickets`
            given.setdefault("tickets", 0)
        kind = given.get("certificates")
        if isinstance(kind, str) and kind in CHAIN_BYTES:
            given.setdefault("chain_bytes", CHAIN_BYTES[kind])  # type: ignore[index]
        return given

    @model_validator(mode="after")
    def _settings_are_compatible(self) -> Self:
        for key, allowed, need in (
            ("certificates", (None, *CLASSICAL), f"{self.certificates} certificates need"),
            ("certificate_compression", ("none",), "compressed certificates need"),
            ("ech", ("none",), "Encrypted ClientHello needs"),
        ):
            if self.version != "1.3" and getattr(self, key) not in allowed:
                raise conflict(f"{need} TLS 1.3", "use --tls=1.3", f"tls.{key}", "tls.version")
        if self.session != "none" and self.tickets == 0:
            message, remedy = f"--session={self.session} needs session tickets", "use --tickets=1 or more"
            raise conflict(message, remedy, "tls.session", "tls.tickets")
        if self.session == "early" and self.version != "1.3":
            remedy = "use --tls=1.3, or --session=resumed"
            raise conflict("early data needs TLS 1.3", remedy, "tls.session", "tls.version")
        return self

    @property
    def rejects_early_data(self) -> bool:
        """Return True if origins reject early data sent with a session ticket of an earlier connection."""
        return self.early_data_rejected or self.ticket_state != "valid"
