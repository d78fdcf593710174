"""What a recording says of a page besides its exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PageHead:
    """A page of a file that may hold several."""

    id: str
    title: str = ""
    started: float | None = None
    """ms since 1970."""
    on_load: float | None = None
    """ms after it started."""
    inspector_clock: bool = False
    """`on_load` counts from the start of the recording, not from the start of the page."""
    down_bit_per_s: int | None = None
    up_bit_per_s: int | None = None
    network: Mapping[str, Any] | None = None
    """The emulated network of a load without TCP Fast Open, as a job has it."""
    members: list[int] = field(default_factory=list)
    """The places of its entries in the file."""
