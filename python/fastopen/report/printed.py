"""Print the results of a run in a terminal: the verdict, tables and sentences for each page, and notes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from fastopen.analysis.attribution import place_and_reason
from fastopen.analysis.statistics import (
    FULL_MIN,
    CellResult,
    Results,
    ServerUse,
    half_width_percent,
    pairs_needed,
)
from fastopen.common.grid import Grid
from fastopen.common.grouping import grouped
from fastopen.common.phrases import decapitalised, listed, plural, some, with_sign
from fastopen.common.terminal import filled, fitting_table, tabled
from fastopen.experiments import CONTROL, Experiment, Role, treatments_of
from fastopen.report.corpus import corpus_grids, corpus_sentences
from fastopen.report.findings import Finding, Severity, page_findings
from fastopen.report.findings.surprises import surprises_of_pages
from fastopen.report.findings.verdict import of_arm
from fastopen.report.published import comparison_sentences, published_grid
from fastopen.report.result_tables import column_notes, first_grids, page_grids, paper_grid, spread_note
from fastopen.report.summary import findings_by_page, summarise_run

# The maximum number of pages with a table each. More pages share a table, with rows for page and network.
PAGES_APART: Final = 8
# The half-width of intervals, in percentage points, for which the necessary repeats are computed.
WANTED_PERCENT: Final = 1.0
# The maximum number of outliers that are listed; further ones are only counted.
NAMED: Final = 3
# The maximum number of networks in the table of correlations; more do not fit into a terminal.
PLACES_PRINTED: Final = 4
# The style of a finding and the indent of its further lines, by severity.
STYLES: Final[Mapping[Severity, tuple[str, str]]] = {
    "answer": ("", ""),
    "note": ("", ""),
    "warning": ("yellow", "  "),
    "detail": ("dim", ""),
}
# In virtual time, a measured RTT is printed only if it differs by more than this from the requested RTT.
RTT_OFF_MS: Final = 0.1
CLOCKS: Final = {"host": "real", "virtual": "virtual"}
# The number of cells with the largest savings, and with the smallest, that are named.
EXTREMES: Final = 3


def results_renderables(results: Results, width: int) -> Iterator[RenderableType]:
    """Yield everything that `fastopen show` prints about a run, for a terminal of `width` columns."""
    loaded = {cell.cell.page for cell in results.cells if cell.loads}
    if not loaded:
        yield Text(f"Nothing was loaded: this run is {results.status}.")
        return
    pages = [page for page in results.pages if page in loaded]
    summary, published = summarise_run(results), published_grid(results)
    yield from filled([summary.headline], width, "bold")
    yield from filled(filter(None, [" ".join(summary.verdict)]), width)
    yield Text()
    shared: list[str] = []
    if not results.distributions and len(pages) <= PAGES_APART:
        findings, shared = findings_by_page(results, pages)
        common, grids = first_grids(results, pages)
        yield from (*filled([common], width), Text()) if common else ()
        for page, grid in grids.items():
            yield from _of_page(results, page, grid, findings[page], width)
    else:
        yield from _of_pages(results, pages, width)
    if len(pages) > 1:
        yield Text("Both pages" if len(pages) == 2 else f"All {len(pages)} pages", "bold")
        yield from filled((*summary.sentences, *shared, *surprises_of_pages(results, pages)), width)
        yield Text()
    if published.rows:
        yield from tabled(published, width)
        short = fitting_table(published, width)[1].short
        yield from filled(comparison_sentences(results, short=short), width, indent="  ")
        yield Text()
    yield from filled(certainty_lines(results), width, "dim")
    yield from filled(_closing(results, pages), width, "dim")


def _of_pages(results: Results, pages: Sequence[str], width: int) -> Iterator[RenderableType]:
    for grid in [*corpus_grids(results, PLACES_PRINTED)] or [paper_grid(results, pages)]:
        yield from tabled(grid, width)
    yield from filled([*corpus_sentences(results), *_extremes(results)], width)
    yield from _warnings(results, pages, width)
    words = "More on each page: fastopen report; for programs: --json, fastopen report -f csv."
    yield from filled([words], width, "dim")
    yield Text()


def _warnings(results: Results, pages: Sequence[str], width: int) -> Iterator[RenderableType]:
    warnings = [one for page in pages for one in page_findings(results, page, severity="warning")]
    for exceeding, what in ((True, "exceed their bound"), (False, "have invalid or missing loads")):
        if found := [one for one in warnings if (one.kind == "beyond_bound") is exceeding]:
            names = list(dict.fromkeys(one.subject for one in found))
            first = f"{found[0].subject}: {found[0].sentence}"
            words = f"{plural(len(names), 'page')} {what}: {some(names)}. {first}"
            yield from filled([words], width, *STYLES["warning"])


def _extremes(results: Results) -> Iterator[str]:
    arms = treatments_of(results.experiment.arms)
    judged = of_arm(results.cells, arms[0]) if arms else []
    known = [cell for cell in judged if cell.improvement_percent is not None]
    known.sort(key=lambda cell: cell.improvement_percent or 0.0, reverse=True)
    if len(known) <= 2 * EXTREMES:
        return
    where = [results.factors.where(cell.cell) for cell in known]
    apart = len(set(where)) > 1
    saved = {
        f"{cell.cell.page} {place}" if apart else cell.cell.page: with_sign(cell.improvement_percent or 0.0)
        for cell, place in zip(known, where, strict=True)
    }
    savings = [f"{name} ({saving} %)" for name, saving in saved.items()]
    for words, named in (("most", savings[:EXTREMES]), ("least", savings[: -EXTREMES - 1 : -1])):
        yield f"{arms[0].condition} TFO saves {words} of {listed(named)}."
    for cell in reversed(known[-EXTREMES:]):
        if (cell.improvement_percent or 0.0) < 0 and (why := place_and_reason(results, [cell])):
            yield f"{cell.cell.page}: {decapitalised(arms[0].condition)} slower{why}."


def _of_page(
    results: Results, page: str, first: Grid, findings: Sequence[Finding], width: int
) -> Iterator[RenderableType]:
    yield from tabled(first, width)
    for finding in findings:
        yield from filled([finding.sentence], width, *STYLES[finding.severity])
    for grid in page_grids(results, page)[1:]:  # the first grid's note is printed below all pages
        yield Text()
        yield from tabled(grid, width)
        yield from filled([grid.note], width, "dim")
    yield Text()


def _closing(results: Results, loaded: Sequence[str]) -> Iterator[str]:
    """Yield notes to print below the results, such as measured RTTs. `loaded` names the pages with loads."""
    experiment = results.experiment
    engines = {cell.cell.engine for cell in results.cells}
    measured: list[str] = []
    rtts_ms = results.measured_rtt_ms.items()
    of_asked = grouped((experiment.networks[index].rtt_us / 1000, rtt) for (_, index), rtt in rtts_ms)
    for asked_ms, rtts in sorted(of_asked.items()):
        if "host" in engines or max(abs(rtt - asked_ms) for rtt in rtts) > RTT_OFF_MS:
            ends = dict.fromkeys(f"{rtt:.2f}" for rtt in (min(rtts), max(rtts)))
            measured.append(f"{' to '.join(ends)} ms instead of {asked_ms:g} ms")
    if measured:
        yield f"Measured RTT: {'; '.join(measured)}."
    if results.server_use is not None:
        kinds = {reason.kind for cell in results.cells for reason in cell.reasons}
        yield from _listeners(results.server_use, other_answers="wrong_bytes" in kinds)
    yield " ".join(column_notes(results))
    clock = listed([f"{CLOCKS[name]} time" for name in sorted(engines)])
    yield f"Client {_clients_and_servers(experiment)}, {clock}, seed {experiment.seed}."
    if note := spread_note(experiment, results.cells):
        yield note
    compared = (cell for cell in results.cells if cell.improvement_percent is not None)
    if any(cell.pairs < FULL_MIN and not cell.deterministic and not cell.varied for cell in compared):
        yield (
            f"With fewer than {FULL_MIN} repeats, a bracket is the range of all pairs. It contains the true"
            f" median with 75 % (3 pairs), 88 % (4) or 94 % (5); with {FULL_MIN} it is a 95 % interval."
        )
    if results.status != "finished":
        left = [page for page in results.pages if page not in loaded]
        named = f"{len(left)} of {len(results.pages)} pages ({some(left)})" if left else ""
        if 0 < len(left) <= PAGES_APART:
            named = listed(left)
        without = f", without any load of {named}" if left else ""
        yield f"This run is {results.status}{without}; the rest is missing above."


def _listeners(use: ServerUse, *, other_answers: bool) -> Iterator[str]:
    """Yield notes on external servers. `other_answers`: True if the content of a response was wrong."""
    if other_answers:
        yield (
            "The server has to request answers that are not files (redirects, answers to POST) from the"
            " origins on port 8080, as examples/servers/nginx.conf does."
        )
    if not use.listeners and not use.upstream_connections:
        yield "In no load with TFO did the server listen on the address that the client connected to."
        return
    for one in use.listeners:
        lengths = listed(["unknown" if length is None else str(length) for length in one.queues])
        took = f"took data in {one.syn_data} SYNs of {plural(one.connections, 'connection')}"
        yield f"The server's listener on {one.place} (TFO queue {lengths}) {took}, in all loads with TFO."
    if use.overflows:
        yield f"{plural(use.overflows, 'connection')} found its queue full."
    if use.upstream_connections:
        took = f"{use.upstream_syn_data} of {plural(use.upstream_connections, 'connection')}"
        yield f"To the origins behind it {took} carried data in the SYN, in all loads with TFO upstream."


def _clients_and_servers(experiment: Experiment) -> str:
    """Return the clients and external servers as text: `loader (browser), curl, server nginx`."""
    clients = (setup.client for setup in experiment.setups)
    names = dict.fromkeys(
        f"{client.label} ({client.profile})" if "profile" in client.type.takes else client.label
        for client in clients
    )
    commands = (setup.origins.server for setup in experiment.setups)
    servers = dict.fromkeys(PurePath(words[0]).name for words in commands if words)
    return ", ".join([*names, *([f"server {', '.join(servers)}"] if servers else [])])


def certainty_lines(results: Results) -> Iterator[str]:
    """Yield sentences on the noise floor, the widest confidence interval and the outliers of a run. A
    sentence is left out if the run does not have these figures."""
    noisy = [cell for cell in results.cells if not (cell.deterministic or cell.varied)]
    controls = (one.improvement_ci95 for one in noisy if one.cell.arm.role is Role.CONTROL)
    if intervals := [interval for interval in controls if interval is not None]:
        low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
        yield (
            f"Noise floor: {decapitalised(CONTROL.condition)}, page load time seems"
            f" to be reduced by {with_sign(low)} to {with_sign(high)} % (95 % intervals): savings within that"
            " mean nothing."
        )
    yield from _precision(results, [cell for cell in noisy if cell.cell.arm.role is Role.TREATMENT])
    yield from _outliers(results)


def _precision(results: Results, treatments: list[CellResult]) -> Iterator[str]:
    widths = [(width, cell) for cell in treatments if (width := half_width_percent(cell)) is not None]
    if not widths:
        return
    width, widest = max(widths, key=lambda one: one[0])
    needed = pairs_needed(widest, WANTED_PERCENT)
    where = _name(results, widest)
    if width <= WANTED_PERCENT:
        yield f"No interval is wider than ±{width:.1g} points ({where})."
    else:
        yield (
            f"The widest interval is ±{width:.1f} points ({where});"
            f" ±{WANTED_PERCENT:g} point would need about {needed:,} repeats"
            f" (--until-ci {WANTED_PERCENT:g}% --max-repeats {needed})."
        )


def _outliers(results: Results) -> Iterator[str]:
    lossy = [cell for cell in results.cells if results.has_random_loss(cell)]
    if late := sum(len(cell.outliers) for cell in lossy):
        loads = sum(len(cell.plts_ms) for cell in lossy)
        which = f"{late:,} of {loads:,} loads {'is' if late == 1 else 'are'}"
        yield (
            f"Where segments are lost at random, {which} far from the others of their cell, as expected;"
            " every figure includes them."
        )
    others = (cell for cell in results.cells if not results.has_random_loss(cell))
    if found := [(cell, *outlier) for cell in others for outlier in cell.outliers.items()]:
        named = "; ".join(
            f"{_name(results, cell)}, repeat {repeat}: {ms:.0f} ms" for cell, repeat, ms in found[:NAMED]
        )
        more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
        yield f"{plural(len(found), 'outlier')}, kept in every figure ({named}{more})."


def _name(results: Results, cell: CellResult) -> str:
    return f"{cell.cell.page} {results.factors.where(cell.cell.comparison)}, {cell.cell.arm.name}"
