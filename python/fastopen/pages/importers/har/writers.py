"""List programs whose HARs deviate from HAR 1.2, with the evidence for each deviation."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fastopen.pages.importers import coerce


class Writer(NamedTuple):
    """The deviations of a program that writes HARs."""

    tls_counted_twice: bool = False
    """True if `connect` includes TLS, as HAR 1.2 requires, but `time` adds `ssl` again."""
    load_event_of_inspector: bool = False
    """True if `onLoad` counts from the start of the recording instead of the start of the page."""


# Keys are the creator's name in the HAR, in lower case. The comments name the evidence.
WRITERS: Final = {
    "playwright": Writer(tls_counted_twice=True),  # harTracer.ts, all versions up to 1.57
    "webkit web inspector": Writer(load_event_of_inspector=True),  # HARBuilder.js, TimelineManager.js
}


def writer_of(log: Mapping[str, Any]) -> Writer:
    creator = coerce.text(coerce.mapping(log.get("creator")).get("name"))
    return WRITERS.get(creator.strip().lower(), Writer())
