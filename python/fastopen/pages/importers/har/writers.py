"""Habits of programs that write HARs, with the evidence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastopen.pages.importers import fields


@dataclass(frozen=True)
class Writer:
    """The habits of a program, by the name of the HAR's creator."""

    name: str
    """A regular expression that the creator's name matches."""
    evidence: str
    """The source that shows the habits."""
    tls_counted_twice: bool = False
    """Its `connect` holds TLS, as the format has it, and its `time` adds `ssl` once more."""
    load_event_of_inspector: bool = False
    """It counts `onLoad` from the start of its own recording, not from the start of the page."""


UNKNOWN: Final = Writer("", "HAR 1.2")
WRITERS: Final = (
    Writer("Playwright", "harTracer.ts, all versions up to 1.57", tls_counted_twice=True),
    Writer("WebKit Web Inspector", "HARBuilder.js and TimelineManager.js", load_event_of_inspector=True),
)


def writer_of(log: Mapping[str, Any]) -> Writer:
    """Return the program that wrote a HAR, or UNKNOWN."""
    creator = fields.text(fields.mapping(log.get("creator")).get("name")).strip()
    return next((one for one in WRITERS if re.fullmatch(one.name, creator, re.IGNORECASE)), UNKNOWN)
