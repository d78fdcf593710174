"""Choose the HTTP version of each host if an experiment requests the versions of the page's recording."""

from typing import Final

from fastopen.contract.network import QUIC_CONGESTION_CONTROLS, Network
from fastopen.contract.origins import Http, Origins
from fastopen.experiments.model import Setup
from fastopen.pages import Page

# Newest first: a version that a setup does not support is replaced by the next older version.
_VERSIONS: Final[tuple[Http, ...]] = ("3", "2")


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
        quic = (
            tls.version == "1.3"
            and setup.tcp.congestion_control in QUIC_CONGESTION_CONTROLS
            and network.mtu_bytes >= network.quic_mtu_min_bytes
        )
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
