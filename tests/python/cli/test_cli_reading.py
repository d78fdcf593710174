"""What a person sees while large recordings are read."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from fastopen.cli.progress import LiveBar
from fastopen.cli.reading import BAR_AFTER_S, reading_progress


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(moments: list[float], *, terminal: bool, quiet: bool = False) -> str:
    """What is printed when told at these moments (s) that another tenth is read."""
    clock, out = Clock(), StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, color_system=None)
    with LiveBar(console, quiet, clock, BAR_AFTER_S) as bar:
        show = reading_progress(bar)
        for number, moment in enumerate(moments, start=1):
            clock.now = moment
            show("/here/my.har", 10 * number, 100)
    return out.getvalue()


def test_what_is_read_at_once_shows_nothing() -> None:
    assert watched([0.1, 0.2, 0.4], terminal=True) == ""


def test_what_takes_longer_shows_a_bar_on_a_terminal() -> None:
    shown = watched([0.1, 0.6, 0.7], terminal=True)
    assert "reading /here/my.har: 30 %" in shown


def test_elsewhere_a_line_comes_every_ten_seconds() -> None:
    assert watched([1, 5, 11, 12, 25], terminal=False).splitlines() == [
        "reading /here/my.har: 30 %",
        "reading /here/my.har: 50 %",
    ]


def test_quiet_is_quiet() -> None:
    assert watched([1, 11, 22], terminal=True, quiet=True) == ""
    assert watched([1, 11, 22], terminal=False, quiet=True) == ""
