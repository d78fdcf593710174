"""What a person sees while large recordings are read."""

from __future__ import annotations

import gzip
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from command_line import fastopen
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
    assert "unpacks to more than 2 MiB (if you trust it: --max-unpacked allows for more)" in small.stderr
    for enough in ("4MB", "none"):
        assert "no page of http://nowhere.test/" in fastopen(*command, path, "--max-unpacked", enough).stderr


def test_what_is_no_size_is_no_bound() -> None:
    done = fastopen("page", "show", "example", "--max-unpacked", "plenty")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --max-unpacked: 'plenty' is not a size; accepted: 96kB")
