"""Format numbers and lists for sentences: quantities with units, signs, ranges and lists of words."""

from collections.abc import Sequence
from typing import Final

NBSP: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"


def time(milliseconds: float) -> str:
    """Format a time: `62 ms`, `0.4 ms`, `2.69 s`. A negative time begins with a minus sign (U+2212)."""
    size = abs(milliseconds)
    sign = MINUS if milliseconds < 0 else ""
    if size >= 1000:
        return f"{sign}{size / 1000:.2f}{NBSP}s"
    return f"{sign}{size:.{1 if size < 10 else 0}f}{NBSP}ms"


def times(low_ms: float, high_ms: float) -> str:
    """Format a time range: `62 to 410 ms`, `0.98 to 1.71 s`, `13 ms to 1.71 s`; `62 ms` for equal ends."""
    low, high = time(low_ms), time(high_ms)
    if low == high:
        return low
    if 0 <= low_ms < 100 and high_ms >= 1000:
        return f"{low} to {high}"
    if max(abs(low_ms), abs(high_ms)) >= 1000:
        low, high = (f"{MINUS if end < 0 else ''}{abs(end) / 1000:.2f}{NBSP}s" for end in (low_ms, high_ms))
    return f"{low.partition(NBSP)[0]} to {high}"


def change(milliseconds: float) -> str:
    """Format a difference of times: `+44 ms`, `-410 ms` (with U+2212), or `0 ms` within ±0.05 ms."""
    if abs(milliseconds) < 0.05:
        return f"0{NBSP}ms"
    return f"{'+' if milliseconds > 0 else MINUS}{time(abs(milliseconds))}"


def percent(value: float) -> str:
    """Format the absolute value of a percentage: `3.7 %` for 3.7 and for -3.7."""
    return f"{abs(value):.1f}{NBSP}%"


def signed(value: float) -> str:
    """Format a number with one decimal place, such as `3.7`, or `-3.7` with U+2212. Never return `-0.0`."""
    return with_sign(value).removeprefix("+")


def span(values: Sequence[float], unit: str) -> str:
    """Format the range of `values`, such as `0.6 to 3.7 ms`, or `12.5 ms` if both ends are equal."""
    ends = dict.fromkeys(signed(end) for end in (min(values), max(values)))
    return f"{' to '.join(ends)}{NBSP}{unit}"


def ends(percents: Sequence[float]) -> str:
    """Format a range of percentages with signs: `-0.3 to +3.7 %`, or `+3.7 %` if both ends are equal."""
    return f"{' to '.join(dict.fromkeys(map(with_sign, (min(percents), max(percents)))))}{NBSP}%"


def sizes(counts: Sequence[float]) -> str:
    """Format the sizes of samples: `n 8`, or `n 4 to 5` if they differ."""
    return f"n{NBSP}{' to '.join(dict.fromkeys(f'{count:g}' for count in (min(counts), max(counts))))}"


def with_sign(value: float, digits: int = 1) -> str:
    """Format a number with its sign and `digits` decimal places: `+3.7`, `-3.7` (with U+2212) or `0.0`."""
    rounded = round(value, digits)
    sign = MINUS if rounded < 0 else "+" if rounded else ""
    return f"{sign}{abs(rounded):.{digits}f}"


def nonzero_with_sign(value: float) -> str:
    """Format a difference with its sign, such as `+3.7` or `+0.04`. Zero becomes `0.0`. Any other difference
    that rounds to 0.00 becomes `<0.01`, without a sign."""
    if not value:
        return "0.0"
    return next((text for digits in (1, 2) if (text := with_sign(value, digits))[0] != "0"), "<0.01")


def share(fraction: float) -> str:
    """Format a fraction as a percentage: `12 %` for 0.12. Below 10 %, use one decimal place: `1.2 %`."""
    return f"{100 * fraction:.0f}{NBSP}%" if fraction >= 0.1 else f"{100 * fraction:.1f}{NBSP}%"


def size(count: float) -> str:
    """Format a number of bytes: `640 B`, `42 kB`, `1.3 MB`."""
    if count < 1000:
        return f"{count:.0f}{NBSP}B"
    return f"{count / 1e3:.0f}{NBSP}kB" if count < 1e6 else f"{count / 1e6:.1f}{NBSP}MB"


def plural(count: float, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 host`, `1,200 hosts`. The plural `many` is by default `one` + s."""
    number = f"{round(count, 1):,}".removesuffix(".0")
    return f"{number} {one if number == '1' else many or one + 's'}"


def some(items: Sequence[str], most: int = 4) -> str:
    """List the items: `a and b`. If there are more than `most`, end with a count: `a, b and 9 more`."""
    return listed(items if len(items) <= most else [*items[: most - 1], f"{len(items) - most + 1:,} more"])


def decapitalised(text: str) -> str:
    """Return the text with a lower-case first letter, or unchanged if the first word is an abbreviation."""
    first = text.split(" ", 1)[0]
    return text if first[1:].isupper() else f"{text[:1].lower()}{text[1:]}"


def capitalised(text: str) -> str:
    """Return the text with a capital first letter. Unlike `str.capitalize`, keep all other letters."""
    return f"{text[:1].upper()}{text[1:]}"


def listed(items: Sequence[str]) -> str:
    """List all items: `a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
