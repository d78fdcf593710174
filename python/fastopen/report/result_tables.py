"""Build the tables of a run's results, for any output format."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from statistics import median
from typing import Final

from fastopen.analysis.attribution import Kind, RunAnalysis
from fastopen.analysis.attribution.cold import cold_requests
from fastopen.analysis.statistics import (
    BEYOND_BOUND,
    FULL_MIN,
    CellResult,
    Effect,
    Results,
    SizeLevel,
    effect_of,
    levels,
    round_trips_of_sizes,
    sensitivity,
    syn_data_max,
)
from fastopen.common import units
from fastopen.common.errors import any_of
from fastopen.common.grid import Column, Entry, Grid, Tone, entries, figures
from fastopen.common.phrases import NBSP, plural, share, signed, with_sign
from fastopen.contract import Network
from fastopen.experiments import (
    ARMS,
    NAMED_NETWORKS,
    RATES_BY_DEFAULT,
    SESSION_WORDS,
    UNKNOWNS,
    ArmName,
    Comparison,
    Experiment,
    SmallestEffect,
    all_named,
    compared,
    name_of,
    treatments_of,
)
from fastopen.report.corpus import corpus_grids
from fastopen.report.document import flat_cells
from fastopen.report.findings.browser import paint_grid
from fastopen.report.published import published_grid
from fastopen.report.shared_columns import MISSING, cell_columns, factor_entry, known, time_in

TONES: Final[dict[Effect, Tone]] = {Effect.REDUCES: "good", Effect.INCREASES: "bad"}
# The text between the parts of a subtitle.
PARTED: Final = "  "
# Factors that change how many bytes a client sends first, or how many bytes fit into a SYN.
DECIDING_CLIENT_BYTES: Final = (
    *("client", "http", "tls", "key_share", "session", "certificate_compression", "ech", "mtu", "ip"),
)


def page_grids(results: Results, page: str) -> list[Grid]:
    """Return the tables of a page's results. The first table shows load times and savings or, in a run over
    many certificate sizes, round trips by certificate size."""
    first, *others = level_grid(results, page), syn_grid(results, page)
    if not first.rows:
        first, others = result_grid(results, page), [flight_grid(results, page), *others]
    return [first, *(grid for grid in others if grid.rows)]


def first_grids(results: Results, pages: Sequence[str]) -> tuple[str, dict[str, Grid]]:
    """Return the parts of the subtitle that all pages share, and each page's first table without these parts.
    If there is only one page, its table keeps its subtitle."""
    grids = {page: page_grids(results, page)[0] for page in pages}
    parts = {page: grid.subtitle.split(PARTED) for page, grid in grids.items()}
    first, *others = parts.values() if len(parts) > 1 else [[]]
    common = [part for part in first if all(part in one for one in others)]
    own = {page: PARTED.join(one for one in ones if one not in common) for page, ones in parts.items()}
    return PARTED.join(common), {page: replace(grid, subtitle=own[page]) for page, grid in grids.items()}


def result_grid(results: Results, page: str) -> Grid:
    """Return the main table of a page, with a row for each combination of network and settings: page load
    times with and without TFO, savings, connections with SYN data, and the number of valid loads."""
    grid = _results_of(results, [page])
    initiators = {"inferred": "all", "mixed": "some"}.get(results.pages[page].initiators)
    made = f"({initiators} request dependencies are inferred)" if initiators else ""
    return replace(grid, title=page, subtitle=PARTED.join(filter(None, (grid.subtitle, made))))


def paper_grid(results: Results, pages: Sequence[str] = ()) -> Grid:
    """Return a single table with the results of `pages`, or of all pages of the run if `pages` is empty. If
    there are several pages, the table has a column for the page."""
    title = results.experiment.title or "Page load time without and with TCP Fast Open"
    grid = replace(_results_of(results, pages or list(results.pages)), title=title, grouped=True)
    if len(results.pages) > 1:
        return grid
    return replace(grid, subtitle="; ".join(filter(None, (*results.pages, grid.subtitle))))


def _results_of(results: Results, pages: Sequence[str]) -> Grid:
    factors, arms = results.factors, results.experiment.arms
    rows = {place: cells for page in pages for place, cells in results.comparisons(page).items()}
    named = [Column("page", "key")] if len(pages) > 1 else []
    cells = [cell for of_arm in rows.values() for cell in of_arm.values()]
    gaining, with_tfo = compared(arms), [name for name in arms if ARMS[name].fast_open]
    flights = arms if any(factor.first_flight for factor in results.factors.varying) else []
    longest_ms = max((cell.plt_ms_median or 0.0 for cell in cells), default=0.0)
    unit = "s" if longest_ms >= 1000 else "ms"
    over = {interval_percent(cell) for cell in cells if cell.improvement_percent is not None} - {""}
    interval = f" [{over.pop() if len(over) == 1 else 'range'}]" if over else ""
    columns = (
        *named,
        *(Column(factor.header, "factor") for factor in factors.varying),
        *(Column(f"PLT\n{name}{NBSP}{unit}") for name in arms),
        *(_saves_column(name, interval) for name in gaining),
        *([Column(f"at\nmost{NBSP}%")] if gaining else []),
        *(Column(f"SYN{NBSP}data\n{name}", short=f"SYN\ndata\n{name}", detail=True) for name in with_tfo),
        *(Column(f"1st byte\n{name}{NBSP}RTTs", short=f"1st\nbyte\n{name}", detail=True) for name in flights),
        Column("n"),
    )
    rtts = {index: flight.first_byte_rtts for index, flight in results.first_flights.items()}
    made = []
    for comparison, of_arm in rows.items():
        point = factors.point(comparison)
        valid = [cell.loads - cell.invalid for cell in of_arm.values()]
        of_each = partial(_of_each, of_arm)
        made.append(
            (
                *(Entry(comparison.page) for _ in named),
                *(factor_entry(factor, point) for factor in factors.varying),
                *of_each(arms, lambda one: time_in(unit, one.plt_ms_median)),
                *of_each(gaining, lambda one: _saving(one, results.experiment.smallest_effect)),
                *([_at_most(of_arm)] if gaining else []),
                *of_each(with_tfo, _syn_data),
                *of_each(flights, lambda one: known(rtts.get(one.cell.index), "{:.3f}".format)),
                Entry("-".join(map(str, dict.fromkeys((min(valid), max(valid)))))),
            )
        )
    bounds = results.bound_note(cell for cell in cells if cell.beats_bound)
    note = " ".join(filter(None, (spread_note(results.experiment, cells), bounds)))
    fixed = "; ".join(filter(None, (", ".join(results.factors.fixed().values()), fixed_rates(results))))
    return Grid("", columns, tuple(made), note, fixed).hoist_common_factors()


def _at_most(of_arm: Mapping[ArmName, CellResult]) -> Entry:
    """Return the table entry with the upper bound of the savings. Each arm has its own bound. If savings
    exceed their bounds, show all these bounds, in the order of the arms: findings name them."""
    first = [of_arm[arm.name] for arm in treatments_of(of_arm)]
    usual = min((*first, *of_arm.values()), key=lambda one: one.bound is None)
    shown = [one for one in of_arm.values() if one.beats_bound] or [usual]
    entries = [known(one.bound.percent if one.bound else None) for one in shown]
    texts = list(dict.fromkeys(map(str, entries)))
    return entries[0] if len(texts) == 1 else Entry("/".join(texts))


def _saves_column(arm: str, interval: str = "") -> Column:
    return Column(f"{arm} saves\n%{interval}", short=f"{arm}\nsaves\n%{interval}", main_result=True)


def flight_grid(results: Results, page: str) -> Grid:
    """Return a table of the page load time that TLS session resumption, early data and TFO save, and of the
    upper bounds of these savings. It has no rows if no saving is known."""
    title = f"Saving of each connection setup of {page}"
    rows, savings = results.comparisons(page), results.flight_savings
    if not any(cell.cell.index in savings for of_arm in rows.values() for cell in of_arm.values()):
        return Grid(title, (), ())
    factors, arms = results.factors, results.experiment.arms
    columns = [Column(factor.header, "factor") for factor in factors.varying]
    for name in arms:
        columns += [_saves_column(name), Column(f"{name} at\nmost{NBSP}%", short="at\nmost\n%")]
    made, beaten = [], []
    for comparison, of_arm in rows.items():
        row = [factor_entry(factor, factors.point(comparison)) for factor in factors.varying]
        for name in arms:
            saving = savings.get(of_arm[name].cell.index) if name in of_arm else None
            mark = BEYOND_BOUND if saving and saving.beats_bound else ""
            if mark:
                beaten.append(of_arm[name])
            saved, most = (None, None) if saving is None else (saving.percent, saving.bound.percent)
            row += [known(saved, with_sign, mark=mark), known(most)]
        made.append(tuple(row))
    setups, baselines = results.experiment.setups, {saving.baseline for saving in savings.values()}
    sessions = {
        SESSION_WORDS[tls.session]
        for cell in results.cells
        if cell.cell.index in baselines and (tls := setups[cell.cell.setup].tls) is not None
    }
    quic = " (of HTTP/3: over HTTP/2)" if any(one.origins.all_quic for one in setups) else ""
    note = (
        f"Savings in percent of the median PLT with {any_of(sorted(sessions))} without TFO, over the same"
        f" version of HTTP{quic}. At most: the time of handshakes in a row that a setup avoids."
    )
    note = " ".join(filter(None, (note, results.bound_note(beaten))))
    return Grid(title, tuple(columns), tuple(made), note).hoist_common_factors()


def syn_grid(results: Results, page: str) -> Grid:
    """Return a table that compares the bytes that a client sends first on a connection when it loads `page`
    with the bytes that a SYN can hold. It has no rows if neither number varies."""
    factors = results.factors
    sizes: dict[tuple[int, int], Comparison] = {}
    for comparison, of_arm in results.comparisons(page).items():
        flights = (results.first_flights.get(cell.cell.index) for cell in of_arm.values())
        sent = next((one.client_bytes for one in flights if one and one.client_bytes is not None), None)
        if sent is not None:
            room = syn_data_max(results.experiment.networks[comparison.network])
            sizes.setdefault((sent, room), comparison)
    # Other factors, such as certificate sizes and windows, do not change these bytes.
    deciding = [one for one in factors.varying if one.name in DECIDING_CLIENT_BYTES]
    rows = tuple(
        (
            *(factor_entry(factor, factors.point(comparison)) for factor in deciding),
            *(known(count, "{:,}".format) for count in (sent, room)),
            known(max(0, sent - room), "{:,}".format, "bad" if sent > room else ""),
        )
        for (sent, room), comparison in (sizes.items() if len(sizes) > 1 else ())
    )
    headers = ("client sends\nfirst, bytes", "SYN holds\nbytes", "does not\nfit, bytes")
    note = "ClientHello and early data, or the cleartext request. TFO saves a round trip if all of it fits."
    columns = (*(Column(factor.header, "factor") for factor in deciding), *map(Column, headers))
    return Grid(f"First flights of {page} in a SYN", columns, rows, note).hoist_common_factors()


def level_grid(results: Results, page: str) -> Grid:
    """Return a table of the round trips until the first byte of the response for each range of certificate
    sizes. It has no rows if the run has too few sizes."""
    factors, arms = results.factors, results.experiment.arms
    others = [factor for factor in factors.varying if factor.name != "chain_bytes"]
    rows = tuple(
        (
            *(factor_entry(factor, factors.point(comparison)) for factor in others),
            *(Entry(_in_levels(levels(of_arm.get(name, {})))) for name in arms),
        )
        for comparison, of_arm in round_trips_of_sizes(results, page).items()
    )
    columns = (
        *(Column(factor.header, "factor") for factor in others),
        *(Column(f"{name}: RTTs (to bytes)", "words", wraps=True) for name in arms),
    )
    note = (
        "Round trips from opening the connection to the first byte of the answer, and the largest"
        " certificate chain with them. A range in parentheses holds the step between two sizes."
    )
    title = f"Round trips of {page} by size of the certificates"
    return Grid(title, columns, rows, note).hoist_common_factors()


def _in_levels(found: Sequence[SizeLevel]) -> str:
    """Format RTTs by certificate size. `3.000 (14,151), 4.000` means 3 RTTs up to 14,151 bytes, then 4."""
    parts = []
    for level, following in zip_longest(found, found[1:]):
        if following is None:
            parts.append(f"{level.rtts:.3f}")
            continue
        exact = following.bytes_min == level.bytes_max + 1
        end = f"{level.bytes_max:,}" + ("" if exact else f" to {following.bytes_min - 1:,}")
        parts.append(f"{level.rtts:.3f}{NBSP}({end})")
    return ", ".join(parts) or MISSING


def _of_each(
    of_arm: Mapping[ArmName, CellResult], names: Iterable[ArmName], entry: Callable[[CellResult], Entry]
) -> Iterator[Entry]:
    """Yield a table entry for each arm in `names`: `entry(result)`, or a hyphen if the arm has no result."""
    return (entry(of_arm[name]) if name in of_arm else Entry(MISSING) for name in names)


def interval_percent(result: CellResult) -> str:
    """Return the confidence level of the saving's interval, such as `95 %`. If the interval is a range of
    savings with sampled inputs, return the share of savings within it, such as `90 %`, or `all`. Empty if
    there is no interval."""
    if result.deterministic or result.interval is None:
        return ""
    if result.varied:
        return f"90{NBSP}%" if result.pairs >= FULL_MIN else "all"
    return f"{round(100 * result.confidence)}{NBSP}%"


def column_notes(results: Results) -> Iterator[str]:
    """Yield sentences that explain the columns of the main results table (`result_grid`)."""
    cells, arms, setups = results.cells, treatments_of(results.experiment.arms), results.experiment.setups
    stored = {"warm": ", with stored TFO cookies"}
    visits = [f"{arm.name}: {arm.visit.partition(' (')[0]}{stored.get(arm.name, '')}" for arm in arms]
    visit = f" ({'; '.join(visits)})" if visits else ""
    yield f"PLT: median page load time{visit}."
    if any(cell.improvement_percent is not None for cell in cells):
        if any(cell.pairs > 1 for cell in cells):
            over = {interval_percent(cell) for cell in cells if cell.improvement_percent is not None}
            words = {f"95{NBSP}%": "its 95 % interval", f"90{NBSP}%": "the range of 90 % of the samples"}
            brackets = [text for key, text in words.items() if key in over]
            brackets += ["the range of all repeats"] if over - words.keys() - {""} else []
            spread = f", with {any_of(brackets)}" if brackets else ""
            yield f"Saves: median over paired repeats of (off - on) / off{spread}."
        yield "At most: time of handshakes in a row without TFO, in % of PLT."
    if any(arm.fast_open for arm in arms):
        flights = results.first_flights.values()
        quic = any(one.quic_connections for one in flights) and any(setup.tls for setup in setups)
        aside = " (HTTP/3 has no SYN)" if quic else ""
        yield f"SYN data: connections whose SYN data was acknowledged / all connections{aside}."
    if any(factor.first_flight for factor in results.factors.varying):
        yield "1st byte: round trips until the document's first byte."
    yield "n: valid loads."
    clients = [setup.client for setup in setups]
    if any(one.type.kind == "chromium" or (one.type.ours and one.profile == "browser") for one in clients):
        yield "No current browser uses TFO."


def spread_note(experiment: Experiment, cells: Sequence[CellResult]) -> str:
    """Return a note to print below savings. It explains brackets that are ranges of samples, or rows without
    brackets, which are single loads in deterministic virtual time. Empty if the table has neither."""
    judged = [cell for cell in cells if cell.improvement_percent is not None]
    varied = [cell for cell in judged if cell.varied]
    if experiment.vary is not None and varied:
        which = "Brackets" if len(varied) == len(judged) else "Brackets of networks without random loss"
        draws = max(cell.pairs for cell in varied)
        share_of = "90 % of" if draws >= FULL_MIN else "all"
        return (
            f"{which}: the range of {share_of} {plural(draws, 'sample')} of uncertain inputs, not a"
            f" confidence interval ({experiment.vary.phrase})."
        )
    exact = [cell.deterministic for cell in judged]
    if not any(exact):
        return ""
    return (
        f"Each value{'' if all(exact) else ' without brackets'} is from one load: loads in virtual time are"
        " deterministic. Use --vary for a range."
    )


def sensitivity_grid(results: Results) -> Grid:
    """Return a table of the correlations between the saving and each uncertain input that `--vary` samples.
    There is a row for each page, network and arm, except for results with too few samples."""
    rows = []
    for result in results.cells:
        found = sensitivity(results.experiment, result)
        if found is None or result.interval is None or result.improvement_percent is None:
            continue
        low, high = result.interval
        savings = entries(*map(with_sign, (low, result.improvement_percent, high)))
        tones: dict[str, Tone] = {found.most: "notable"} if found.most else {}
        shown = partial(with_sign, digits=2)
        moved = [known(found.correlations.get(name), shown, tones.get(name, "")) for name in UNKNOWNS]
        rows.append((*_key_entries(results, result), *savings, *moved, Entry(share(found.rest))))
    columns = cell_columns("5 % of samples below", "median", "95 % below", *UNKNOWNS.values(), "rest")
    note = (
        "Saved, % of PLT; then Spearman's rank correlation of each input with it: near +1 or -1 only this"
        " input decides, near 0 it has no influence. Rest: the share of the variance of ranks that remains"
        " for request order, the split of waits and several inputs together. Bold: more than the rest."
    )
    return Grid("What moves the answer", columns, tuple(rows), note)


def path_grid(analysis: RunAnalysis) -> Grid:
    """Return a table of mean critical paths: the milliseconds of each kind of wait, such as handshakes. It
    has a row for each page, network and arm."""
    rows = [
        (
            *entries(page, place.name, arm),
            *(Entry(f"{ms:.0f}") for ms in (path.plt_ms, *path.kinds_ms.values(), path.ready_ms)),
            *entries(f"{path.handshakes:.1f}", str(path.loads)),
        )
        for page, place in analysis.all_places()
        for arm, path in place.breakdowns.items()
    ]
    note = (
        "Means in ms; the kinds add up to the PLT. Ready: time that requests on the path"
        " waited only for a free connection. Handshakes: their number on the path."
    )
    columns = cell_columns("PLT", *Kind, "ready", "handshakes", "loads")
    return Grid("The critical path in figures", columns, tuple(rows), note)


def cold_grid(analysis: RunAnalysis) -> Grid:
    """Return a table of the percentage of request time that TCP handshakes take without TFO, by network."""
    rows = []
    for one in cold_requests(analysis):
        aside = "" if one.interval is None else _bracketed(one.interval)
        times = entries(*(f"{median(ms):.1f}" for ms in (one.all_ms, one.cold_ms, one.without_ms)))
        counts = entries(str(len(one.times_ms)), str(len(one.shares)))
        share_of_cold = Entry(f"{one.share:.1f}", aside=aside, value=one.share)
        rows.append((Entry(one.place), *counts, *times, share_of_cold, known(one.share_of_all)))
    names = ("requests", "cold", "all ms", "cold ms", "without handshake ms", "of cold %", "of all %")
    note = (
        "Median loads without TFO. Cold: requests that waited for the handshake of their connection;"
        " without handshake: their time without it. Medians; of cold: the handshake's share, with the 95 %"
        " interval of its median over requests; of all: its share of the time of all requests."
    )
    columns = (Column("network", "key"), *figures(*names))
    return Grid("Handshake share of requests", columns, tuple(rows), note)


def evidence_grid(results: Results) -> Grid:
    """Return a table of the evidence for each page, network and arm: connections with SYN data, measured RTT,
    retransmissions, outliers and valid loads."""
    rows, smallest = [], results.experiment.smallest_effect
    for result in results.cells:
        cell = result.cell
        part = result.syn_data_connections / result.connections if result.connections else None
        effect = None if effect_of(result, smallest) is Effect.NONE else result.effect
        rows.append(
            (
                *_key_entries(results, result),
                _syn_data(result),
                Entry(MISSING if part is None or not cell.arm.fast_open else share(part)),
                known(results.measured_rtt_ms.get((cell.page, cell.network)), "{:.2f}".format),
                known(result.retransmitted, "{:g}".format),
                known(effect, partial(with_sign, digits=2)),
                Entry(str(len(result.outliers))),
                Entry(f"{result.loads - result.invalid}/{result.loads}", "bad" if result.invalid else ""),
            )
        )
    columns = ("SYN data", "share", "RTT measured ms", "retransmitted", "effect", "outliers", "valid")
    note = (
        "SYN data: connections whose SYN carried data that the other end acknowledged (TCPI_OPT_SYN_DATA), of"
        " all. Retransmitted: segments a load by both ends, median. Effect: matched-pairs rank-biserial"
        " correlation, 1 if every pair got faster; none below the smallest effect. Outliers are in every"
        " figure."
    )
    return Grid("Evidence of each cell", cell_columns(*columns), tuple(rows), note)


def invalid_grid(results: Results) -> Grid:
    """Return a table of invalid and repeated loads: their number, and an example, for each reason."""
    rows = [
        (*_key_entries(results, result), *entries(what, str(one.loads), one.kind, one.example))
        for result in results.cells
        for what, reasons in (("invalid", result.reasons), ("done again", result.repeated))
        for one in reasons
    ]
    columns = (*cell_columns(), *(Column(name, "words") for name in ("what", "loads", "kind", "for example")))
    return Grid("Loads that do not count", columns, tuple(rows))


def cells_grid(analysis: RunAnalysis) -> Grid:
    """Return a table for programs, with a row for each page, network, setting and arm: the values of
    `flat_cells`, then milliseconds by kind of wait and the number of handshakes, on the critical path."""
    rows: list[dict[str, str | float | bool | None]] = []
    for flat, result in zip(flat_cells(analysis.results), analysis.results.cells, strict=True):
        path = analysis.attribution.breakdowns.get(result.cell.index)
        for kind in Kind:
            name = f"path_{kind.value.replace(' ', '_').replace('-', '_')}_ms"
            flat[name] = None if path is None else round(path.kinds_ms[kind], 6)
        rows.append({**flat, "path_handshakes": None if path is None else path.handshakes})
    names = list(dict.fromkeys(name for row in rows for name in row))
    made = (
        tuple(Entry("" if row.get(name) is None else str(row[name]), value=row.get(name)) for name in names)
        for row in rows
    )
    return Grid("Cells", figures(*names), tuple(made))


def all_grids(analysis: RunAnalysis, *, for_paper: bool = False) -> Iterator[Grid]:
    """Yield all tables of a report in order. There is one table of results for each page, or a single table
    for all pages if `for_paper` is True or the run has a large corpus of pages."""
    results = analysis.results
    yield from corpus_grids(results)
    if results.distributions or for_paper:
        yield paper_grid(results)
    else:
        yield from (result_grid(results, page) for page in results.pages)
    yield from (grid for grid in (published_grid(results), *detail_grids(analysis)) if grid.rows)


def detail_grids(analysis: RunAnalysis) -> list[Grid]:
    """Return the tables of details in a report, such as critical paths, without tables that have no rows."""
    results = analysis.results
    made = (
        *(flight_grid(results, page) for page in results.pages),
        *(paint_grid(results), sensitivity_grid(results)),
        *(path_grid(analysis), cold_grid(analysis), evidence_grid(results), invalid_grid(results)),
    )
    return [grid for grid in made if grid.rows]


def _key_entries(results: Results, result: CellResult) -> tuple[Entry, ...]:
    return entries(result.cell.page, results.factors.name(result.cell), result.cell.arm.name)


def _bracketed(interval: tuple[float, float]) -> str:
    return f"[{signed(interval[0])},{NBSP}{signed(interval[1])}]"


def _syn_data(result: CellResult) -> Entry:
    return Entry(f"{result.syn_data_connections}/{result.connections}")


def _saving(result: CellResult, smallest: SmallestEffect) -> Entry:
    """Return a table entry for a saving, coloured if it is statistically certain and at least `smallest`."""
    if result.improvement_percent is None:
        return Entry(MISSING)
    text, mark = with_sign(result.improvement_percent), BEYOND_BOUND if result.beats_bound else ""
    tone = TONES.get(effect_of(result, smallest), "quiet")
    if result.deterministic:
        return Entry(text, tone, mark=mark)
    if result.interval is None:
        return Entry(text, aside="[n < 3]", mark=mark)
    return Entry(text, tone, _bracketed(result.interval), mark)


def fixed_rates(results: Results) -> str:
    """Return the link rates that do not vary in the run as text, such as `4 Mbit/s down, 256 kbit/s up`. If
    every network has a name, return each name with its rates."""
    networks = results.experiment.networks
    if all_named(networks):
        named = {name_of(network): _rates(network, ("down", "up")) for network in networks}
        return ", ".join(f"{name} ({rates})" for name, rates in named.items())
    varying = {factor.name for factor in results.factors.registered}
    rates = _rates(networks[0], [way for way in ("down", "up") if way not in varying])
    usual = NAMED_NETWORKS[RATES_BY_DEFAULT].rates
    as_usual = all((one.down.rate_bit_per_s, one.up.rate_bit_per_s) == usual for one in networks)
    return f"{rates} (as {RATES_BY_DEFAULT})" if as_usual else rates


def _rates(network: Network, ways: Iterable[str]) -> str:
    limits = ((way, getattr(network, way)) for way in ways)
    return ", ".join(
        f"{'trace' if one.trace_ms is not None else units.format_rate(one.rate_bit_per_s)} {way}"
        for way, one in limits
    )
