"""Read a table of published figures as printed, from a CSV file in the format of experiments/published.csv.

Numbers stay decimals, because the number of printed digits shows how far a figure may have been rounded.
"""

import csv
import difflib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from fastopen.analysis.audit.first_flights import FIRST_FLIGHTS, FlightKind
from fastopen.analysis.audit.own import is_own, printed_rows
from fastopen.common.errors import InputError, any_of
from fastopen.common.user_files import read_text

REQUIRED: Final = ("experiment", "page", "rtt_ms", "plt_off", "plt_tfo", "unit_as_printed")
# Optional columns for more checks. published.csv does not have `pairs`, `requests` and `bytes` (of one load).
# Without the columns of FLIGHTS, connections are cleartext TCP, without and with TFO.
FLIGHTS: Final = ("first_flight_off", "first_flight_tfo")
CHECKED: Final = (
    "down_mbit",
    "up_mbit",
    "improvement_percent_as_printed",
    "pairs",
    "requests",
    "bytes",
    *FLIGHTS,
)
UNCHECKED: Final = ("source", "note")
UNITS_S: Final = {"s": Decimal(1), "ms": Decimal("0.001")}
LINES_MAX: Final = 1_000_000
# Longer numbers are not figures of a table, and computing with them would take too long.
NUMBER_LENGTH_MAX: Final = 40


@dataclass(frozen=True)
class PrintedCell:
    """One row as printed: times without (`off`) and with TFO in `unit`. Values are None if not printed."""

    line: int
    experiment: str
    page: str
    rtt_ms: Decimal
    off: Decimal
    tfo: Decimal
    unit: str
    improvement: Decimal | None
    """In percent."""
    down_mbit: Decimal | None = None
    up_mbit: Decimal | None = None
    requests: int | None = None
    bytes: int | None = None
    pairs: int | None = None
    """The number of pairs if the improvement is their median; 1 or None if it comes from the two times."""
    flight_off: FlightKind = FIRST_FLIGHTS["tcp"]
    flight_tfo: FlightKind = FIRST_FLIGHTS["tfo"]

    @property
    def half_digit(self) -> Decimal:
        """Return the largest rounding error of the times in `unit`: half a digit of the more precise one."""
        return Decimal(5).scaleb(-1 - max(decimals(self.off), decimals(self.tfo)))

    @property
    def is_of_its_times(self) -> bool:
        """Return True if the improvement is computed from the two times, not a median over pairs of loads."""
        return self.improvement is not None and (self.pairs or 1) == 1


def decimals(number: Decimal) -> int:
    """Return the number of digits after the decimal point."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "numbers are finite"
    return max(0, -exponent)


@dataclass(frozen=True)
class PrintedTable:
    """All rows of a file, and the names of the columns that no rule uses."""

    cells: list[PrintedCell]
    ignored: list[str]


def read_table(path: Path) -> PrintedTable:
    """Return the rows in order, and the ignored columns. Raises InputError with file, line and column."""
    place = str(path)
    rows = _rows(read_text(path), place)
    first, columns = next(rows, (0, list[str]()))
    own, ignored = is_own(columns), list[str]()
    if first and not own:
        ignored = _ignored_columns(columns, f"{place}: line {first}")
    found = ((line, _fields(columns, row, f"{place}: line {line}")) for line, row in rows if row)
    cells = [
        _cell(fields, f"{place}: line {line}", line)
        for line, fields in (printed_rows(columns, [*found], place) if own else found)
    ]
    if not cells and own:
        raise InputError("no row with TFO has a matching row without TFO", place)
    if not cells:
        remedy = f"write a header with {', '.join(REQUIRED)}, then a line for each row"
        raise InputError("has no rows", place, remedy)
    return PrintedTable(cells, ignored)


def _rows(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its last line, because a quoted field can have several lines."""
    reader, line = csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for row in reader:
            line = reader.line_num
            if line > LINES_MAX:
                raise InputError(f"more than {LINES_MAX} lines", path)
            yield line, row
    except csv.Error as error:
        raise InputError(f"malformed CSV: {error}", f"{path}: line {line + 1}") from None


