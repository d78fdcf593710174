"""Every reader reads broken inputs or refuses them in one line: kept ones, the same each day, and new ones.

`make fuzz` draws many more.
"""

import time
from pathlib import Path

import pytest

from security.fuzzer import TARGETS, Target, fuzz

INPUTS = 15
# Of new inputs, for each reader: in all less than half a minute of one core.
SECONDS = 1.5


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_broken_inputs_are_read_or_refused(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done, _ = fuzz(target, seed=0, seconds=600, inputs=INPUTS, place=tmp_path / "place")
    assert done == INPUTS


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_new_broken_inputs_are_read_or_refused(target: Target, tmp_path: Path) -> None:
    seed = time.time_ns() % 2**32
    assert fuzz(target, seed, SECONDS, inputs=10_000, place=tmp_path / "place")[0], f"seed {seed}"
