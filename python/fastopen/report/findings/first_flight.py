"""The best first flight for a page, and the saving that TFO adds to each."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.phrases import NBSP, capitalised, listed, plural, signed
from fastopen.experiments import HEADLINE, SESSION_WORDS, Factor, http_words
from fastopen.report.model import Finding

RANK: Final = 10
SEVERITY: Final = "answer"

Flights = dict[tuple[str, str], CellResult]
"""By session and arm."""
Gain = tuple[float, float | None]
"""Percent saved, and the bound on that, if there is one."""


def of_first_flight(results: Results) -> list[Factor]:
    """The factors of setups that say how connections begin, as far as they vary."""
    return [factor for factor in results.factors.varying if factor.first_flight]


def first_flight_lines(results: Results, page: str) -> list[str]:
    """A line for each question that rows with several first flights answer; none where there is one."""
    questions = _questions(results, page) if of_first_flight(results) else {}
    lines = [
        f"{capitalised(question)}: {line}" if question else line
        for question, groups in questions.items()
        if (line := " ".join(_sentences(results, groups)))
    ]
    lines += [
        f"{capitalised(question)}: {line}" if question else line
        for question, rows in _over_versions(results, page).items()
        if (line := " ".join(_best_of_versions(results, rows)))
    ]
    return [line.replace(" %", f"{NBSP}%") for line in lines]


def _over_versions(results: Results, page: str) -> dict[str, list[dict[tuple[str, str, str], CellResult]]]:
    """Return the rows of all versions of HTTP together, by version, session and arm."""
    varying, flight = results.factors.varying, of_first_flight(results)
    http = next((factor for factor in varying if factor.name == "http"), None)
    quic = any(setup.origins.all_quic for setup in results.experiment.setups)
    if http is None or not (quic or flight):
        return {}
    others = [factor for factor in varying if factor not in flight and factor is not http]
    groups: dict[tuple[str, str], dict[tuple[str, str, str], CellResult]] = defaultdict(dict)
    for result in results.cells:
        setup = results.experiment.setups[result.cell.setup]
        if result.cell.page == page and result.plt_ms_median is not None and setup.tls is not None:
            point = results.factors.point(result.cell)
            question = ", ".join(factor.phrase_at(point) for factor in others if factor.question)
            row = ", ".join(factor.phrase_at(point) for factor in others)
            key = (setup.origins.http, setup.tls.session, result.cell.arm.name)
            groups[question, row][key] = result
    found: dict[str, list[dict[tuple[str, str, str], CellResult]]] = defaultdict(list)
    for (question, _), of_row in groups.items():
        found[question].append(of_row)
    return found


def _best_of_versions(
    results: Results, rows: Sequence[dict[tuple[str, str, str], CellResult]]
) -> Iterator[str]:
    """Yield the best version of HTTP and first flight, and its saving over the oldest and plainest."""
    wins: dict[tuple[str, str, str], list[Gain]] = defaultdict(list)
    sessions = list(SESSION_WORDS)
    plain, over = ("", "", ""), ""
    for of_row in rows:
        plain = min(of_row, key=lambda key: (key[0], sessions.index(key[1]), of_row[key].cell.index))
        over = f"{http_words(plain[0])} and {SESSION_WORDS[plain[1]]} {of_row[plain].cell.arm.words}"
        best = min(of_row, key=lambda key: of_row[key].plt_ms_median or 0.0)
        wins[best].append(_gain(results, of_row[plain], of_row[best]))
    for best, gains in wins.items():
        arm = next(of_row[best].cell.arm for of_row in rows if best in of_row)
        where = "" if len(wins) == 1 else f" in {plural(len(gains), 'row')}"
        # QUIC has no SYN to go without TFO.
        tfo = "" if best[0] == "3" else f" {arm.words}"
        name = f"{http_words(best[0])} with {SESSION_WORDS[best[1]]}{tfo}"
        gain = "" if best == plain else f", which saves {_gains(gains)} compared with {over}"
        yield f"Best over all versions of HTTP{where}: {name}{gain}."


def _questions(results: Results, page: str) -> dict[str, list[Flights]]:
    """Return the rows that differ only in their first flight, by the questions that a verdict keeps apart."""
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


def _sentences(results: Results, rows: Sequence[Flights]) -> Iterator[str]:
    wins: dict[tuple[str, str], list[Gain]] = defaultdict(list)
    for flights in rows:
        best = min(flights, key=lambda key: flights[key].plt_ms_median or 0.0)
        wins[best].append(_gain(results, flights[_plain(flights)], flights[best]))
    plain = rows[0][_plain(rows[0])]
    over = f"{SESSION_WORDS[_plain(rows[0])[0]]} {plain.cell.arm.words}"
    exact = all(one.deterministic for flights in rows for one in flights.values())
    sure = "" if exact else " (medians of loads that are not paired)"
    for best, gains in wins.items():
        arm = next(flights[best].cell.arm for flights in rows if best in flights)
        where = "" if len(wins) == 1 else f" in {plural(len(gains), 'row')}"
        name = f"{SESSION_WORDS[best[0]]} {arm.words}"
        gain = "" if best == _plain(rows[0]) else f", which saves {_gains(gains)} compared with {over}"
        yield f"Best first flight{where}: {name}{gain}{sure}."
    added = {
        session: savings
        for session in SESSION_WORDS
        if (savings := [one for flights in rows if (one := _tfo_adds(flights, session)) is not None])
    }
    if added:
        parts = [f"{_percents(savings)} with {SESSION_WORDS[session]}" for session, savings in added.items()]
        yield f"TFO with {HEADLINE.cookies} cookies saves {listed(parts)}."


def _gain(results: Results, plain: CellResult, best: CellResult) -> Gain:
    """The bound is none where the best has another to be compared with, which has its version of HTTP."""
    bound = results.flight_savings.get(best.cell.index)
    known = None if bound is None or bound.over != plain.cell.index else bound.bound.percent
    return _saving(plain, best) or 0.0, known


def _gains(gains: Sequence[Gain]) -> str:
    """`33.3 % (at most 33.4 %)`."""
    most = [bound for _, bound in gains if bound is not None]
    at_most = f" (at most {_percents(most)})" if len(most) == len(gains) else ""
    return f"{_percents([saving for saving, _ in gains])}{at_most}"


def _percents(savings: Sequence[float]) -> str:
    """`3.7 %`, or `-0.6 to 3.7 %` with a true minus sign."""
    ends = dict.fromkeys(signed(end) for end in (min(savings), max(savings)))
    return f"{' to '.join(ends)} %"


def _plain(flights: Flights) -> tuple[str, str]:
    """The plainest first flight: the first session in the order of SESSION_WORDS, its first arm."""
    return min(flights, key=lambda key: (list(SESSION_WORDS).index(key[0]), flights[key].cell.index))


def _tfo_adds(flights: Flights, session: str) -> float | None:
    of_session = [one for (begins, _), one in flights.items() if begins == session]
    without = next((one for one in of_session if not one.cell.arm.fast_open), None)
    return _saving(without, flights.get((session, HEADLINE.name)))


def _saving(without: CellResult | None, cell: CellResult | None) -> float | None:
    """Percent of the medians."""
    if without is None or cell is None or not without.plt_ms_median or cell.plt_ms_median is None:
        return None
    return 100 * (without.plt_ms_median - cell.plt_ms_median) / without.plt_ms_median


def findings(results: Results, page: str) -> Iterator[Finding]:
    for line in first_flight_lines(results, page):
        yield Finding("first_flight", line)
