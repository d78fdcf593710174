"""Does TFO pay on paths that break it: what a run with path rules says of a page, in two sentences a path."""

from collections.abc import Iterator, Sequence

from fastopen.attribution.phrases import NBSP, signed
from fastopen.experiments import HEADLINE
from fastopen.statistics import DROPPING_SHARE, DROPPING_SOURCE, Payoff, Results, payoffs


def payoff_lines(results: Results, page: str) -> list[str]:
    """A line for each path that breaks TFO, over all networks whose open path was loaded as well.

    None where the run has no such path. Of the headline arm alone.
    """
    by_path: dict[str, list[Payoff]] = {}
    for one in payoffs([results]):
        if one.page == page and one.arm == HEADLINE.name:
            by_path.setdefault(one.path, []).append(one)
    return [" ".join(_sentences(path, found)) for path, found in by_path.items()]


def _sentences(path: str, found: Sequence[Payoff]) -> Iterator[str]:
    cost, saved = (_span([getattr(one, name) for one in found], "ms") for name in ("cost_ms", "saved_ms"))
    shares = [share for one in found if (share := one.break_even_share()) is not None]
    costs = f"Behind {path} TFO with {HEADLINE.cookies} cookies costs {cost}"
    costs += f", and over an open path it saves {saved}"
    if not shares:
        yield f"{costs}: it pays whatever the share of such paths."
        return
    most = _span([100 * share for share in shares], "%")
    rest = "; on other networks whatever their share" if len(shares) < len(found) else ""
    yield f"{costs}: in the mean over paths it pays while fewer than {most} of them are so{rest}."
    if path.startswith("drop-"):
        paying = sum(share > DROPPING_SHARE for share in shares) + len(found) - len(shares)
        dropping = f"{100 * DROPPING_SHARE:g}{NBSP}%"
        where = (
            "on every network that was loaded"
            if paying == len(found)
            else f"on {paying} of {len(found)} networks"
        )
        yield f"If {dropping} of paths drop SYNs ({DROPPING_SOURCE}), it pays {where}."


def _span(values: Sequence[float], unit: str) -> str:
    """`12.5 ms`, or `-0.6 to 3.7 ms` with a true minus sign."""
    ends = dict.fromkeys(signed(end) for end in (min(values), max(values)))
    return f"{' to '.join(ends)}{NBSP}{unit}"
