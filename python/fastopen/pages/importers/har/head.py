"""What a HAR says of a page besides its entries: title, load event, how the recorder limited the rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastopen.pages.importers import fields


@dataclass
class PageHead:
    """One page of the file. `members` are the places of its entries in `log.entries`."""

    id: str
    title: str = ""
    started: float | None = None
    """ms since 1970."""
    on_load: float | None = None
    """ms after it started."""
    down_bit_per_s: int | None = None
    up_bit_per_s: int | None = None
    network: Mapping[str, Any] | None = None
    """Of a load in a world, without TCP Fast Open."""
    members: list[int] = field(default_factory=list)


def head_of(page: Mapping[str, Any], fallback: str) -> PageHead:
    """A member of `log.pages`; `fallback` is its name where it has none."""
    identity = page.get("id")
    timings = fields.mapping(page.get("pageTimings"))
    return PageHead(
        id=str(identity) if isinstance(identity, (str, int)) else fallback,
        title=fields.text(page.get("title")),
        started=fields.moment_ms(page.get("startedDateTime")),
        on_load=fields.milliseconds(timings.get("onLoad")) or None,
        down_bit_per_s=_rate(page.get("_bwDown")),
        up_bit_per_s=_rate(page.get("_bwUp")),
        network=_network(fields.mapping(page.get("_fastopen"))),
    )


def _network(load: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The network of a load that fastopen wrote; None where data in SYNs made round trips fewer."""
    network = load.get("network")
    return network if isinstance(network, dict) and load.get("cookies") is None else None


def _rate(kbit_per_s: object) -> int | None:
    """WebPageTest writes the rates of its emulated link in kbit/s, 0 for none."""
    found = fields.number(kbit_per_s)
    return round(found * 1000) if found is not None and 0 < found < 1e7 else None
