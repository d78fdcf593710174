"""Quantities with units: accepted values, and the errors for others."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.common import units


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("20ms", 20_000), ("1s", 1_000_000), ("0.5ms", 500), ("250us", 250), (" 20 ms ", 20_000), ("0", 0)],
)
def test_durations(text: str, microseconds: int) -> None:
    assert units.parse_duration_us(text) == microseconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("4mbit", 4_000_000),
        ("256kbit", 256_000),
        ("1gbit", 10**9),
        ("64kbit", 64_000),
        ("1.5Mbit/s", 1_500_000),
        ("4 Mbit/s", 4_000_000),
        ("none", None),
        ("unlimited", None),
    ],
)
def test_rates(text: str, rate: int | None) -> None:
    assert units.parse_rate_bit_per_s(text) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("96kB", 96_000),
        ("150000", 150_000),
        ("64KiB", 65_536),
        ("1.5MB", 1_500_000),
        ("12B", 12),
        ("none", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert units.parse_size_bytes(text) == size


@pytest.mark.parametrize(("text", "fraction"), [("1%", 0.01), ("0.1 %", 0.001), ("0", 0.0), ("100%", 1.0)])
def test_shares(text: str, fraction: float) -> None:
    assert units.parse_fraction(text) == fraction


@pytest.mark.parametrize(
    "text", ["20", "20mbit", "ms", "", "-20ms", "20ms30", "1e3ms", "0.1us", "twenty", "\uff12\uff10ms"]
)
def test_what_is_no_duration_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(units.UnitError, match=r"(write for example|such as) 20ms|finer than one microsecond"):
        units.parse_duration_us(text)


@pytest.mark.parametrize("text", ["4", "4ms", "4mb", "4mbps", "4MBps", "0.1bit", "", "4 mbit 5"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(units.UnitError):
        units.parse_rate_bit_per_s(text)


@pytest.mark.parametrize("text", ["96kb", "96 kilobytes", "1.5", "-1", "0.5B", ""])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(units.UnitError):
        units.parse_size_bytes(text)


@pytest.mark.parametrize("text", ["0.01", "101%", "1", "-1%", "x"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(units.UnitError):
        units.parse_fraction(text)


@given(st.integers(0, 10**12))
def test_a_duration_is_printed_as_it_would_be_read(microseconds: int) -> None:
    assert units.parse_duration_us(units.format_duration_us(microseconds)) == microseconds


@given(st.integers(0, 2**60) | st.sampled_from([2**40, 96_000, 64 * 2**10]) | st.none())
def test_a_size_is_written_as_it_would_be_read(size: int | None) -> None:
    assert units.parse_size_bytes(units.write_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"), [(2**40, "1024GiB"), (96_000, "96kB"), (65_536, "64KiB"), (1, "1B")]
)
def test_a_size_is_written_with_the_unit_that_people_would_take(size: int, text: str) -> None:
    assert units.write_size(size) == text


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_unit_error(text: str) -> None:
    for parse in (
        units.parse_duration_us,
        units.parse_rate_bit_per_s,
        units.parse_size_bytes,
        units.parse_fraction,
    ):
        with contextlib.suppress(units.UnitError):
            parse(text)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(4_000_000, "4 Mbit/s"), (256_000, "256 kbit/s"), (1_500_000, "1.5 Mbit/s"), (None, "no limit")],
)
def test_rates_are_printed_for_people(rate: int | None, text: str) -> None:
    assert units.format_rate(rate) == text


@pytest.mark.parametrize("rate", [None, 1, 256_000, 1_600_000, 10**9])
def test_a_written_rate_is_read_as_the_same_rate(rate: int | None) -> None:
    assert units.parse_rate_bit_per_s(units.write_rate(rate)) == rate
