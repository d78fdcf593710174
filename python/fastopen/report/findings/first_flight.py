"""Report the kind of TLS session, with or without TFO, with which a page loads fastest."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from fastopen.analysis.statistics import CellResult, Results
from fastopen.common.phrases import percent, plural
from fastopen.experiments import SESSION_WORDS, http_words
from fastopen.report.findings import Finding, finds

Key = tuple[str, str, str]
"""The HTTP version, TLS session and arm of a result."""
Flights = Mapping[Key, CellResult]
"""Results that differ only in their `Key`: all other conditions, such as an RTT of 20 ms, are equal."""
SESSIONS: Final = list(SESSION_WORDS)


@finds(rank=65, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings on the kind of TLS session, with or without TFO, with which `page` loads fastest: first
    for each version of HTTP, then over all versions."""
    flight = [factor.name for factor in results.factors.varying if factor.first_flight]
    for question, rows in _rows(results, page, flight).items() if flight else ():
        several = [row for row in rows if len({session for _, session, _ in row}) > 1]
        if several:
            yield from _best(results, several, question)
    quic = any(setup.origins.all_quic for setup in results.experiment.setups)
    if (quic or flight) and any(factor.name == "http" for factor in results.factors.varying):
        for question, rows in _rows(results, page, [*flight, "http"]).items():
            yield from _best(results, rows, question, versions=True)


def _rows(results: Results, page: str, apart: Sequence[str]) -> dict[str, list[Flights]]:
    """Group the page's results over TLS into rows, within which only the arm and the settings `apart` differ.
    Return lists of rows, keyed by the settings that all rows of a list share, such as `TLS 1.3`."""
    factors = results.factors
    cells = (one for one in results.cells if one.cell.page == page and one.plt_ms_median is not None)
    found: dict[str, list[Flights]] = defaultdict(list)
    for group in results.groups_differing_in(cells, *apart):
        setups = ((results.experiment.setups[result.cell.setup], result) for result in group)
        row: dict[Key, CellResult] = {
            (setup.origins.http, setup.tls.session, result.cell.arm.name): result
            for setup, result in setups
            if setup.tls is not None
        }
        asking = (factor for factor in factors.besides(*apart) if factor.question)
        if row:
            found[", ".join(factors.phrases(group[0].cell, asking))].append(row)
    return found


def _best(
    results: Results, rows: Sequence[Flights], question: str, *, versions: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each kind of TLS session, with or without TFO, that is fastest in some row.
    `question`: settings that all rows share, as text. `versions`: True if HTTP versions in a row differ."""
    wins: dict[Key, list[tuple[float, Flights]]] = defaultdict(list)
    for row in rows:
        best = min(row, key=lambda key: row[key].plt_ms_median or 0.0)
        plain_ms, best_ms = (row[key].plt_ms_median or 0.0 for key in (_plain(row, best), best))
        wins[best].append((100 * (plain_ms - best_ms) / plain_ms if plain_ms else 0.0, row))
    exact = versions or all(one.deterministic for row in rows for one in row.values())
    sure = "" if exact else " (medians of loads that are not paired)"
    for best, gains in wins.items():
        saving, row = max(gains, key=itemgetter(0))
        plain = _plain(row, best)
        name, over = (_name(row, key, versions=versions) for key in (best, plain))
        where = "" if 1 in (len(wins), len(gains)) else f" in {plural(len(gains), 'row')}"
        telling = [factor for factor in results.factors.varying if not factor.question]
        place = f" ({results.factors.name_by(row[best].cell, telling)})" if len(rows) > 1 else ""
        gain = "" if best == plain else f"; {percent(saving)} faster than {over}{place}"
        fastest = "Fastest over all versions of HTTP" if versions else "Fastest"
        asked = f" with {question}" if question else ""
        yield Finding("first_flight", f"{fastest}{asked}{where}: {name}{gain}{sure}.")


def _name(row: Flights, key: Key, *, versions: bool) -> str:
    http, session, _ = key
    # QUIC has no SYN, so no phrase about TFO applies.
    cookies = row[key].cell.arm.cookies
    tfo = "" if http == "3" else f" with TFO and {cookies} cookies" if cookies else " without TFO"
    return f"{f'{http_words(http)} with ' if versions else ''}{SESSION_WORDS[session]}{tfo}"


def _plain(row: Flights, best: Key) -> Key:
    """Return the key of the result to compare with `best`, usually a full handshake without TFO."""
    http = "2" if best[0] == "3" and any(key[0] == "2" for key in row) else best[0]
    return min(
        (key for key in row if key[0] == http), key=lambda key: (SESSIONS.index(key[1]), row[key].cell.index)
    )
