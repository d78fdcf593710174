"""Every reader reads broken inputs or refuses them in one line: the same ones each time.

`make fuzz` draws new ones, and many more.
"""

from pathlib import Path

import pytest

from security.fuzzer import TARGETS, Target, fuzz

INPUTS = 100


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_broken_inputs_are_read_or_refused(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done, _ = fuzz(target, seed=0, seconds=600, inputs=INPUTS, place=tmp_path / "place")
    assert done == INPUTS
