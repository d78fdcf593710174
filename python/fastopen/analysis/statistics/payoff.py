"""Compute the share of broken paths at which TCP Fast Open costs as much time as it saves."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isclose, isfinite
from typing import Any, Final

from fastopen.analysis.statistics.cells import CellResult
from fastopen.analysis.statistics.results import Results
from fastopen.common.grouping import grouped
from fastopen.contract.network import QUIC_PATHS
from fastopen.experiments import ArmName, Role

# The timeout of the first SYN (TCP_TIMEOUT_INIT in Linux's include/net/tcp.h; RFC 6298 section 2.1).
SYN_TIMEOUT_MS: Final = 1000.0
# Share of paths that drop SYNs with data or the TFO option. Other studies found more (docs/paths.md).
DROPPING_SHARE: Final = 0.06
DROPPING_SOURCE: Final = "RFC 7413, section 7.1"
ALIKE_MS: Final = 1.0  # the largest difference between times that count as the same


@dataclass(frozen=True)
class Payoff:
    """The time that TFO saves on a page over an open path, and its cost behind a middlebox (`path`)."""

    page: str
    rtt_ms: float
    arm: ArmName
    path: str
    saved_ms: float
    """The median saving over pairs of loads on the open path."""
    cost_ms: float
    """The median cost behind the middlebox: negative if TFO saves time, infinite if no TFO load finishes."""
    otherwise: str = ""
    """Varying settings other than RTT, middlebox and arm, as text; empty if they do not affect the times."""

    def mean_saving_ms(self, share: float, visits: int = 1) -> float:
        """Return the mean saving per visit, in ms, if a fraction of the paths breaks TFO. `share`: this
        fraction, 0 to 1. `visits`: the number of visits over each path. On a broken path, the first visit
        costs `cost_ms`, and later visits do not use TFO."""
        cost_ms = share * self.cost_ms / visits if share else 0.0  # 0 times infinity is not a number
        return (1 - share) * self.saved_ms - cost_ms

    def break_even_share(self, visits: int = 1) -> float | None:
        """Return the fraction of broken paths, 0 to 1, below which TFO saves time on average. Return 0 if TFO
        saves nothing over an open path, and None if TFO costs nothing over a broken path.

        `visits`: the number of visits over a broken path. Only the first costs time. The number is above
        1 for clients that remember broken paths (negative cache, RFC 7413 section 4.1.3.1)."""
        if self.saved_ms <= 0:
            return 0.0
        if self.cost_ms <= 0:
            return None
        return self.saved_ms / (self.saved_ms + self.cost_ms / visits)

    @property
    def one_handshake_share(self) -> float:
        """Estimate the fraction of broken paths, 0 to 1, below which TFO saves time: RTT / (RTT + timeout).
        This assumes that TFO saves one RTT over an open path, and costs one SYN timeout over a broken one."""
        return self.rtt_ms / (self.rtt_ms + SYN_TIMEOUT_MS)

    def as_json(self, visits: int) -> dict[str, Any]:
        """Return the times and shares with the keys of docs/json.md. `cost_ms` is None if infinite."""
        names = ("page", "rtt_ms", "arm", "path", "otherwise", "saved_ms")
        return {
            **{name: getattr(self, name) for name in names},
            "cost_ms": self.cost_ms if isfinite(self.cost_ms) else None,
            "break_even_share": self.break_even_share(),
            "break_even_share_negative_cache": self.break_even_share(visits),
            "one_handshake_share": self.one_handshake_share,
        }


def payoffs(results: Results) -> Iterator[Payoff]:
    """Yield the time that TFO costs behind each middlebox and saves without the middlebox, for each page,
    RTT, setup and kind of TFO cookies. Leave out middleboxes that affect only QUIC or only some hosts
    (`path_share` below 1), or that were not compared with an open path."""
    of_row = grouped(((one.page, one.path, one.rtt_ms, one.arm), one) for one in _payoffs(results))
    for alike in of_row.values():
        if len({(one.saved_ms, one.cost_ms) for one in alike}) == 1:
            yield replace(alike[0], otherwise="")
        else:
            yield from alike


def by_cost(found: Iterable[Payoff]) -> list[tuple[list[str], list[Payoff]]]:
    """Group middleboxes behind which TFO costs the same time (within ALIKE_MS) on every network. A group is
    (names of its middleboxes, items of `found` for the first of these). `found` has an item for each
    middlebox on each network. All items are for one page and kind of TFO cookies."""
    alike: list[tuple[list[str], list[Payoff]]] = []
    for path, costs in grouped((one.path, one) for one in found).items():
        for paths, others in alike:
            if _cost_the_same(costs, others):
                paths.append(path)
                break
        else:
            alike.append(([path], costs))
    return alike


def _cost_the_same(some: Sequence[Payoff], others: Sequence[Payoff]) -> bool:
    return len(some) == len(others) and all(
        (one.rtt_ms, one.otherwise) == (other.rtt_ms, other.otherwise)
        and isclose(one.cost_ms, other.cost_ms, rel_tol=0.0, abs_tol=ALIKE_MS)
        for one, other in zip(some, others, strict=True)
    )


def _payoffs(results: Results) -> Iterator[Payoff]:
    networks = results.experiment.networks
    besides = results.factors.besides("rtt", "path", "path_hosts", "path_share")
    others = [one for one in besides if one.part != "arm"]
    treatments = [one for one in results.cells if one.cell.arm.role is Role.TREATMENT]

    def compared(result: CellResult) -> tuple[Any, ...]:
        cell = result.cell
        otherwise = networks[cell.network].model_copy(update={"path": "none", "path_hosts": None})
        return (cell.page, repr(otherwise), cell.setup, cell.engine, cell.arm.name)

    baselines = (one for one in results.cells if one.cell.arm.role is Role.BASELINE)
    loads_without = {one.cell.comparison for one in baselines if one.plts_ms}
    opened = {compared(one): one for one in treatments if networks[one.cell.network].path == "none"}
    for result in treatments:
        network = networks[result.cell.network]
        free = opened.get(compared(result))
        if network.path in ("none", *QUIC_PATHS) or network.path_share < 1:
            continue
        never = result.cell.comparison in loads_without and 0 < result.loads == result.unfinished
        saved_ms = -inf if never else result.saved_ms
        if free is None or free.saved_ms is None or saved_ms is None:
            continue
        yield Payoff(
            page=result.cell.page,
            rtt_ms=network.rtt_us / 1000,
            arm=result.cell.arm.name,
            path=network.path,
            saved_ms=free.saved_ms,
            cost_ms=-saved_ms,
            otherwise=", ".join(results.factors.phrases(result.cell, others)),
        )
