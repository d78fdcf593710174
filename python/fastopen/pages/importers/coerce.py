"""Coerce values of recordings that may be missing, of a wrong type (sizes as strings), or absurd."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from fastopen.common import json_memory

Pairs = Sequence[tuple[str, str]]
# A day. No recording of a page lasts longer. Recorders write larger numbers for "never" and "unknown".
MAX_MS: Final = 86_400_000.0
MAX_SIZE: Final = 2**36
_YEAR_9999_MS: Final = 253_402_300_000_000.0
# Numbers in this range are seconds since 1970, from 2001 on, as some proxies write them. In ms, they would be
# before 1973. Smaller numbers are ms since another moment.
_SECONDS: Final = (1e9, 1e11)


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, otherwise an empty mapping."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Return a finite number, also from a string (as WebPageTest writes some); None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def milliseconds(value: object) -> float | None:
    """Return a duration or offset in ms; None if missing, negative (HAR: "does not apply") or over MAX_MS."""
    found = number(value)
    return found if found is not None and 0 <= found <= MAX_MS else None


def size(value: object) -> int | None:
    """Return a size in bytes; None if missing, negative (HAR: "not available") or over MAX_SIZE."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= MAX_SIZE else None


def decoded(text: str) -> Any:
    """Decode JSON. Return None if it is malformed or needs too much memory."""
    with suppress(ValueError, RecursionError):
        return None if json_memory.is_too_much(text) else json.loads(text)
    return None


def lowered(pairs: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
    """Return the header fields with names in lower case, and without pseudo-headers such as `:status`."""
    # Chrome joins fields of the same name (Set-Cookie) with line feeds. Others write numbers (sizes).
    return [
        (name.strip().lower(), line.strip("\r"))
        for name, content in pairs
        if isinstance(name, str) and name and not name.startswith(":")
        for line in (str(content) if isinstance(content, (str, int)) else "").split("\n")
    ]


def header(fields: Pairs, name: str) -> str | None:
    """Return the value of the first header field with this name (in lower case); None if there is none."""
    return next((value for found, value in fields if found == name), None)


def moment_ms(value: object) -> float | None:
    """Parse a time (ms or s since 1970, ISO 8601 or RFC 5322) into ms since 1970; None if it is invalid."""
    if isinstance(value, (int, float)):
        found = number(value)
        if found is not None and _SECONDS[0] <= found < _SECONDS[1]:
            found *= 1000
        return found if found is not None and 0 < found < _YEAR_9999_MS else None
    if not isinstance(value, str):
        return None
    try:
        try:
            parsed = datetime.fromisoformat(value.strip())
        except ValueError:
            parsed = parsedate_to_datetime(value.strip())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, IndexError, TypeError, OverflowError):
        return None


def label(name: str) -> str:
    """Return the printable characters of a program's name, at most 80."""
    return "".join(c for c in name if c.isprintable())[:80]


def source_of(form: str, writer: str, date: str) -> str:
    """Return the source of a page, such as `HAR by Firefox, recorded 2026-11-29`, from a date and time."""
    source, day = f"{form} by {writer}" if writer else form, date[:10]
    return f"{source}, recorded {day}" if day.replace("-", "").isdigit() else source


def charset(mime: str) -> str | None:
    """Return the charset parameter of a Content-Type; None if there is none or Python does not know it."""
    value = mime.lower().partition("charset=")[2].partition(";")[0].strip().strip("'\"")
    try:
        b"".decode(value)
    except (LookupError, ValueError):
        return None
    return value or None
