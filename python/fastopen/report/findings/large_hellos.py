"""Report the time that a ClientHello of several segments costs, on open paths and behind middleboxes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.grouping import grouped
from fastopen.common.phrases import span
from fastopen.contract.network import LARGE_HELLO_PATHS
from fastopen.contract.origins import KeyShare
from fastopen.experiments import BASELINE
from fastopen.report.model import Finding

RANK: Final = 6
SEVERITY: Final = "answer"


@dataclass(frozen=True)
class Price:
    """The time in ms that a large key share adds to a page load."""

    open_ms: float
    broken_ms: float | None
    """The time behind a middlebox; None if no load finishes there."""

    @property
    def extra_ms(self) -> float | None:
        """Return the additional price of a broken path compared with an open one; None if unknown."""
        return None if self.broken_ms is None else self.broken_ms - self.open_ms

    @property
    def doubling_share(self) -> float | None:
        """Return the share of broken paths, 0 to 1, that doubles the mean price; None if no share does."""
        if self.extra_ms is None or not 0 < self.open_ms < self.extra_ms:
            return None
        return self.open_ms / self.extra_ms


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each large key share and each middlebox that changes the time that it adds."""
    found = grouped(_prices(results, page))
    for (path, large, small, name), prices in found.items():
        # Leave out middleboxes without effect: those that act on QUIC let TCP pass, and vice versa.
        if all(one.extra_ms is not None and round(one.extra_ms, 1) == 0 for one in prices):
            continue
        broken = [one.broken_ms for one in prices if one.broken_ms is not None]
        figures = {"broken_ms_min": min(broken), "broken_ms_max": max(broken)} if broken else {}
        yield Finding("large_hello_price", _sentence(path, large, small, name, prices), figures)


def _prices(results: Results, page: str) -> Iterator[tuple[tuple[str, KeyShare, KeyShare, str], Price]]:
    """Yield (path, large key share, small key share, other settings of the row) with the price."""
    factors, apart = results.factors, ("path", "key_share")
    cells = (one for one in results.cells if one.cell.page == page and one.cell.arm.name == BASELINE.name)
    for group in results.alike(cells, *apart):
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
                yield (path, share, small, name), Price(opened, broken)


def _added_ms(
    row: dict[tuple[str, KeyShare], CellResult], path: str, large: KeyShare, small: KeyShare
) -> float | None:
    """Return the time that the large key share adds on a path; None if either has no valid load there."""
    with_large, with_small = (row.get((path, share)) for share in (large, small))
    if with_large is None or with_small is None:
        return None
    if with_large.plt_ms_median is None or with_small.plt_ms_median is None:
        return None
    return with_large.plt_ms_median - with_small.plt_ms_median


def _sentence(path: str, large: KeyShare, small: KeyShare, name: str, prices: Sequence[Price]) -> str:
    of_row = f" ({name})" if name else ""
    broken = [one.broken_ms for one in prices if one.broken_ms is not None]
    if len(broken) < len(prices):
        some = f" on {len(prices) - len(broken)} of {len(prices)} networks" if broken else ""
        return f"Behind {path}, no load with {large}{of_row} finishes{some}."
    opened = [one.open_ms for one in prices]
    of_a_percent = [(more - less) / 100 for more, less in zip(broken, opened, strict=True)]
    sentence = (
        f"Behind {path}, {large}{of_row} adds {span(broken, 'ms')} to page load time compared with {small},"
        f" and {span(opened, 'ms')} over an open path. Each percent of such paths costs"
        f" {span(of_a_percent, 'ms')} on average"
    )
    shares = [100 * share for one in prices if (share := one.doubling_share) is not None]
    if len(shares) < len(prices):
        return f"{sentence}."
    return f"{sentence}, and a share of {span(shares, '%')} doubles the cost."
