"""Compare clients: the requests and load times of the browser and of the loader."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

from fastopen.contract import LoadRecord, Network
from fastopen.contract.clients import CHROMIUM, LOADER
from fastopen.experiments import BASELINE, HEADLINE, ArmName
from fastopen.pages import ImportedPage, Page
from fastopen.runs import RunStore
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.page_loads import PageLoads, last_records
from fastopen.workflows.run import Watch

ARMS: Final[list[ArmName]] = [BASELINE.name, HEADLINE.name]
COMPARED: Final = (LOADER.label, CHROMIUM.label)


@dataclass(frozen=True)
class ClientComparison(TwoTimes):
    """A page's load by each client, or the medians of several samples. Times in ms; None if unfinished."""

    page: str
    arm: str
    requests: int
    """The number of resources that the loader requested."""
    loader_ms: float | None
    chromium_ms: float | None
    missing: tuple[str, ...]
    """The URLs that the loader requested and the browser did not."""
    extra: int
    """The number of the browser's requests that the loader did not make, or that the page does not have."""
    invalid: tuple[str, ...]
    """The reasons why a load is invalid, each with the client."""
    unlike: int
    """The number of resources that the browser's page cannot reproduce: left out, relocated, or early."""

    @property
    def same_requests(self) -> bool:
        return not self.missing and not self.extra

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the page load times of the loader and of the browser; None unless both loads are valid."""
        return (None, None) if self.invalid else (self.loader_ms, self.chromium_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "transport": self.arm,
            "requests": self.requests,
            "same_requests": self.same_requests,
            "missing": list(self.missing),
            "extra": self.extra,
            "unlike": self.unlike,
            "loader_ms": self.loader_ms,
            "chromium_ms": self.chromium_ms,
            "difference_ms": self.difference_ms,
            "difference_percent": self.difference_percent,
            "invalid": list(self.invalid),
        }


def compare_clients(
    pages: Iterable[Page],
    network: Network,
    loads: PageLoads,
    watch: Callable[[str], Watch],
    *,
    draws: int = 1,
) -> Iterator[ClientComparison]:
    """Compare each page's loads by the clients, without TFO and with warm cookies. Raises MachineError."""
    clients = {"kind": list(COMPARED)}
    for page in pages:
        watcher = watch(page.name)
        with loads.run(ImportedPage(page), [network], clients, ARMS, watcher, draws=draws) as run:
            found = _found(run.store)
        for arm in ARMS:
            of_client = [found[client, arm] for client in COMPARED]
            yield _median(
                [_compared(page, arm, *(of.get(draw) for of in of_client)) for draw in range(draws)]
            )


def _median(draws: Sequence[ClientComparison]) -> ClientComparison:
    """Return the median times (None if a sample lacks one), the largest counts, and all URLs and reasons."""

    def median_ms(times: Iterable[float | None]) -> float | None:
        known = [one for one in times if one is not None]
        return median(known) if len(known) == len(draws) else None

    return replace(
        draws[0],
        requests=max(one.requests for one in draws),
        loader_ms=median_ms(one.loader_ms for one in draws),
        chromium_ms=median_ms(one.chromium_ms for one in draws),
        missing=tuple(dict.fromkeys(url for one in draws for url in one.missing)),
        extra=max(one.extra for one in draws),
        invalid=tuple(dict.fromkeys(reason for one in draws for reason in one.invalid)),
        unlike=max(one.unlike for one in draws),
    )


# By client and arm, then by sample: the record, and the number of resources that its page lacks.
_Found = dict[tuple[str, str], dict[int, tuple[LoadRecord, int]]]


def _found(store: RunStore) -> _Found:
    """Return the last attempt of each load, and the number of resources that its page cannot reproduce."""
    cells = {cell.index: cell for cell in store.cells()}
    found: _Found = defaultdict(dict)
    for row, record in last_records(store):
        cell = cells[row.cell]
        client = store.experiment().setups[cell.setup].client.label
        unlike = 0
        for world in store.world_records(row.job):
            if (gaps := world.fidelity_gaps) is not None:
                unlike = len({*gaps.left_out, *gaps.relocated, *gaps.early})
        found[client, cell.arm.name][row.repeat] = (record, unlike)
    return found


def _compared(
    page: Page, arm: str, loader: tuple[LoadRecord, int] | None, chromium: tuple[LoadRecord, int] | None
) -> ClientComparison:
    wanted = set() if loader is None else _asked(loader[0])
    asked = set() if chromium is None else _asked(chromium[0])
    unknown = 0 if chromium is None else chromium[0].unknown_requests
    return ClientComparison(
        page=page.name,
        arm=arm,
        requests=len(wanted),
        loader_ms=_plt_ms(loader),
        chromium_ms=_plt_ms(chromium),
        missing=tuple(page.resources[one].url for one in sorted(wanted - asked)),
        extra=len(asked - wanted) + unknown,
        invalid=(*_reasons(LOADER.label, loader), *_reasons(CHROMIUM.label, chromium)),
        unlike=0 if chromium is None else chromium[1],
    )


def _reasons(client: str, found: tuple[LoadRecord, int] | None) -> Iterator[str]:
    if found is None:
        yield f"{client}: no load"
    else:
        yield from (f"{client}: {one.kind}: {one.detail}" for one in found[0].invalid)


def _asked(record: LoadRecord) -> set[int]:
    return {one.resource for one in record.requests if one.status is not None}


def _plt_ms(found: tuple[LoadRecord, int] | None) -> float | None:
    return None if found is None or found[0].plt_ns is None else found[0].plt_ns / 1e6
