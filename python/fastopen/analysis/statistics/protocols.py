"""Describe how pages were loaded: over HTTPS or in cleartext, and with which versions of HTTP."""

from collections.abc import Sequence
from typing import Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.results import Results
from fastopen.common.phrases import listed
from fastopen.experiments import as_recorded

# Text for each (True if all requests are encrypted, True if at least one request is encrypted).
_WHERE: Final = {(True, True): "HTTPS", (False, False): "cleartext", (False, True): "HTTPS and cleartext"}
Spoken = tuple[bool, str, bool | None]
"""The protocol of a request: (True if it is encrypted, HTTP version, True if the recording names a version).
The last value is None unless the setup takes both the HTTP version and the security from the recording."""


def as_loaded(results: Results, cells: Sequence[CellResult]) -> str:
    """Return the protocols that loads of `cells` used: `HTTPS, HTTP/1.1 and HTTP/2`; empty without cells."""
    spoken = _spoken(results, cells)
    if not spoken:
        return ""
    schemes = {encrypted for encrypted, _, _ in spoken}
    assumed = {named for encrypted, _, named in spoken if encrypted} == {False}
    unnamed = ", since the recording names no version" if assumed else ""
    return f"{_WHERE[min(schemes), max(schemes)]}, {_versions(spoken)}{unnamed}"


def mixed_http_warning(results: Results, cells: Sequence[CellResult]) -> str:
    """Return a warning if results in cleartext and with TLS have different versions of HTTP, else ""."""
    setups = results.experiment.setups
    of_clear, of_tls = (
        http_of(results, [cell for cell in cells if (setups[cell.cell.setup].tls is None) is clear])
        for clear in (True, False)
    )
    if not of_clear or not of_tls or of_clear == of_tls:
        return ""
    return f"Cleartext rows use {of_clear} and TLS rows {of_tls}, so do not compare their load times."


def http_of(results: Results, cells: Sequence[CellResult]) -> str:
    """Return the HTTP versions with which `cells` were measured, such as `HTTP/1.1 and HTTP/2`."""
    return _versions(_spoken(results, cells))


def over_quic(results: Results, cells: Sequence[CellResult]) -> bool:
    """Return True if the loads of `cells` used only QUIC, so that no connection could use TFO."""
    return all(_of_quic(results, cell) for cell in cells)


def _of_quic(results: Results, result: CellResult) -> bool:
    origins = results.experiment.setups[result.cell.setup].origins
    if origins.http != "recorded":
        return origins.all_quic
    return {version for _, version, _ in _spoken(results, [result])} == {"3"}


def _versions(spoken: set[Spoken]) -> str:
    names = sorted({f"HTTP/{version}" for _, version, _ in spoken})
    return listed(names) if names else ""


def _spoken(results: Results, cells: Sequence[CellResult]) -> set[Spoken]:
    found: set[Spoken] = set()
    for page, network, setup in {(c.cell.page, c.cell.network, c.cell.setup) for c in cells}:
        chosen = results.experiment.setups[setup]
        origins = as_recorded(chosen, results.pages[page], results.experiment.networks[network])
        tls = chosen.tls
        of_recording = chosen.origins.http == "recorded" and tls is not None and tls.security == "recorded"
        for one in results.pages[page].resources:
            if one.phase in chosen.client.phases:
                encrypted = tls is not None and (one.encrypted or tls.security == "tls")
                named = one.http is not None if of_recording else None
                found.add((encrypted, origins.http_at(one.url, tls), named))
    return found
