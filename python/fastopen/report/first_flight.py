"""Which first flight is best for a page, and what TFO still adds to each, of rows that differ in it alone."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from fastopen.attribution.phrases import NBSP, listed, plural, signed
from fastopen.experiments import HEADLINE, Arm, Factor
from fastopen.statistics import CellResult, Results

# What first flights begin with, by the value of the factor `session`.
SESSIONS: Final = {"none": "full handshakes", "resumed": "resumed sessions", "early": "early data"}
Flights = dict[tuple[str, str], CellResult]
"""By session and arm."""


def of_first_flight(results: Results) -> list[Factor]:
    """The factors of setups that say how connections begin, as far as they vary."""
    return [factor for factor in results.factors.varying if factor.first_flight]


def first_flight_lines(results: Results, page: str) -> list[str]:
    """A line for each question that rows with several first flights answer; none where there is one."""
    if not of_first_flight(results):
        return []
    return [
        f"{question}: {line}" if question else line
        for question, groups in _questions(results, page).items()
        if (line := " ".join(_sentences(groups)).replace(" %", f"{NBSP}%"))
    ]


def _questions(results: Results, page: str) -> dict[str, list[Flights]]:
    """What differs in its first flight alone, by what else a verdict does not mix."""
    varying, flight = results.factors.varying, of_first_flight(results)
    groups: dict[tuple[str, str], Flights] = defaultdict(dict)
    for result in results.cells:
        tls = results.experiment.setups[result.cell.setup].tls
        if result.cell.page != page or result.plt_ms_median is None or tls is None:
            continue
        point = results.factors.point(result.cell)
        others = [factor for factor in varying if factor not in flight]
        row = ", ".join(factor.phrase_at(point) for factor in others)
        question = ", ".join(factor.phrase_at(point) for factor in others if factor.question)
        groups[question, row][tls.session, result.cell.arm.name] = result
    found: dict[str, list[Flights]] = defaultdict(list)
    for (question, _), flights in groups.items():
        if len({session for session, _ in flights}) > 1:
            found[question].append(flights)
    return found


def _sentences(rows: Sequence[Flights]) -> Iterator[str]:
    wins: dict[tuple[str, str], list[float]] = defaultdict(list)
    for flights in rows:
        best = min(flights, key=lambda key: flights[key].plt_ms_median or 0.0)
        wins[best].append(_saving(flights.get(_plain(flights)), flights[best]) or 0.0)
    plain = rows[0][_plain(rows[0])]
    over = f"{SESSIONS[_plain(rows[0])[0]]} {plain.cell.arm.words}"
    exact = all(one.deterministic for flights in rows for one in flights.values())
    sure = "" if exact else " (medians of loads that are not paired)"
    for best, savings in wins.items():
        arm = next(flights[best].cell.arm for flights in rows if best in flights)
        where = "" if len(wins) == 1 else f" in {plural(len(savings), 'row')}"
        name = f"{SESSIONS[best[0]]} {arm.words}"
        gain = "" if best == _plain(rows[0]) else f", which saves {_percents(savings)} of {over}"
        yield f"Best first flight{where}: {name}{gain}{sure}."
    added = {
        session: savings
        for session in SESSIONS
        if (savings := [one for flights in rows if (one := _tfo_adds(flights, session)) is not None])
    }
    if added:
        parts = [f"{_percents(savings)} of {SESSIONS[session]}" for session, savings in added.items()]
        yield f"TFO {_with(HEADLINE)} saves {listed(parts)}."


def _percents(savings: Sequence[float]) -> str:
    """`3.7 %`, or `-0.6 to 3.7 %` with a true minus sign."""
    ends = dict.fromkeys(signed(end) for end in (min(savings), max(savings)))
    return f"{' to '.join(ends)} %"


def _with(arm: Arm) -> str:
    return f"with {arm.cookies} cookies"


def _plain(flights: Flights) -> tuple[str, str]:
    """The plainest first flight: the first session in the order of SESSIONS, its first arm."""
    return min(flights, key=lambda key: (list(SESSIONS).index(key[0]), flights[key].cell.index))


def _tfo_adds(flights: Flights, session: str) -> float | None:
    of_session = [one for (begins, _), one in flights.items() if begins == session]
    without = next((one for one in of_session if not one.cell.arm.fast_open), None)
    return _saving(without, flights.get((session, HEADLINE.name)))


def _saving(without: CellResult | None, cell: CellResult | None) -> float | None:
    """Percent of the medians."""
    if without is None or cell is None or not without.plt_ms_median or cell.plt_ms_median is None:
        return None
    return 100 * (without.plt_ms_median - cell.plt_ms_median) / without.plt_ms_median
