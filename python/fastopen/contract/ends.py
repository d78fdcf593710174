"""Check that the settings of both ends are consistent, in jobs and in setups of experiments."""

from typing import Final

from fastopen.common.errors import any_of
from fastopen.common.pydantic_errors import conflict
from fastopen.contract.client import Client, unable
from fastopen.contract.clients import CHROMIUM, CLIENTS
from fastopen.contract.origins import Origins, Tls
from fastopen.contract.tcp import QUIC_CONGESTION_CONTROLS, Tcp

OURS: Final = tuple(one for one in CLIENTS.values() if one.ours)


def check_ends(
    client: Client, origins: Origins, tcp: Tcp, tls: Tls | None, *, clear: bool, encrypted: bool
) -> None:
    """Raise an error, with a remedy, if settings exclude each other. `clear` and `encrypted` state whether
    any requested load is in cleartext, and whether any is over TLS."""
    if encrypted and not client.type.http_over_tls:
        remedy = "use another --client, or --transports=tcp,tfo without --tls"
        raise conflict(f"{client.label} does not speak TLS", remedy, "client.kind", "tls.version")
    _check_versions(client, origins, clear=clear)
    if tls is not None:
        _check_session(client, tls)
    if origins.bodies == "recorded" and not client.type.reads_bodies:
        remedy = f"use --client={CHROMIUM.label}, or --bodies=synthetic/filler"
        message = f"{client.label} does not parse bodies, so recorded ones have no effect"
        raise conflict(message, remedy, "client.kind", "origins.bodies")
    clear_only = "use --transports=tcp,tfo without --tls"
    if origins.one_address:
        if not client.type.ours:
            message = f"requests of {client.label} do not show the host behind a shared address"
            raise unable(message, OURS, ", or drop --one-address", "origins.one_address")
        if encrypted:
            keys = ("origins.one_address", "tls.version", "transports")
            raise conflict("one address for all hosts works only without TLS", clear_only, *keys)
    if origins.server is not None:
        if not client.type.meets_servers:
            message = f"fastopen does not run {client.label} against an external server"
            able = [one for one in CLIENTS.values() if one.meets_servers]
            raise unable(message, able, ", or drop --server", "origins.server")
        if encrypted:
            keys = ("origins.server", "tls.version", "transports")
            raise conflict("an external server works only without TLS", clear_only, *keys)
    if origins.quic:
        _check_quic(tcp, tls, _without("3", origins))


def _without(version: str, origins: Origins) -> str:
    """Return a remedy that removes all hosts that speak this version of HTTP."""
    return "--http=1.1" if origins.http == version else f"drop --http{version}-hosts"


def _check_quic(tcp: Tcp, tls: Tls | None, otherwise: str) -> None:
    if tls is not None and tls.version != "1.3":
        remedy = f"use --tls=1.3, or {otherwise}"
        raise conflict("HTTP/3 runs over QUIC, which needs TLS 1.3", remedy, "origins.http", "tls.version")
    if tcp.congestion_control not in QUIC_CONGESTION_CONTROLS:
        message = f"HTTP/3 works only with {' or '.join(QUIC_CONGESTION_CONTROLS)}"
        remedy = f"use --congestion-control={'/'.join(QUIC_CONGESTION_CONTROLS)}, or {otherwise}"
        raise conflict(message, remedy, "origins.http", "tcp.congestion_control")


def _check_versions(client: Client, origins: Origins, *, clear: bool) -> None:
    label, can = client.label, client.type
    for version in origins.versions:
        key = "origins.http" if origins.http == version else f"origins.http{version}_hosts"
        if version not in can.http_in_the_clear | can.http_over_tls:
            spoken = sorted(can.http_in_the_clear | can.http_over_tls)
            message = f"fastopen runs {label} with HTTP/{any_of(spoken)}, not with HTTP/{version}"
            able = [one for one in CLIENTS.values() if version in one.http_over_tls]
            raise unable(message, able, f", or {_without(version, origins)}", key)
        if clear and version not in can.http_in_the_clear:
            over_tls = "tls,tls+tfo" if version == "2" else "tls"
            remedy = f"use --transports={over_tls} without --tls=none, or {_without(version, origins)}"
            message = f"{label} needs TLS for HTTP/{version}"
            raise conflict(message, remedy, "client.kind", key, "tls.version")


def _check_session(client: Client, tls: Tls) -> None:
    if tls.session not in client.type.sessions:
        able = [one for one in CLIENTS.values() if tls.session in one.sessions]
        message = f"fastopen cannot give {client.label} a session of an earlier visit"
        raise unable(message, able, ", or --session=none", "tls.session")
    if tls.of_another_time and not client.type.ours:
        message = f"fastopen cannot set the clock of {client.label} ahead of its tickets"
        raise unable(message, OURS, ", or --ticket-state=valid", "tls.ticket_state")
