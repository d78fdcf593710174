"""Report the time that a ClientHello of several segments costs, on open paths and behind middleboxes."""

from collections.abc import Iterator, Mapping, Sequence

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.grouping import grouped
from fastopen.common.phrases import span
from fastopen.contract.network import LARGE_HELLO_PATHS
from fastopen.contract.origins import KeyShare
from fastopen.experiments import BASELINE
from fastopen.report.findings import Finding, finds

Price = tuple[float, float | None]
"""The times in ms that a large key share adds to a page load: over an open path, and behind a middlebox. The
second time is None if no load with the large key share finishes there."""


@finds(rank=6, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings on the time that a large TLS key share adds to loads of `page` behind a middlebox. Leave
    out middleboxes that do not change this time."""
    for (path, large, small, name), prices in grouped(_prices(results, page)).items():
        # Leave out middleboxes without effect: some affect only QUIC, and others affect only TCP.
        if all(broken is not None and round(broken - opened, 1) == 0 for opened, broken in prices):
            continue
        known = [broken for _, broken in prices if broken is not None]
        figures = {"broken_ms_min": min(known), "broken_ms_max": max(known)} if known else {}
        yield Finding("large_hello_price", _sentence(path, large, small, name, prices), figures)


def _prices(results: Results, page: str) -> Iterator[tuple[tuple[str, KeyShare, KeyShare, str], Price]]:
    """Yield ((middlebox, large key share, small key share, other settings), price) for each middlebox and
    large key share. The price is a pair of times that the large key share adds (see `Price`)."""
    factors, apart = results.factors, ("path", "key_share")
    cells = (one for one in results.cells if one.cell.page == page and one.cell.arm.name == BASELINE.name)
    for group in results.groups_differing_in(cells, *apart):
        row: dict[tuple[str, KeyShare], CellResult] = {}
        for result in group:
            network = results.experiment.networks[result.cell.network]
            tls = results.experiment.setups[result.cell.setup].tls
            # If only a share of hosts is affected, loads mix broken and open paths.
            if tls is not None and network.path_share == 1:
                row[network.path, tls.key_share] = result
        small = next((share for _, share in row if "mlkem" not in share), None)
        named = (factor for factor in factors.besides(*apart) if factor.part != "network")
        name = ", ".join(factors.phrases(group[0].cell, named))
        for (path, share), result in row.items():
            if small is None or path not in LARGE_HELLO_PATHS or "mlkem" not in share:
                continue
            opened, broken = (_added_ms(row, at, share, small) for at in ("none", path))
            if opened is not None and (broken is not None or result.without_valid):
                yield (path, share, small, name), (opened, broken)


def _added_ms(
    row: Mapping[tuple[str, KeyShare], CellResult], path: str, large: KeyShare, small: KeyShare
) -> float | None:
    """Return how many ms longer loads take with the key share `large` than with the key share `small`, behind
    the middlebox `path` (`none`: open path). None if either time is unknown."""
    loads = (row.get((path, share)) for share in (large, small))
    with_large, with_small = (None if one is None else one.plt_ms_median for one in loads)
    return None if with_large is None or with_small is None else with_large - with_small


def _sentence(path: str, large: KeyShare, small: KeyShare, name: str, prices: Sequence[Price]) -> str:
    of_row = f" ({name})" if name else ""
    finished = [(opened, broken) for opened, broken in prices if broken is not None]
    if len(finished) < len(prices):
        some = f" on {len(prices) - len(finished)} of {len(prices)} networks" if finished else ""
        return f"Behind {path}, no load with {large}{of_row} finishes{some}."
    opened, broken = zip(*finished, strict=True)
    sentence = (
        f"Behind {path}, {large}{of_row} adds {span(broken, 'ms')} to page load time compared with {small},"
        f" and {span(opened, 'ms')} over an open path. Each percent of such paths costs"
        f" {span([(more - less) / 100 for less, more in finished], 'ms')} on average"
    )
    # The share of broken paths that doubles the mean cost.
    doubling = [100 * less / (more - less) for less, more in finished if 0 < less < more - less]
    if len(doubling) < len(finished):
        return f"{sentence}."
    return f"{sentence}, and a share of {span(doubling, '%')} doubles the cost."
