"""Define `fastopen payoff`: compute the share of broken paths above which TFO costs more than it saves."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.analysis.statistics import Results, collect, payoffs
from fastopen.cli.output import console, print_grid, print_json, shown
from fastopen.cli.shared_options import JsonOption
from fastopen.common.errors import InputError
from fastopen.common.grid import figures, keys, listing
from fastopen.experiments import ARMS
from fastopen.report.findings.broken_paths import findings
from fastopen.runs import RunStore, find_run

PANEL: Final = "Read a result"


def command(
    runs: Annotated[list[str], Argument(metavar="RUN...", help="Folders or names of runs, or last.")],
    visits: Annotated[int, Option(min=1, help="Visits that benefit from one negative-cache entry.")] = 10,
    json: JsonOption = False,
) -> None:
    """Compute the share of broken paths above which TFO costs more time than it saves."""
    results: dict[str, Results] = {}
    for run in runs:
        with RunStore.open(find_run(run)) as store:
            results[run] = collect(store)
    found = [(run, one) for run, of_run in results.items() for one in payoffs(of_run)]
    if not found:
        message = "no page was loaded over both a working path and one that breaks TFO"
        remedy = "use fastopen run PAGE --path none,drop-syn-data, without --path-share"
        raise InputError(message, ", ".join(runs), remedy)
    if json:
        print_json({"visits": visits, "payoffs": [{"run": run, **one.as_json(visits)} for run, one in found]})
        return
    several, otherwise = len(results) > 1, any(one.otherwise for _, one in found)
    columns = (
        *keys(*(["run"] * several), "page", "path", "TFO", *(["with"] * otherwise)),
        *figures("RTT\nms", "saves, open\nms", "costs, broken\nms"),
        *figures("pays\nbelow", f"cached for\n{visits} visits", "one\nhandshake"),
    )
    rows = (
        (
            *(*([run] * several), one.page, one.path),
            *(ARMS[one.arm].short_label, *([one.otherwise] * otherwise)),
            *(f"{one.rtt_ms:g}", shown(one.saved_ms)),
            shown(one.cost_ms) if isfinite(one.cost_ms) else "never loads",
            *map(_share, (one.break_even_share(), one.break_even_share(visits), one.one_handshake_share)),
        )
        for run, one in found
    )
    print_grid(listing(columns, rows))
    for sentence in _sentences(results, visits):
        console().print(Text(sentence))


def _share(share: float | None) -> str:
    return "any" if share is None else f"{100 * share:.1f} %"


def _sentences(runs: Mapping[str, Results], visits: int) -> Iterator[str]:
    for run, results in runs.items():
        where = f"{run}, " if len(runs) > 1 else ""
        for page in results.pages:
            for one in findings(results, page):
                yield f"{where}{page}: {one.sentence}"
    yield (
        "Pays below: the share of broken paths below which TFO saves time on average. Cached: this share for "
        f"a client that pays once for a failure and avoids TFO on that path for {visits} visits (RFC 7413, "
        "section 4.1.3.1); Linux has no such cache. One handshake: computed as RTT / (1 s + RTT)."
    )
