"""Check that the settings of client, origins and network are compatible, in jobs and experiments."""

from fastopen.common.errors import any_of
from fastopen.common.pydantic_errors import conflict
from fastopen.contract.client import Client, require
from fastopen.contract.client_kinds import CHROMIUM, CLIENTS
from fastopen.contract.network import ENCRYPTED_NAMES, Network
from fastopen.contract.origins import Origins, Tls
from fastopen.contract.tcp import QUIC_CONGESTION_CONTROLS, Tcp


def check_ends(
    client: Client, origins: Origins, tcp: Tcp, tls: Tls | None, *, clear: bool, encrypted: bool
) -> None:
    """Raise an error, with a remedy, if settings contradict each other. `clear` is True if any load uses
    cleartext, and `encrypted` if any load uses TLS. `tls` may be None if no load uses TLS."""
    label = client.label
    if encrypted and not client.type.http_over_tls:
        remedy = "use another --client, or --transports=tcp,tfo without --tls"
        raise conflict(f"{label} does not speak TLS", remedy, "client.kind", "tls.version")
    for version in origins.versions:
        _check_version(client, origins, version, clear=clear)
    if tls is not None:
        message = f"fastopen cannot give {label} a session of an earlier visit"
        require(client, lambda one: tls.session in one.sessions, message, "--session=none", "tls.session")
        if tls.ticket_state in ("stale", "expired"):
            message = f"fastopen cannot set the clock of {label} ahead of its tickets"
            require(client, lambda one: one.ours, message, "--ticket-state=valid", "tls.ticket_state")
    if origins.bodies == "recorded" and not client.type.reads_bodies:
        remedy = f"use --client={CHROMIUM.label}, or --bodies=synthetic/filler"
        message = f"{label} does not parse bodies, so recorded ones have no effect"
        raise conflict(message, remedy, "client.kind", "origins.bodies")
    clear_only = "use --transports=tcp,tfo without --tls"
    if origins.one_address:
        message = f"requests of {label} do not show the host behind a shared address"
        require(client, lambda one: one.ours, message, "drop --one-address", "origins.one_address")
        if encrypted:
            keys = ("origins.one_address", "tls.version", "transports")
            raise conflict("one address for all hosts works only without TLS", clear_only, *keys)
    if origins.server is not None:
        message = f"fastopen does not run {label} against an external server"
        require(client, lambda one: one.works_with_servers, message, "drop --server", "origins.server")
        if encrypted:
            keys = ("origins.server", "tls.version", "transports")
            raise conflict("an external server works only without TLS", clear_only, *keys)
    if origins.quic:
        _check_quic(tcp, tls, origins.remedy_without("3"))


def check_network(network: Network, client: Client, origins: Origins) -> None:
    """Raise an error, with a remedy, if the client or the origins cannot work in this network."""
    if network.names in ENCRYPTED_NAMES and not client.type.encrypts_lookups:
        able = "/".join(one.label for one in CLIENTS.values() if one.encrypts_lookups)
        message = f"{client.label} sends lookups in cleartext, but --names={network.names} encrypts them"
        remedy = f"use --names=do53/tcp, or --client={able}"
        raise conflict(message, remedy, "client.kind", "network.names")
    if network.ip == "4+6" and not client.type.chooses_address:
        message = f"{client.label} does not choose between IPv4 and IPv6 addresses"
        remedy = "use --ip=4,6, or --client=chromium/curl"
        raise conflict(message, remedy, "client.kind", "network.ip")
    least = network.quic_mtu_min_bytes
    if network.mtu_bytes < least and origins.quic:
        message = f"HTTP/3 runs over QUIC, which needs an MTU of at least {least} bytes"
        remedy = "use a larger --mtu, or another version of HTTP"
        raise conflict(message, remedy, "origins.http", "network.mtu")


def _check_quic(tcp: Tcp, tls: Tls | None, otherwise: str) -> None:
    if tls is not None and tls.version != "1.3":
        remedy = f"use --tls=1.3, or {otherwise}"
        raise conflict("HTTP/3 runs over QUIC, which needs TLS 1.3", remedy, "origins.http", "tls.version")
    if tcp.congestion_control not in QUIC_CONGESTION_CONTROLS:
        message = f"HTTP/3 works only with {' or '.join(QUIC_CONGESTION_CONTROLS)}"
        remedy = f"use --congestion-control={'/'.join(QUIC_CONGESTION_CONTROLS)}, or {otherwise}"
        raise conflict(message, remedy, "origins.http", "tcp.congestion_control")


def _check_version(client: Client, origins: Origins, version: str, *, clear: bool) -> None:
    label, can = client.label, client.type
    key = "origins.http" if origins.http == version else f"origins.http{version}_hosts"
    ending = origins.remedy_without(version)
    message = f"fastopen runs {label} with HTTP/{any_of(sorted(can.http_versions))}, not with HTTP/{version}"
    require(client, lambda one: version in one.http_versions, message, ending, key)
    if clear and version not in can.http_in_the_clear:
        over_tls = "tls,tls+tfo" if version == "2" else "tls"
        message = "HTTP/3 always uses TLS"
        if version != "3":
            message = f"fastopen runs {label} with HTTP/{version} only over TLS"
        remedy = f"use --transports={over_tls} and not --tls=none, or {ending}"
        raise conflict(message, remedy, "client.kind", key, "tls.version")
