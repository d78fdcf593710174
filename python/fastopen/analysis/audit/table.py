"""Read a table of published figures as printed, from a CSV file in the format of experiments/published.csv.

Numbers stay decimals, because the number of printed digits shows how far a figure may have been rounded."""

import csv
import difflib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from fastopen.analysis.audit.own import MARKS, printed_rows
from fastopen.common.errors import InputError, any_of
from fastopen.common.files import read_text
from fastopen.common.phrases import listed

REQUIRED: Final = ("experiment", "page", "rtt_ms", "plt_off", "plt_tfo", "unit_as_printed")
# Optional columns for more checks. published.csv lacks `pairs`, and the `requests` and `bytes` of a load.
# Without the columns in FLIGHTS, the checks assume connections in cleartext: TCP without and with TFO.
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

# The minimum number of round trips from the start of a connection to the first byte of the response, by kind
# of connection. A handshake of TCP, TLS 1.3 or QUIC and a request take one round trip each, and TLS 1.2 takes
# two. TFO (RFC 7413) saves TCP's handshake. Early data (RFC 8446 2.3, RFC 9001 4.6) saves TLS's or QUIC's.
FIRST_FLIGHTS: Final = {
    "tcp": 2,
    "tfo": 1,
    "tls1.2": 4,
    "tls1.2+tfo": 3,
    "tls": 3,
    "tls+tfo": 2,
    "tls+early": 2,
    "tls+tfo+early": 1,
    "quic": 2,
    "quic+early": 1,
}


@dataclass(frozen=True)
class PrintedCell:
    """One row of a published table as printed: page load times without TFO (`off`) and with TFO (`tfo`), in
    `unit`. Figures that the table does not print are None."""

    line: int
    experiment: str
    page: str
    rtt_ms: Decimal
    off: Decimal
    tfo: Decimal
    unit: str
    improvement: Decimal | None
    """The printed improvement in percent."""
    down_mbit: Decimal | None = None
    up_mbit: Decimal | None = None
    requests: int | None = None
    bytes: int | None = None
    pairs: int | None = None
    """The number of pairs of loads whose median improvement is printed; 1 or None if it is not a median."""
    flight_off: str = "tcp"
    """The kind of connection without TFO, a key of FIRST_FLIGHTS."""
    flight_tfo: str = "tfo"
    """The kind of connection with TFO, a key of FIRST_FLIGHTS."""

    @property
    def half_digit(self) -> Decimal:
        """Return the largest rounding error of the times, in `unit`: half a unit of the last printed digit of
        the more precise time, such as 0.05 for 1.2."""
        return Decimal(5).scaleb(-1 - max(decimals(self.off), decimals(self.tfo)))

    @property
    def improvement_is_computed(self) -> bool:
        """Return True if the printed improvement is computed from the two printed times; False if there is no
        improvement, or if it is a median over pairs of loads."""
        return self.improvement is not None and (self.pairs or 1) == 1


def decimals(number: Decimal) -> int:
    """Return the number of digits after the decimal point, such as 2 for `1.50`."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "numbers are finite"
    return max(0, -exponent)


@dataclass(frozen=True)
class PrintedTable:
    """All rows of a CSV file of published figures, and the names of the columns that no check uses."""

    cells: list[PrintedCell]
    ignored: list[str]


def read_table(path: Path) -> PrintedTable:
    """Read a CSV file of published figures or of `fastopen report -f csv`. Raises InputError if the file
    cannot be read or is malformed."""
    place = str(path)
    rows = _rows(read_text(path), place)
    first, columns = next(rows, (0, list[str]()))
    own, ignored = {*MARKS} <= {*columns}, list[str]()
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
    """Yield (number of the row's last line, fields). A row can span several lines in a quoted field."""
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
    """Return the unknown columns. Raises InputError for missing, repeated or misspelled columns."""
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(f"column {name!r} appears twice", place)
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        what = "column" if len(missing) == 1 else "columns"
        remedy = f"a table needs {listed(REQUIRED)}, separated by commas"
        raise InputError(f"missing {what} {listed(missing)}", place, remedy)
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
    row = _Row(fields, place)
    return PrintedCell(
        line=line,
        experiment=fields["experiment"],
        page=fields["page"],
        rtt_ms=row.needed("rtt_ms", or_zero=True),
        off=row.needed("plt_off"),
        tfo=row.needed("plt_tfo"),
        unit=unit,
        improvement=row.number("improvement_percent_as_printed"),
        down_mbit=row.positive("down_mbit"),
        up_mbit=row.positive("up_mbit"),
        requests=row.count("requests"),
        bytes=row.count("bytes"),
        pairs=row.count("pairs"),
        flight_off=row.flight("first_flight_off", "tcp"),
        flight_tfo=row.flight("first_flight_tfo", "tfo"),
    )


@dataclass(frozen=True)
class _Row:
    """A CSV row at `place` (file and line). Methods parse a field, or raise InputError if it is malformed."""

    fields: Mapping[str, str]
    place: str

    def number(self, name: str) -> Decimal | None:
        text = self.fields.get(name, "").removesuffix("%").strip()
        if not text:
            return None
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("nan")
        long = len(text) > NUMBER_LENGTH_MAX
        if not number.is_finite() or long or abs(number.adjusted()) > NUMBER_LENGTH_MAX:
            raise InputError(f"{text[:NUMBER_LENGTH_MAX]!r} is not a number", f"{self.place}: {name}")
        return number

    def positive(self, name: str, *, or_zero: bool = False) -> Decimal | None:
        number = self.number(name)
        if number is not None and (number < 0 or (number == 0 and not or_zero)):
            raise InputError(
                f"{number} is {'less' if or_zero else 'not more'} than 0", f"{self.place}: {name}"
            )
        return number

    def needed(self, name: str, *, or_zero: bool = False) -> Decimal:
        number = self.positive(name, or_zero=or_zero)
        if number is None:
            raise InputError("not a number", f"{self.place}: {name}")
        return number

    def count(self, name: str) -> int | None:
        number = self.positive(name)
        if number is not None and number != int(number):
            raise InputError(f"{number} is not a whole number", f"{self.place}: {name}")
        return None if number is None else int(number)

    def flight(self, name: str, usual: str) -> str:
        word = self.fields.get(name) or usual
        if word not in FIRST_FLIGHTS:
            remedy = f"use {any_of(FIRST_FLIGHTS)}"
            raise InputError(f"unknown first flight {word!r}", f"{self.place}: {name}", remedy)
        return word
