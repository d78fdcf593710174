"""Progress that is shown while large recordings are read and while pages are loaded."""

from __future__ import annotations

import gzip
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from command_line import fastopen
from fastopen.cli.progress import LiveBar, RunWatcher
from fastopen.cli.reading import BAR_AFTER_S, show_reading
from fastopen.runs import RunProgress, TimeLimit


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(moments: list[float], *, terminal: bool, quiet: bool = False) -> str:
    """At each of these times (s), report that another 10 % was read. Return the printed text."""
    clock, out = Clock(), StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, color_system=None)
    with LiveBar(console, quiet, clock, BAR_AFTER_S) as bar:
        for number, moment in enumerate(moments, start=1):
            clock.now = moment
            show_reading(bar, "/here/my.har", 10 * number, 100)
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


@pytest.mark.parametrize(
    "command",
    [("page", "show"), ("run", "--no-keep"), pytest.param(("shell", "--page"), marks=pytest.mark.e2e)],
)
def test_what_unpacks_to_more_than_is_allowed_is_refused_with_the_option_that_allows_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "list.pages"
    path.write_bytes(gzip.compress(b"#" * 3_000_000 + b"\nhttp://nowhere.test/"))
    small = fastopen(*command, path, "--max-unpacked", "2MB")
    assert small.returncode == 2
    assert "unpacks to more than 2 MiB; raise --max-unpacked if you trust the file" in small.stderr
    for enough in ("4MB", "none"):
        assert (
            "no recording of http://nowhere.test/"
            in fastopen(*command, path, "--max-unpacked", enough).stderr
        )


def test_what_is_no_size_is_no_bound() -> None:
    done = fastopen("page", "show", "example", "--max-unpacked", "plenty")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --max-unpacked: 'plenty' is not a size; write for example 96kB")


def loading(*, done_in_6_s: int, expected_s: float, quiet: bool = False) -> list[str]:
    """Return the lines printed for a run of 600 loads that reports its progress after 4, 6 and 16 s."""
    clock, out = Clock(), StringIO()
    watcher = RunWatcher(
        *(Console(file=out, width=200), quiet, clock),
        expected_s=expected_s,
        shorter=lambda seconds: f"; half of it ({seconds / 2:.0f} s)",
    )
    with watcher:
        for clock.now, done in ((4, done_in_6_s - 1), (6, done_in_6_s), (16, 3 * done_in_6_s)):
            watcher(RunProgress((), None, done, 600, 0, 0, 600 - done))
    return out.getvalue().splitlines()


def test_a_run_that_takes_longer_than_was_said_of_it_says_so_once_its_pace_is_known() -> None:
    first, second = loading(done_in_6_s=6, expected_s=0.0)
    assert first == "600 loads take 10 min 00 s at the pace of the first loads; half of it (300 s)"
    assert second.startswith("18 of 600 loads, 8 min 37 s left")


@pytest.mark.parametrize(("done_in_6_s", "expected_s"), [(6, 500.0), (100, 0.0)])
def test_a_run_that_takes_about_as_long_as_was_said_or_less_than_a_minute_says_nothing(
    done_in_6_s: int, expected_s: float
) -> None:
    assert len(loading(done_in_6_s=done_in_6_s, expected_s=expected_s)) == 1


def test_no_more_is_left_of_a_run_than_of_the_time_that_it_may_take() -> None:
    clock, out = Clock(), StringIO()
    limit = TimeLimit(45.0, clock)
    with RunWatcher(Console(file=out, width=200), False, clock, limit=limit) as watcher:
        clock.now = 11
        watcher(RunProgress((), None, 1, 600, 0, 0, 599))
    assert out.getvalue().startswith("1 of 600 loads, 34 s left")


def test_nothing_is_said_where_nothing_is_to_be() -> None:
    assert loading(done_in_6_s=6, expected_s=0.0, quiet=True) == []
