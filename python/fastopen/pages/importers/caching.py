"""Compute the freshness of a recorded response, as a browser's private cache does (RFC 9111)."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastopen.pages.importers import coerce
from fastopen.pages.model import MAX_FRESH_S

# A response without an explicit lifetime may be used for a tenth of the time since its last modification (RFC
# 9111 section 4.2.2). As in Chromium, this holds only for these statuses.
_HEURISTIC: Final = frozenset([200, 203, 206])
_HEURISTIC_SHARE: Final = 10
# Without a lifetime, responses with these statuses stay fresh (RFC 9111 4.2.2, RFC 9110 15.4.2, 15.4.9).
_FOR_GOOD: Final = frozenset([300, 301, 308, 410])
_DIRECTIVE: Final = re.compile(r'([a-z-]+)\s*(?:=\s*"?([^",]*)"?)?')


class Freshness(NamedTuple):
    """The freshness of a response. A cache may use it for `fresh_s` seconds after its arrival; None if
    unknown. `validator` is True if a client can revalidate the response, for example by its ETag."""

    fresh_s: int | None = None
    validator: bool = False


def freshness_of(
    method: str, status: int, headers: Sequence[tuple[str, str]], at_ms: float | None
) -> Freshness:
    """Compute a response's freshness: unknown without headers, or if the method is not GET. Header names must
    be in lower case. `at_ms` is the response's arrival in ms since 1970, or None if unknown."""
    if not headers or method != "GET":
        return Freshness()
    text = ",".join(value for name, value in headers if name == "cache-control").lower()
    # Reversed, because the first of several values of a directive counts, and a dict keeps the last.
    control = {name: value.strip() for name, value in reversed(_DIRECTIVE.findall(text))}
    if "no-store" in control:
        return Freshness(0)
    validator = any(coerce.header(headers, name) for name in ("etag", "last-modified"))
    return Freshness(min(_fresh_s(status, headers, control, at_ms), MAX_FRESH_S), validator)


def _delta_s(text: str) -> int | None:
    """Parse a number of seconds, and limit it to 2**31 (RFC 9111 section 1.2.2); None if it is malformed."""
    digits = text.strip()
    return min(int(digits[:20]), 2**31) if digits.isdecimal() else None


def _fresh_s(
    status: int, headers: Sequence[tuple[str, str]], control: dict[str, str], at_ms: float | None
) -> int:
    """Return the remaining freshness in s (RFC 9111 4.2). Ignore `s-maxage`, which is for shared caches."""
    never = "no-cache" in control or (coerce.header(headers, "vary") or "").strip() == "*"
    if never or (not control and "no-cache" in (coerce.header(headers, "pragma") or "").lower()):
        return 0
    age_s = _delta_s(coerce.header(headers, "age") or "") or 0
    date_ms = coerce.moment_ms(coerce.header(headers, "date"))
    if date_ms is None:
        date_ms = at_ms
    if (max_age_s := _delta_s(control.get("max-age", ""))) is not None:
        return max(max_age_s - age_s, 0)
    expires = coerce.header(headers, "expires")
    if expires is not None:
        # An invalid date counts as a time in the past (RFC 9111 section 5.3).
        return max(_seconds(date_ms, coerce.moment_ms(expires)) - age_s, 0)
    if status in _FOR_GOOD:
        return MAX_FRESH_S
    if status in _HEURISTIC and "must-revalidate" not in control:
        unchanged_s = _seconds(coerce.moment_ms(coerce.header(headers, "last-modified")), date_ms)
        return max(unchanged_s // _HEURISTIC_SHARE - age_s, 0)
    return 0


def _seconds(since_ms: float | None, until_ms: float | None) -> int:
    return 0 if since_ms is None or until_ms is None else max(int((until_ms - since_ms) / 1000), 0)
