"""List programs whose HARs deviate from HAR 1.2, with the evidence for each deviation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastopen.pages.importers import coerce


@dataclass(frozen=True)
class Writer:
    """A program that writes HARs, recognised by the creator's name in the HAR, and its deviations."""

    name: str
    """A regular expression for the creator's name."""
    evidence: str
    """The source that shows the deviations."""
    tls_counted_twice: bool = False
    """True if `connect` includes TLS, as HAR 1.2 requires, but `time` adds `ssl` again."""
    load_event_of_inspector: bool = False
    """True if `onLoad` counts from the start of the recording instead of the start of the page."""


UNKNOWN: Final = Writer("", "HAR 1.2")
WRITERS: Final = (
    Writer("Playwright", "harTracer.ts, all versions up to 1.57", tls_counted_twice=True),
    Writer("WebKit Web Inspector", "HARBuilder.js and TimelineManager.js", load_event_of_inspector=True),
)


def writer_of(log: Mapping[str, Any]) -> Writer:
    """Return the program that wrote a HAR, or UNKNOWN."""
    creator = coerce.text(coerce.mapping(log.get("creator")).get("name")).strip()
    return next((one for one in WRITERS if re.fullmatch(one.name, creator, re.IGNORECASE)), UNKNOWN)
