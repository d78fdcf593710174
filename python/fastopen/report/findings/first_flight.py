"""Report the best first flight for a page, and the saving that TFO adds to each session."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.phrases import capitalised, listed, plural, span
from fastopen.experiments import HEADLINE, SESSION_WORDS, Factor, http_words
from fastopen.report.model import Finding

RANK: Final = 10
SEVERITY: Final = "answer"

Key = tuple[str, str, str]
"""HTTP version, session and arm."""
Flights = Mapping[Key, CellResult]
"""The cells of a row by their first flights."""
Gain = tuple[float, float | None]
"""The saving in percent, and its upper bound in percent if it is known."""
SESSIONS: Final = list(SESSION_WORDS)


def of_first_flight(results: Results) -> list[Factor]:
    """Return the varying factors of setups that decide how connections begin."""
    return [factor for factor in results.factors.varying if factor.first_flight]


def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding on the best first flight for each question, then on the best over all HTTP versions."""
    flight = [factor.name for factor in of_first_flight(results)]
    for question, rows in _rows(results, page, flight).items() if flight else ():
        several = [row for row in rows if len({session for _, session, _ in row}) > 1]
        if several:
            yield _finding(question, *_best(results, several), *_added(several))
    quic = any(setup.origins.all_quic for setup in results.experiment.setups)
    if (quic or flight) and any(factor.name == "http" for factor in results.factors.varying):
        for question, rows in _rows(results, page, [*flight, "http"]).items():
            yield _finding(question, *_best(results, rows, versions=True))


def _finding(question: str, *sentences: str) -> Finding:
    opening = f"{capitalised(question)}: " if question else ""
    return Finding("first_flight", opening + " ".join(sentences))


def _rows(results: Results, page: str, apart: Sequence[str]) -> dict[str, list[Flights]]:
    """Return rows by question. The cells of a row differ only in their arms and the factors `apart`."""
    factors = results.factors
    cells = (one for one in results.cells if one.cell.page == page and one.plt_ms_median is not None)
    found: dict[str, list[Flights]] = defaultdict(list)
    for group in results.alike(cells, *apart):
        row: dict[Key, CellResult] = {}
        for result in group:
            setup = results.experiment.setups[result.cell.setup]
            if setup.tls is not None:
                row[setup.origins.http, setup.tls.session, result.cell.arm.name] = result
        asking = (factor for factor in factors.besides(*apart) if factor.question)
        question = ", ".join(factors.phrases(group[0].cell, asking))
        if row:
            found[question].append(row)
    return found


def _best(results: Results, rows: Sequence[Flights], *, versions: bool = False) -> Iterator[str]:
    """Yield a sentence on each first flight that is fastest in some rows, with its saving over the simplest.
    With `versions`, the rows have several HTTP versions, and the sentences name them."""
    wins: dict[Key, list[Gain]] = defaultdict(list)
    for row in rows:
        best = min(row, key=lambda key: row[key].plt_ms_median or 0.0)
        wins[best].append(_gain(results, row[_plain(row)], row[best]))
    plain = _plain(rows[0])
    over = f"{http_words(plain[0])} and " if versions else ""
    over += f"{SESSION_WORDS[plain[1]]} {rows[0][plain].cell.arm.words}"
    what = "over all versions of HTTP" if versions else "first flight"
    exact = versions or all(one.deterministic for row in rows for one in row.values())
    sure = "" if exact else " (medians of loads that are not paired)"
    for best, gains in wins.items():
        arm = next(row[best].cell.arm for row in rows if best in row)
        name = f"{SESSION_WORDS[best[1]]} {arm.words}"
        if versions:
            # QUIC has no SYN, so TFO is not mentioned.
            tfo = "" if best[0] == "3" else f" {arm.words}"
            name = f"{http_words(best[0])} with {SESSION_WORDS[best[1]]}{tfo}"
        where = "" if len(wins) == 1 else f" in {plural(len(gains), 'row')}"
        gain = "" if best == plain else f", which saves {_gains(gains)} compared with {over}"
        yield f"Best {what}{where}: {name}{gain}{sure}."


def _added(rows: Sequence[Flights]) -> Iterator[str]:
    """Yield a sentence on the saving that TFO adds to each session."""
    added = {
        session: savings
        for session in SESSION_WORDS
        if (savings := [one for row in rows if (one := _tfo_adds(row, session)) is not None])
    }
    if added:
        parts = [f"{span(savings, '%')} with {SESSION_WORDS[session]}" for session, savings in added.items()]
        yield f"TFO with {HEADLINE.cookies} cookies saves {listed(parts)}."


def _gain(results: Results, plain: CellResult, best: CellResult) -> Gain:
    """Return the saving of `best` over `plain` in percent, and its bound if that is over `plain` too."""
    bound = results.flight_savings.get(best.cell.index)
    known = None if bound is None or bound.over != plain.cell.index else bound.bound.percent
    return _saving(plain, best) or 0.0, known


def _gains(gains: Sequence[Gain]) -> str:
    """Return `33.3 % (at most 33.4 %)`."""
    most = [bound for _, bound in gains if bound is not None]
    at_most = f" (at most {span(most, '%')})" if len(most) == len(gains) else ""
    return f"{span([saving for saving, _ in gains], '%')}{at_most}"


def _plain(row: Flights) -> Key:
    """Return the simplest first flight: the oldest HTTP, the first of SESSIONS, the first arm."""
    return min(row, key=lambda key: (key[0], SESSIONS.index(key[1]), row[key].cell.index))


def _tfo_adds(row: Flights, session: str) -> float | None:
    of_session = {arm: one for (_, begins, arm), one in row.items() if begins == session}
    without = next((one for one in of_session.values() if not one.cell.arm.fast_open), None)
    return _saving(without, of_session.get(HEADLINE.name))


def _saving(without: CellResult | None, cell: CellResult | None) -> float | None:
    """Return the saving in percent, from the two medians; None if a median is missing."""
    if without is None or cell is None or not without.plt_ms_median or cell.plt_ms_median is None:
        return None
    return 100 * (without.plt_ms_median - cell.plt_ms_median) / without.plt_ms_median
