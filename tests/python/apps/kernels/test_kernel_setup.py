"""`make kernel`, which `make` runs: machines that can or cannot build a kernel, and FASTOPEN_NO_KERNEL."""

import os
import subprocess
from pathlib import Path

import pytest

from places import ROOT

REPOSITORY = ROOT


def make_kernel(folder: Path, status: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make kernel`. A fake fastopen records its arguments, prints an error and exits with `status`."""
    command = folder / "fastopen"
    command.write_text(f'#!/bin/sh\necho "$@" > {folder}/called\necho "error: why" >&2\nexit {status}\n')
    command.chmod(0o755)
    kept = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "FASTOPEN_NO_KERNEL")
    }
    return subprocess.run(
        ["make", "kernel", f"BIN={folder}", "--old-file=.venv/stamps/python"],
        cwd=REPOSITORY,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True)
def _checkout() -> None:
    if not (REPOSITORY / "Makefile").is_file():
        pytest.skip("only a checkout has a Makefile")


def test_make_builds_the_kernel_where_none_of_this_recipe_is(tmp_path: Path) -> None:
    assert make_kernel(tmp_path, 0).returncode == 0
    assert (tmp_path / "called").read_text() == "kernel build --if-missing\n"


def test_a_machine_that_cannot_build_it_is_told_why_and_make_goes_on(tmp_path: Path) -> None:
    done = make_kernel(tmp_path, 3)
    assert done.returncode == 0
    assert done.stderr == (
        "error: why\n== no kernel for the virtual engine (why: above); the host engine works without\n"
    )


def test_a_bug_or_ctrl_c_stops_make(tmp_path: Path) -> None:
    assert make_kernel(tmp_path, 1).returncode != 0
    assert make_kernel(tmp_path, 130).returncode != 0


def test_nothing_is_built_where_nobody_wants_it(tmp_path: Path) -> None:
    assert make_kernel(tmp_path, 0, FASTOPEN_NO_KERNEL="1").returncode == 0
    assert not (tmp_path / "called").exists()
