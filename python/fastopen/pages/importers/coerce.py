"""Read values of recordings, which may be missing, absurd or of the wrong type, such as sizes as strings."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from fastopen.common import json_memory

Pairs = Sequence[tuple[str, str]]
# One day: no recording of a page lasts longer. Recorders write larger numbers for "never" and "unknown".
MAX_MS: Final = 86_400_000.0
MAX_SIZE: Final = 2**36
_YEAR_9999_MS: Final = 253_402_300_000_000.0
# Numbers in this range are seconds since 1970, as some proxies write them, for times after 2001. As ms since
# 1970, they would be times before 1973. Smaller numbers are ms since another time than 1970.
_SECONDS: Final = (1e9, 1e11)


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, otherwise an empty mapping."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """Return `value` if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Convert a finite number, or a numeric string as in WebPageTest HARs, to a float; otherwise None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def milliseconds(value: object) -> float | None:
    """Convert a time in ms to a float; None if missing, negative (HAR: "does not apply") or over a day."""
    found = number(value)
    return found if found is not None and 0 <= found <= MAX_MS else None


def size(value: object) -> int | None:
    """Convert a size in bytes to an int; None if missing, negative (HAR: "not available") or over 64 GiB."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= MAX_SIZE else None


def decoded(text: str) -> Any:
    """Decode JSON. Return None if it is malformed or may take up too much memory."""
    with suppress(ValueError, RecursionError):
        return None if json_memory.is_too_much(text) else json.loads(text)
    return None


def lowered(pairs: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
    """Return the header fields with names in lower case, and without pseudo-headers such as `:status`."""
    # Chrome joins fields of the same name (Set-Cookie) with line feeds. Some HARs have numbers as values.
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
    """Convert a time (ms or s since 1970, ISO 8601 or RFC 5322) to ms since 1970; None if it is invalid."""
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
    """Return a program's name without unprintable characters, cut to 80 characters."""
    return "".join(c for c in name if c.isprintable())[:80]


def source_of(form: str, writer: str, date: str) -> str:
    """Describe the source of a page, such as `HAR by Firefox, recorded 2026-11-29`. `form` is the format of
    the recording, `writer` the program that wrote it, and `date` begins with an ISO 8601 date."""
    source, day = f"{form} by {writer}" if writer else form, date[:10]
    return f"{source}, recorded {day}" if day.replace("-", "").isdigit() else source


def charset(mime: str) -> str | None:
    """Return the charset parameter of a Content-Type; None if it is missing or Python does not know it."""
    value = mime.lower().partition("charset=")[2].partition(";")[0].strip().strip("'\"")
    try:
        b"".decode(value)
    except (LookupError, ValueError):
        return None
    return value or None
