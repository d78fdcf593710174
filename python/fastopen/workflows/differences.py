"""The difference of two page load times."""


class TwoTimes:
    """Something that was timed in two ways."""

    @property
    def times_ms(self) -> tuple[float | None, float | None]:
        """The time that the other is compared with, and the other; None where one is not known."""
        raise NotImplementedError

    @property
    def difference_ms(self) -> float | None:
        """The other less the first; None where one of them is not known."""
        base, other = self.times_ms
        return None if base is None or other is None else other - base

    @property
    def difference_percent(self) -> float | None:
        """Return the difference in percent of the first."""
        base, difference = self.times_ms[0], self.difference_ms
        return None if difference is None or not base else 100 * difference / base
