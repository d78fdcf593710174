"""Make the cells of a server benchmark, and a job for each: one world with one load of transactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Final, Literal

from fastopen.apps.serve_bench.asked import ArmName, Bench, NewKey, flood_words
from fastopen.contract import (
    CONTRACT,
    Flood,
    Job,
    LinkDirection,
    LoadSpec,
    Network,
    Origins,
    Tolerance,
    Transactions,
)
from fastopen.pages import Page
from fastopen.pages.model import Resource

Arrivals = Literal["rate_per_s", "clients"]
# The transport of each arm's connections, and the state of their cookies.
ARMS: Final[dict[ArmName, tuple[Literal["tcp", "tfo"], Literal["cold", "warm"] | None]]] = {
    "off": ("tcp", None),
    "cold": ("tfo", "cold"),
    "warm": ("tfo", "warm"),
}
# The real time that a load may take. In virtual time, a second of transactions can take much longer.
TIMEOUT_US: Final = 3_600_000_000
# The tolerance of the measured RTT in real time, when the machine also runs other programs.
RTT_TOLERANCE_US: Final = 5000


@dataclass(frozen=True)
class BenchCell:
    """An arm with one rate or number of clients, and one value of each factor."""

    arm: ArmName
    arrivals: Arrivals
    count: int
    """The number of transactions per second, or of clients."""
    tfo_queue: int
    syncookies: int
    flood: Flood | None
    new_key: NewKey

    @property
    def factors(self) -> dict[str, str]:
        """Map the names of all factors, except the arm, to their values."""
        return {
            "load": f"{self.count:,}/s" if self.arrivals == "rate_per_s" else f"{self.count:,} clients",
            "queue": str(self.tfo_queue),
            "syncookies": str(self.syncookies),
            "flood": flood_words(self.flood),
            "new key": self.new_key,
        }


def cells_of(bench: Bench) -> list[BenchCell]:
    """Return the cells in the order of the table. Only warm arms have cells with a new key."""
    loads: list[tuple[Arrivals, int]] = [("rate_per_s", rate) for rate in bench.rates]
    loads += [("clients", number) for number in bench.clients]
    factors = product(loads, bench.tfo_queue, bench.syncookies, bench.flood, bench.new_key, bench.arms)
    # An unordered set would not keep the order of the table.
    cells: dict[BenchCell, None] = {}
    for (arrivals, count), queue, syncookies, flood, new_key, arm in factors:
        if arm == "warm" or new_key == "none" or "none" not in bench.new_key:
            key: NewKey = new_key if arm == "warm" else "none"
            cells[BenchCell(arm, arrivals, count, queue, syncookies, flood, key)] = None
    return list(cells)


def jobs_of(
    bench: Bench, cells: Sequence[BenchCell], repeats: int, server: Sequence[str] | None, server_listen: bool
) -> Iterator[Job]:
    """Yield a job for each cell in each of `repeats` rounds. If there are several rounds, each is shuffled. A
    job's id is `CELL#ROUND`: the index of the cell and the number of the round."""
    order = Random(bench.seed)
    for repeat in range(repeats):
        numbers = list(range(len(cells)))
        if repeats > 1:
            order.shuffle(numbers)
        for number in numbers:
            yield _job(bench, cells[number], f"{number}#{repeat}", server, server_listen)


def _job(bench: Bench, cell: BenchCell, name: str, server: Sequence[str] | None, server_listen: bool) -> Job:
    transport, cookies = ARMS[cell.arm]
    transactions = Transactions(
        arrivals={cell.arrivals: cell.count},
        duration_us=bench.duration,
        syncookies=cell.syncookies,
        new_key=None if cell.new_key == "none" else cell.new_key,
        flood=cell.flood,
    )
    no_limit = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
    return Job(
        contract=CONTRACT,
        id=name,
        seed=bench.seed,
        page=page_of(bench),
        network=Network(rtt_us=bench.rtt, down=no_limit, up=no_limit),
        origins=Origins(
            tfo_queue=cell.tfo_queue,
            server=None if server is None else list(server),
            server_listen=server_listen,
        ),
        loads=[LoadSpec(id="transactions", transport=transport, cookies=cookies, transactions=transactions)],
        tolerance=Tolerance(rtt_us=RTT_TOLERANCE_US, rate_fraction=1.0),
        load_timeout_us=TIMEOUT_US,
    )


def page_of(bench: Bench) -> Page:
    """Return a page with one response of the requested size from each host."""
    hosts = [f"http://h{number}.test/" for number in range(bench.hosts)]
    resources = [
        Resource(
            url=url, type="document" if number == 0 else "xhr", body_bytes=bench.size,
            initiator=None if number == 0 else 0,
        )
        for number, url in enumerate(hosts)
    ]  # fmt: skip
    return Page(
        format="fastopen-page/1",
        name="answers",
        url=hosts[0],
        source="made for a server benchmark",
        initiators="declared",
        resources=resources,
    )
