"""Describe how pages were loaded: over HTTPS or in cleartext, and with which versions of HTTP."""

from collections.abc import Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.phrases import listed
from fastopen.experiments import as_recorded

# Keys: (True if all URLs are encrypted, True if any URL is encrypted).
_WHERE: Final = {
    (True, True): "Over HTTPS",
    (False, False): "In cleartext",
    (False, True): "Over HTTPS and cleartext",
}


def as_loaded(results: Results, cells: Sequence[CellResult]) -> str:
    """Return a phrase on these cells' loads: `Over HTTPS and HTTP/2, as recorded`; empty for no cell."""
    schemes: set[bool] = set()
    versions: set[str] = set()
    of_recording = named = False
    for page, network, setup in {(c.cell.page, c.cell.network, c.cell.setup) for c in cells}:
        chosen = results.experiment.setups[setup]
        origins = as_recorded(chosen, results.pages[page], results.experiment.networks[network])
        resources = [one for one in results.pages[page].resources if one.phase in chosen.client.phases]
        tls = chosen.tls
        schemes |= {tls is not None and (one.encrypted or tls.security == "tls") for one in resources}
        versions |= {origins.http_at(one.url, chosen.tls) for one in resources}
        if chosen.origins.http == "recorded":
            named |= any(one.http is not None for one in resources)
            of_recording |= chosen.tls is not None and chosen.tls.security == "recorded"
    if not schemes:
        return ""
    spoken = listed([f"HTTP/{version}" for version in sorted(versions)])
    where = _WHERE[min(schemes), max(schemes)]
    join = " over " if schemes == {False} else ", " if len(schemes) + len(versions) > 2 else " and "
    recording = ", as recorded" if of_recording else ""
    if of_recording and True in schemes and not named:
        recording = " (the recording names no version)"
    return f"{where}{join}{spoken}{recording}"


def over_quic(results: Results, cells: Sequence[CellResult]) -> bool:
    """Return True if all connections of these cells use QUIC, so that none can use TFO."""
    return all(_of_quic(results, cell) for cell in cells)


def _of_quic(results: Results, result: CellResult) -> bool:
    cell = result.cell
    setup = results.experiment.setups[cell.setup]
    if setup.origins.all_quic or setup.origins.http != "recorded":
        return setup.origins.all_quic
    page = results.pages[cell.page]
    origins = as_recorded(setup, page, results.experiment.networks[cell.network])
    return all(origins.http_at(one.url, setup.tls) == "3" for one in page.resources)
