"""Report whether TFO saves time on average if middleboxes, such as firewalls, break it on some paths."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from fastopen.analysis.statistics import DROPPING_SHARE, DROPPING_SOURCE, Payoff, Results, by_cost, payoffs
from fastopen.common.grouping import grouped
from fastopen.common.phrases import NBSP, listed, span, times
from fastopen.experiments import HEADLINE
from fastopen.report.findings import Finding, finds

# If there are more networks, their number is given instead of their names.
NAMED_MAX: Final = 3


@finds(rank=50, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each group of middleboxes that break TFO at the same cost. It states the percentage
    of such paths below which TFO with warm cookies still saves time on average over all paths."""
    found = (one for one in payoffs(results) if one.page == page and one.arm == HEADLINE.name)
    for paths, costs in by_cost(found):
        yield Finding("broken_path", " ".join(_sentences(paths, costs)))


def _sentences(paths: Sequence[str], found: Sequence[Payoff]) -> Iterator[str]:
    if never := [one for one in found if one.cost_ms == inf]:
        where = "" if len(never) == len(found) else f" in {len(never)} of {len(found)} rows"
        pays = "pays only if no path is broken in this way"
        if all(one.saved_ms <= 0 for one in never):
            pays = "never pays"
        yield (
            f"Behind {' or '.join(paths)} no load with TFO and {HEADLINE.cookies} cookies finishes{where},"
            f" but loads without TFO do: there it {pays}."
        )
    others = [one for one in found if one.cost_ms < inf]
    if not others:
        return
    of_each = ([getattr(one, name) for one in others] for name in ("cost_ms", "saved_ms"))
    cost, saved = (times(min(ms), max(ms)) for ms in of_each)
    shares = [100 * share for one in others if (share := one.break_even_share()) is not None]
    behind = "Elsewhere, behind" if never else "Behind"
    behind += f" {' or '.join(paths)} TFO with {HEADLINE.cookies} cookies costs"
    if not shares:
        yield f"{behind} no time, and over an open path it saves {saved}: it pays at any share of such paths."
        return
    rest = "; on other networks it pays at any share" if len(shares) < len(others) else ""
    pays = f"on average it pays while fewer than {span(shares, '%')} of paths are broken in this way"
    if not round(max(shares), 1):
        pays = "on average it does not pay"
    yield f"{behind} {cost}, and over an open path it saves {saved}: {pays}{rest}."
    if all(path.startswith("drop-") for path in paths):
        dropping = f"{100 * DROPPING_SHARE:g}{NBSP}%"
        yield f"If {dropping} of paths drop SYNs ({DROPPING_SOURCE}), {_where(found)}."


def _where(found: Sequence[Payoff]) -> str:
    """Return a clause on the networks on which TFO saves time if DROPPING_SHARE (6 %) of paths drop SYNs."""
    places = grouped(
        (
            one.mean_saving_ms(DROPPING_SHARE) > 0,
            ", ".join(filter(None, (f"{one.rtt_ms:g}{NBSP}ms", one.otherwise))),
        )
        for one in found
    )
    pays, costs = places.get(True, []), places.get(False, [])
    if not costs:
        return "it pays on every network of this run"
    if not pays:
        return "it does not pay"
    if max(len(pays), len(costs)) > NAMED_MAX:
        return f"it pays in {len(pays)} of {len(found)} rows"
    return f"it pays at {listed(pays)}, and not at {listed(costs)}"
