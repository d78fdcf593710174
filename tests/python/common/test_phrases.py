"""Figures formatted as text."""

import pytest

from fastopen.common.phrases import MINUS, nonzero_with_sign


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.7, "+3.7"), (-0.04, f"{MINUS}0.04"), (0.005001, "+0.01"), (0.000002, "<0.01"), (0.0, "0.0")],
)
def test_a_small_difference_is_neither_zero_nor_long(value: float, text: str) -> None:
    assert nonzero_with_sign(value) == text
