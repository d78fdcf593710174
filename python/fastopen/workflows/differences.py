"""Compute the difference between two page load times."""


class TwoTimes:
    """A base class for results with two page load times: a base time and a time to compare with it."""

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """Return the base time and the compared time in milliseconds; None for an unknown time."""
        raise NotImplementedError

    @property
    def difference_ms(self) -> float | None:
        """Return the compared time minus the base time in ms; None if either time is unknown."""
        base, other = self.times_ms
        return None if base is None or other is None else other - base

    @property
    def difference_percent(self) -> float | None:
        """Return the difference in percent of the base time; None if a time is unknown or the base is 0."""
        base, difference = self.times_ms[0], self.difference_ms
        return None if difference is None or not base else 100 * difference / base
