"""How far two page load times are from each other."""


def difference_ms(base_ms: float | None, other_ms: float | None) -> float | None:
    """The other less the base; None where one of them is not known."""
    return None if base_ms is None or other_ms is None else other_ms - base_ms


def difference_percent(base_ms: float | None, other_ms: float | None) -> float | None:
    """The same, of the base."""
    difference = difference_ms(base_ms, other_ms)
    return None if difference is None or not base_ms else 100 * difference / base_ms
