"""Every reader accepts broken inputs or refuses them with a one-line error. The inputs never change.

`make fuzz` tries many new ones.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from security import fuzzer
from security.fuzzer import MAX_KIB, TARGETS, Finding, Target, fuzz

INPUTS = 100


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_broken_inputs_are_read_or_refused(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done, taken = fuzz(target, seed=0, seconds=600, inputs=INPUTS, place=tmp_path / "place")
    assert done == INPUTS
    assert taken > 0


def _spins(_: Path) -> None:
    while True:
        pass


def _waits(_: Path) -> None:
    time.sleep(60)


def _takes_memory(_: Path) -> None:
    bytearray((MAX_KIB + 50_000) * 1024)[::4096] = b"1" * ((MAX_KIB + 50_000) // 4)


@pytest.mark.parametrize("read", [_spins, _waits, _takes_memory])
def test_a_reader_that_takes_too_much_is_found_and_its_input_kept(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzzer, "MAX_S", 0.5)
    monkeypatch.setattr(fuzzer, "MAX_WAIT_S", 3)
    with pytest.raises(Finding, match="it took"):
        fuzz(Target("bad", lambda _: [b"sample"], read), 0, 600, 1, tmp_path / "place")
    assert (tmp_path / "fuzz-bad-0-0").exists()
