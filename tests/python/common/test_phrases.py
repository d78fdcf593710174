"""Figures formatted as text."""

import pytest

from fastopen.common.phrases import MINUS, nonzero_with_sign, plural


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.7, "+3.7"), (-0.04, f"{MINUS}0.04"), (0.005001, "+0.01"), (0.000002, "<0.01"), (0.0, "0.0")],
)
def test_a_small_difference_is_neither_zero_nor_long(value: float, text: str) -> None:
    assert nonzero_with_sign(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 page"), (1.04, "1 page"), (0, "0 pages"), (2.5, "2.5 pages"), (1_234_567, "1,234,567 pages")],
)
def test_a_count_agrees_with_its_noun_and_has_all_its_digits(count: float, text: str) -> None:
    assert plural(count, "page") == text
