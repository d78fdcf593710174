"""Convert fastopen's own results (`fastopen report -f csv`) to a table of published figures, for `audit`.

A row has a result with TFO and the matching result without TFO, rounded as `fastopen report` prints them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fastopen.common.errors import InputError

# A CSV file with all of these columns is recognised as the output of `fastopen report -f csv`.
MARKS: Final = (
    "page",
    "rtt_ms",
    "arm",
    "transport",
    "setup",
    "plt_ms_median",
    "improvement_percent",
    "pairs",
)
# Columns that differ between the arms of a comparison. Columns after `setup` hold results.
OF_ARMS: Final = ("transport", "arm", "cookies")


def printed_rows(
    columns: Sequence[str], numbered: Sequence[tuple[int, Mapping[str, str]]], path: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Convert rows of `fastopen report -f csv` to the columns of experiments/published.csv. Join each row
    with TFO to the matching row without TFO, and yield (line number, joined row). `numbered`: the rows
    with their line numbers. `path`: the file, for messages. Raises InputError for a malformed number."""
    rows = [row for _, row in numbered]
    factors = [name for name in columns[: columns.index("setup") + 1] if name not in OF_ARMS]
    series: list[str] = []
    for name in (one for one in factors if one not in ("page", "rtt_ms", "setup")):
        # Leave out a column that follows from others, as the key share from TLS: it distinguishes no rows.
        with_it, without = (
            {tuple(row[one] for one in names) for row in rows} for names in ([*series, name], series)
        )
        series += [name] if len(with_it) > len(without) else []
    baselines = {tuple(row[name] for name in factors): row for row in rows if not row["improvement_percent"]}
    for line, row in numbered:
        baseline = baselines.get(tuple(row[name] for name in factors))
        if baseline is None or not (row["improvement_percent"] and row["plt_ms_median"]):
            continue
        place = f"{path}: line {line}"
        printed = {
            "experiment": ", ".join([row["arm"], *(f"{name} {row[name] or 'none'}" for name in series)]),
            "page": row["page"],
            "rtt_ms": row["rtt_ms"],
            "plt_off": _rounded(baseline, "plt_ms_median", place),
            "plt_tfo": _rounded(row, "plt_ms_median", place),
            "unit_as_printed": "ms",
            "improvement_percent_as_printed": _rounded(row, "improvement_percent", place),
            "pairs": row["pairs"],
            "first_flight_off": _first_flight(baseline),
            "first_flight_tfo": _first_flight(row),
        }
        yield line, printed


def _rounded(row: Mapping[str, str], name: str, place: str) -> str:
    """Return the number in the column `name` of a CSV row as text, rounded to 0.1. Raises InputError if it is
    not a number. `place`: the file and line of the row, for the message."""
    try:
        return f"{float(row[name]):.1f}"
    except ValueError:
        raise InputError(f"{row[name]!r} is not a number", f"{place}: {name}") from None


def _first_flight(row: Mapping[str, str]) -> str:
    """Return the protocols with which the row's connections start, a key of FIRST_FLIGHTS, such as `tls+tfo`.
    If the row does not determine them, return the possible key with the fewest round trips."""
    if "3" in row.get("http", ""):
        return "quic+early" if row.get("session") == "early" else "quic"
    words = row["transport"].split("+")
    # Only https URLs use TLS, and the row does not show how many URLs are https.
    if row.get("security") == "recorded":
        return "tfo" if "tfo" in words else "tcp"
    # Resuming a session of TLS 1.2 saves one of two round trips.
    if words[0] == "tls" and row.get("tls") == "1.2" and row.get("session") != "resumed":
        words[0] = "tls1.2"
    if words[0] == "tls" and row.get("session") == "early":
        words.append("early")
    return "+".join(words)
