"""At which share of broken paths TCP Fast Open stops paying: measured savings against measured prices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastopen.contract.job import QUIC_PATHS
from fastopen.experiments import ArmName, Role
from fastopen.statistics.cells import CellResult
from fastopen.statistics.results import Results

# How long the first SYN is waited for (TCP_TIMEOUT_INIT in Linux's include/net/tcp.h; RFC 6298 section 2.1).
SYN_TIMEOUT_MS: Final = 1000.0
# Of paths that drop SYNs with data or with the option; others have found more (docs/paths.md).
DROPPING_SHARE: Final = 0.06
DROPPING_SOURCE: Final = "RFC 7413, section 7.1"


@dataclass(frozen=True)
class Payoff:
    """One arm of a page over one network: what it saves over an open path, and what a broken one costs."""

    page: str
    rtt_ms: float
    arm: ArmName
    path: str
    saved_ms: float
    """Median over pairs of loads, where the path is open."""
    cost_ms: float
    """The same behind the middlebox, with its sign turned: what TFO costs there."""

    def break_even_share(self, visits: int = 1) -> float | None:
        """The share of broken paths, 0 to 1, below which TFO saves time on average; None: whatever the share.

        0 where nothing is saved over an open path.

        `visits` share one cost: of a client that keeps a negative cache (RFC 7413 section 4.1.3.1), whose
        first visit finds out, and which does without TFO on the others.
        """
        if self.saved_ms <= 0:
            return 0.0
        if self.cost_ms <= 0:
            return None
        return self.saved_ms / (self.saved_ms + self.cost_ms / visits)

    @property
    def one_handshake_share(self) -> float:
        """The same of one handshake whose SYN is sent again, by arithmetic: RTT / (RTT + time-out)."""
        return self.rtt_ms / (self.rtt_ms + SYN_TIMEOUT_MS)

    def as_json(self, visits: int) -> dict[str, Any]:
        """For a document."""
        return {
            "page": self.page,
            "rtt_ms": self.rtt_ms,
            "arm": self.arm,
            "path": self.path,
            "saved_ms": self.saved_ms,
            "cost_ms": self.cost_ms,
            "break_even_share": self.break_even_share(),
            "break_even_share_negative_cache": self.break_even_share(visits),
            "one_handshake_share": self.one_handshake_share,
        }


def payoffs(runs: Sequence[Results]) -> Iterator[Payoff]:
    """Of each treatment behind each middlebox whose open path was loaded in the same run.

    Where a share of hosts is drawn, a load is no price of a broken path but a mean over broken and open ones.
    """
    for results in runs:
        networks = results.experiment.networks
        treatments = [one for one in results.cells if one.cell.arm.role is Role.TREATMENT]

        def compared(result: CellResult, results: Results = results) -> tuple[Any, ...]:
            cell = result.cell
            network = results.experiment.networks[cell.network]
            otherwise = network.model_copy(update={"path": "none", "path_hosts": None})
            return (cell.page, repr(otherwise), cell.setup, cell.engine, cell.arm.name)

        opened = {compared(one): one for one in treatments if networks[one.cell.network].path == "none"}
        for result in treatments:
            network = networks[result.cell.network]
            free = opened.get(compared(result))
            if network.path in ("none", *QUIC_PATHS) or network.path_share < 1:
                continue
            if free is None or free.saved_ms is None or result.saved_ms is None:
                continue
            yield Payoff(
                page=result.cell.page,
                rtt_ms=network.rtt_us / 1000,
                arm=result.cell.arm.name,
                path=network.path,
                saved_ms=free.saved_ms,
                cost_ms=-result.saved_ms,
            )