def _fields(columns: list[str], row: list[str], place: str) -> dict[str, str]:
    if len(row) != len(columns):
        raise InputError(f"{len(row)} fields, but the header has {len(columns)}", place)
    return {name: text.strip() for name, text in zip(columns, row, strict=True)}


def _ignored_columns(columns: list[str], place: str) -> list[str]:
    """Return the names of unknown columns. Raises InputError for missing, repeated or misspelled columns."""
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(f"column {name!r} appears twice", place)
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        remedy = f"a table needs {', '.join(REQUIRED)}"
        raise InputError(f"missing column {', '.join(missing)}", place, remedy)
    unknown = [name for name in columns if name not in (*REQUIRED, *CHECKED, *UNCHECKED)]
    for name in unknown:
        absent = [known for known in CHECKED if known not in columns]
        # Refuse a misspelled name, because it would silently leave out a check.
        for near in difflib.get_close_matches(name, absent, n=1, cutoff=0.8):
            raise InputError(f"unknown column {name!r}", place, f"did you mean {near}?")
    return unknown


def _cell(fields: Mapping[str, str], place: str, line: int) -> PrintedCell:
    for name in REQUIRED:
        if not fields[name]:
            raise InputError("empty", f"{place}: {name}")
    unit = fields["unit_as_printed"]
    if unit not in UNITS_S:
        raise InputError(f"unknown unit of time {unit!r}", f"{place}: unit_as_printed", "use s or ms")
    return PrintedCell(
        line=line,
        experiment=fields["experiment"],
        page=fields["page"],
        rtt_ms=_needed(fields, "rtt_ms", place, or_zero=True),
        off=_needed(fields, "plt_off", place),
        tfo=_needed(fields, "plt_tfo", place),
        unit=unit,
        improvement=_number(fields, "improvement_percent_as_printed", place),
        down_mbit=_positive(fields, "down_mbit", place),
        up_mbit=_positive(fields, "up_mbit", place),
        requests=_count(fields, "requests", place),
        bytes=_count(fields, "bytes", place),
        pairs=_count(fields, "pairs", place),
        flight_off=_flight(fields, "first_flight_off", place, "tcp"),
        flight_tfo=_flight(fields, "first_flight_tfo", place, "tfo"),
    )


def _flight(fields: Mapping[str, str], name: str, place: str, usual: str) -> FlightKind:
    word = fields.get(name) or usual
    if word not in FIRST_FLIGHTS:
        raise InputError(f"unknown first flight {word!r}", f"{place}: {name}", f"use {any_of(FIRST_FLIGHTS)}")
    return FIRST_FLIGHTS[word]


def _number(fields: Mapping[str, str], name: str, place: str) -> Decimal | None:
    text = fields.get(name, "").removesuffix("%").strip()
    if not text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or len(text) > NUMBER_LENGTH_MAX or abs(number.adjusted()) > NUMBER_LENGTH_MAX:
        raise InputError(f"{text[:NUMBER_LENGTH_MAX]!r} is not a number", f"{place}: {name}")
    return number


def _positive(fields: Mapping[str, str], name: str, place: str, *, or_zero: bool = False) -> Decimal | None:
    number = _number(fields, name, place)
    if number is not None and (number < 0 or (number == 0 and not or_zero)):
        raise InputError(f"{number} is {'less' if or_zero else 'not more'} than 0", f"{place}: {name}")
    return number


def _needed(fields: Mapping[str, str], name: str, place: str, *, or_zero: bool = False) -> Decimal:
    number = _positive(fields, name, place, or_zero=or_zero)
    if number is None:
        raise InputError("not a number", f"{place}: {name}")
    return number


def _count(fields: Mapping[str, str], name: str, place: str) -> int | None:
    number = _positive(fields, name, place)
    if number is not None and number != int(number):
        raise InputError(f"{number} is not a whole number", f"{place}: {name}")
    return None if number is None else int(number)
