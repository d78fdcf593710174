#!/usr/bin/env python3
"""Print tables of first flights, as Markdown.

tools/first_flight_tables.py first-flight: round trips to the first byte (docs/first-flights.md)
tools/first_flight_tables.py first-flight-pages: page load times and savings, which take minutes
(docs/measurements/first-flights.md)
tools/first_flight_tables.py FILE...: the tables of runs, from `fastopen show RUN --json > FILE`
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

# Version of HTTP, kind of TLS session, and arm (`off`, `cold` or `warm`).
FirstFlight = tuple[str, str, str]
BASELINE = ("none", "off")
NAMES = {
    ("none", "off"): "full",
    ("none", "cold"): "full, cold",
    ("none", "warm"): "full, TFO",
    ("resumed", "off"): "resumed",
    ("early", "off"): "early",
    ("early", "warm"): "early, TFO",
}
# First flights in the tables of times, which have no room for more columns.
IN_TIMES = frozenset(["full", "full, TFO", "early", "early, TFO"])
SESSIONS = {
    "none": "full handshake",
    "resumed": "ticket of an earlier visit",
    "early": "ticket and early data",
}
MISSING = "-"
Cells = Mapping[tuple[float, float], Mapping[str, Mapping[FirstFlight, float]]]


def cells_of(documents: Sequence[Mapping[str, Any]]) -> Cells:
    """Return nested maps: (RTT in ms, loss) -> page -> first flight -> median page load time in ms."""
    found: dict[tuple[float, float], dict[str, dict[FirstFlight, float]]] = {}
    for cell in chain.from_iterable(document["cells"] for document in documents):
        if cell["plt_ms_median"] is not None:
            of_page = found.setdefault((cell["rtt_ms"], cell["loss"]), {}).setdefault(cell["page"], {})
            of_page[cell["http"], cell["session"], cell["arm"]] = cell["plt_ms_median"]
    return found


def times_table(of_pages: Mapping[str, Mapping[FirstFlight, float]]) -> Iterator[str]:
    """Yield the lines of a table of page load times in seconds. The shortest time of each page is bold."""
    flights = [one for one in _flights(of_pages) if NAMES[one[1:]] in IN_TIMES]
    yield _row(["page", *(f"{http} {NAMES[session, arm]}" for http, session, arm in flights)])
    yield "|---|" + "---:|" * len(flights)
    for page, times in of_pages.items():
        best = min(times[one] for one in flights if one in times)
        shown = [f"{times[one] / 1000:.2f}" if one in times else MISSING for one in flights]
        texts = (
            f"**{text}**" if times.get(one) == best else text
            for one, text in zip(flights, shown, strict=True)
        )
        yield _row([page, *texts])


def savings_table(cells: Cells, loss: float) -> Iterator[str]:
    """Yield the lines of a table of savings: median and range over the pages, in percent of the page load
    time with a full handshake without TFO (BASELINE)."""
    by_rtt = {rtt: of_pages for (rtt, lost), of_pages in sorted(cells.items()) if lost == loss}
    yield _row(["HTTP", "first flight", *(f"{rtt:g} ms" for rtt in by_rtt)])
    yield "|---|---|" + "---:|" * len(by_rtt)
    for http, session, arm in _flights(next(iter(by_rtt.values()))):
        if (session, arm) == BASELINE:
            continue
        row = [http, NAMES[session, arm]]
        for of_pages in by_rtt.values():
            saved = [
                100 * (1 - times[http, session, arm] / times[http, *BASELINE])
                for times in of_pages.values()
                if {(http, session, arm), (http, *BASELINE)} <= times.keys()
            ]
            row.append(
                f"{_whole(median(saved))} ({_whole(min(saved))} to {_whole(max(saved))})"
                if saved
                else MISSING
            )
        yield _row(row)


def round_trips_table(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of round trips to the first byte by session: over TCP without TFO, with cold
    and with warm cookies, and over QUIC. A cell has one figure if HTTP/1.1 and HTTP/2 agree."""
    yield _row(["session", "TCP", "TFO, cold cookies", "TFO, warm cookies", "QUIC (HTTP/3)"])
    yield "|---|---:|---:|---:|---:|"
    for session, meaning in SESSIONS.items():
        cells = [cell for cell in document["cells"] if cell["session"] == session]
        row = [
            sorted(
                {
                    f"{cell['first_byte_rtts']:.3f}"
                    for cell in cells
                    if cell["arm"] == arm and (cell["http"] == "3") == quic
                }
            )
            for arm, quic in (("off", False), ("cold", False), ("warm", False), ("off", True))
        ]
        yield _row([f"`{session}`: {meaning}", *map(", ".join, row)])


def reproduced(name: str) -> Mapping[str, Any]:
    """Run a packaged experiment in virtual time, and return its JSON document."""
    command = [sys.executable, "-c", "from fastopen.cli import main; main()"]
    command += ["reproduce", name, "--engine", "virtual", "--no-keep", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    document: Mapping[str, Any] = json.loads(done.stdout)
    return document


def _flights(of_pages: Mapping[str, Mapping[FirstFlight, float]]) -> list[FirstFlight]:
    """Return the pages' first flights that are in NAMES, sorted by HTTP version, then as in NAMES."""
    order = list(NAMES)
    found = {flight for times in of_pages.values() for flight in times if flight[1:] in NAMES}
    return sorted(found, key=lambda one: (one[0], order.index(one[1:])))


def _whole(percent: float) -> str:
    return f"{round(percent)}".replace("-", "\N{MINUS SIGN}")


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def main(words: Sequence[str]) -> int:
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    if words[0] == "first-flight":
        print("\n".join(round_trips_table(reproduced(words[0]))))
        return 0
    if words[0] == "first-flight-pages":
        documents = [reproduced(words[0])]
    else:
        documents = [json.loads(Path(file).read_text(encoding="utf-8")) for file in words]
    cells = cells_of(documents)
    for (rtt, loss), of_pages in sorted(cells.items()):
        print(f"\nPage load times in seconds, {rtt:g} ms, {100 * loss:g} % loss\n")
        print("\n".join(times_table(of_pages)))
    for loss in sorted({loss for _, loss in cells}):
        print(f"\nSaved in percent, {100 * loss:g} % loss\n")
        print("\n".join(savings_table(cells, loss)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
