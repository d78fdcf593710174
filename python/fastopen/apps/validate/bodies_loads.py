"""Load recorded pages in Chromium with the recorded bodies, and count the recorded requests that it makes."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastopen.contract import LoadRecord, Network, Origins
from fastopen.contract.clients import CHROMIUM
from fastopen.experiments import BASELINE
from fastopen.pages import ImportedPage
from fastopen.workflows.differences import TwoTimes
from fastopen.workflows.page_loads import PageLoads
from fastopen.workflows.run import Watch


@dataclass(frozen=True)
class BodiesValidation(TwoTimes):
    """One load of a recorded page. Times are in ms, None if unknown or if the load did not finish."""

    page: str
    recorded: int
    """The number of requests in the recording."""
    missing: tuple[str, ...]
    """The recorded requests that the browser did not make: method and URL."""
    matched: int
    """The number of the browser's requests that the recording answers."""
    nearest: int
    """The number of matched requests whose port or query differs from the recorded one."""
    unmatched: tuple[str, ...]
    """The browser's requests that the recording does not answer: method and URL."""
    recorded_bytes: int
    """The size of the recorded bodies."""
    received_bytes: int
    recorded_ms: float | None
    """The page load time in the recording, over the recorded network."""
    replayed_ms: float | None
    recorded_screenshot: bytes | None
    screenshot: bytes | None
    invalid: tuple[str, ...]
    """The reasons why the load is invalid."""

    @property
    def asked(self) -> int:
        """Return the number of recorded requests that the browser made."""
        return self.recorded - len(self.missing)

    @property
    def asked_percent(self) -> float:
        """Return the share of recorded requests that the browser made, in percent."""
        return 100 * self.asked / self.recorded

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        return self.recorded_ms, self.replayed_ms

    def as_json(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "recorded": self.recorded,
            "asked": self.asked,
            "asked_percent": self.asked_percent,
            "missing": list(self.missing),
            "matched": self.matched,
            "matched_nearest": self.nearest,
            "unmatched": list(self.unmatched),
            "recorded_bytes": self.recorded_bytes,
            "received_bytes": self.received_bytes,
            "recorded_plt_ms": self.recorded_ms,
            "plt_ms": self.replayed_ms,
            "difference_percent": self.difference_percent,
            "invalid": list(self.invalid),
        }


def validate_bodies(
    imported: Sequence[ImportedPage],
    network: Network,
    loads: PageLoads,
    *,
    screenshots: bool,
    watch: Callable[[str], Watch],
) -> Iterator[BodiesValidation]:
    """Load each page with its recorded responses, and yield the results. Raises InputError, MachineError."""
    client = {"kind": CHROMIUM.label, "screenshot": screenshots}
    recorded = Origins(bodies="recorded")
    for one in imported:
        watcher = watch(one.page.name)
        with loads.run(one, [network], client, [BASELINE.name], watcher, origins=recorded) as run:
            for row, document in run.store.documents():
                if not row.superseded:
                    yield _validated(one, document)


def _validated(imported: ImportedPage, document: dict[str, Any]) -> BodiesValidation:
    record = LoadRecord.model_validate(document)
    picture = (document.get("browser") or {}).get("screenshot_png")
    resources = imported.page.resources
    answered = [request for request in record.requests if request.status is not None]
    missing = set(range(len(resources))) - {request.resource for request in answered}
    recorded_us = imported.recorded_plt_us
    return BodiesValidation(
        page=imported.page.name,
        recorded=len(resources),
        missing=tuple(f"{resources[one].method} {resources[one].url}" for one in sorted(missing)),
        matched=len(answered),
        nearest=sum(request.url is not None for request in answered),
        unmatched=tuple(record.unmatched),
        recorded_bytes=imported.page.body_bytes(),
        received_bytes=sum(request.body_bytes for request in answered),
        recorded_ms=None if recorded_us is None else recorded_us / 1000,
        replayed_ms=None if record.plt_ns is None else record.plt_ns / 1e6,
        recorded_screenshot=imported.screenshot,
        screenshot=None if picture is None else base64.b64decode(picture),
        invalid=tuple(f"{one.kind}: {one.detail}" for one in record.invalid),
    )
