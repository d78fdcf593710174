"""The tables of a run as Rich prints them: one a page, and one beside published figures."""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fastopen import units
from fastopen.contract import RateLimit
from fastopen.experiments import Experiment, asked_for
from fastopen.experiments.factors import RTT, Factor, Point
from fastopen.report.beside import beside_renderables
from fastopen.report.browsed import kept_lines, unshown_lines
from fastopen.report.certainty import certainty_lines
from fastopen.report.verdict import NO_NOISE, page_verdict
from fastopen.statistics import CellResult, Results

MISSING: Final = "-"
REASON_WIDTH: Final = 160
# Fewer values than this lie on one side of their median too often (2 * 0.5^n > 5 %).
PAIRS_FOR_AN_INTERVAL: Final = 6
# From so many columns on, an interval has room beside its figure; below it stands under it.
WIDE: Final = 96
# Wider than any table: tells how wide one would be.
MEASURE: Final = Console(width=10_000)


def results_renderables(results: Results, width: int) -> Iterator[RenderableType]:
    """Everything that is printed of a run, in order, for a terminal of so many columns."""
    for page in results.pages:
        yield _page_table(results, page, width)
        # Rich breaks lines at no-break spaces too.
        yield Text(textwrap.fill(page_verdict(results, page), width))
        for line in _beyond_the_bound(results, page):
            yield Text(textwrap.fill(line, width), style="yellow")
        for line in _asked_for_less(results, page):
            yield Text(textwrap.fill(line, width), style="dim")
        for line in kept_lines(results, page):
            yield Text(textwrap.fill(line, width), style="dim")
        for line in unshown_lines(results, page):
            yield Text(textwrap.fill(line, width), style="yellow")
        yield from _problems(results, page)
        yield Text()
    yield from beside_renderables(results, width, narrow=width < WIDE)
    for line in certainty_lines(results):
        yield Text(textwrap.fill(line, width), style="dim")
    yield Text(_closing(results), style="dim")


def _page_table(results: Results, page: str, width: int) -> Table:
    """A column for each factor; where that is too wide, all but the RTT in one, of words on several lines."""
    varying = results.factors.varying
    table = _filled(results, page, [_of_factor(factor) for factor in varying], narrow=width < WIDE)
    others = [factor for factor in varying if factor != RTT]
    if not others or Measurement.get(MEASURE, MEASURE.options, table).maximum <= width:
        return table
    words = _Place("", lambda point: ", ".join(factor.phrase_at(point) for factor in others), in_words=True)
    places = [words, *(_of_factor(factor) for factor in varying if factor == RTT)]
    return _filled(results, page, places, narrow=width < WIDE)


@dataclass(frozen=True)
class _Place:
    """A column that says where a row stands."""

    header: str
    shown: Callable[[Point], str]
    in_words: bool = False


def _of_factor(factor: Factor) -> _Place:
    return _Place(factor.header, factor.text_at)


def _filled(results: Results, page: str, places: Sequence[_Place], *, narrow: bool) -> Table:
    experiment = results.experiment
    factors = results.factors
    in_seconds = _largest_plt_ms(results, page) >= 1000
    unit = "s" if in_seconds else "ms"
    on = [name for name in experiment.arms if name != "off"]
    gaining = on if "off" in experiment.arms else []
    title = _fixed_rates(results)
    if results.pages[page].initiators in ("inferred", "mixed"):
        title += f"  (initiators {results.pages[page].initiators})"
    table = _table(Text.assemble((page, "bold"), title))
    for place in places:
        justify: JustifyMethod = "left" if place.in_words else "right"
        table.add_column(place.header, justify=justify, no_wrap=not place.in_words, overflow="fold")
    for name in experiment.arms:
        table.add_column(f"PLT\n{name} {unit}", justify="right", no_wrap=True)
    # Words need room: headers take more lines, and fewer columns.
    tall = any(place.in_words for place in places)
    headers = []
    for name in gaining:
        sure = all(cell.deterministic for cell in results.cells if _is(cell, page, name))
        headers.append(f"{name} saves\n%{'' if sure else ' [95 %]'}")
    headers += [f"SYN data\n{name}" for name in on]
    for header in headers:
        split = header.replace(" saves", "\nsaves").replace("SYN ", "SYN\n")
        table.add_column(split if tall else header, justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    for row, arms in results.comparisons(page).items():
        cells = {result.cell.arm.name: result for result in arms}
        table.add_row(
            *(place.shown(factors.point(row)) for place in places),
            *(_plt(cells[name].plt_ms_median, in_seconds) for name in experiment.arms),
            *(_gain(cells[name], narrow=narrow) for name in gaining),
            *(f"{cells[name].syn_data_connections}/{cells[name].connections}" for name in on),
            _range([cell.loads - cell.invalid for cell in cells.values()]),
        )
    return table


def _is(cell: CellResult, page: str, arm: str) -> bool:
    return cell.cell.page == page and cell.cell.arm.name == arm


def _fixed_rates(results: Results) -> str:
    """The rates that are the same in every row."""
    varying = {factor.name for factor in results.factors.varying}
    network = results.experiment.networks[0]
    rates = {"down": network.down, "up": network.up}
    return "  " + ", ".join(f"{_rate(rate)} {way}" for way, rate in rates.items() if way not in varying)


def _table(title: Text) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _problems(results: Results, page: str) -> Iterator[Text]:
    """A line for each reason and network with the arms whose loads it struck."""
    for row, cells in results.comparisons(page).items():
        struck: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for cell in cells:
            for reason in cell.reasons:
                struck[reason.kind, reason.example][cell.cell.arm.name] = reason.loads
        where = f"RTT {results.factors.name(row)}"
        for (kind, example), arms in struck.items():
            counts = ", ".join(f"{loads} {arm}" for arm, loads in arms.items())
            line = f"{where}: invalid loads: {counts}: {kind}: {example}"
            yield Text(line if len(line) <= REASON_WIDTH else line[: REASON_WIDTH - 1] + "…", style="yellow")
        missing = {cell.cell.arm.name: cell.asked - cell.loads for cell in cells}
        counts = ", ".join(f"{loads} {arm}" for arm, loads in missing.items() if loads)
        if counts:
            yield Text(f"{where}: loads not done: {counts}", style="yellow")


def _beyond_the_bound(results: Results, page: str) -> Iterator[str]:
    """A line for each network over which warm TFO saved more than handshakes took, with what differed."""
    for row, cells in results.comparisons(page).items():
        arms = {cell.cell.arm.name: cell for cell in cells}
        off, warm = arms.get("off"), arms.get("warm")
        if off is None or warm is None or not warm.beats_bound:
            continue
        yield (
            f"RTT {results.factors.name(row)}: warm TFO saved {warm.saved_ms:.0f} ms, but the handshakes in a"
            f" row took {warm.handshakes_ms:.0f} ms at most. The rest has other causes: segments sent again a"
            f" load {off.retransmitted:g} without, {warm.retransmitted:g} with TFO."
        )


def _asked_for_less(results: Results, page: str) -> Iterator[str]:
    """A line for each client that did not get all that the load event waits for."""
    wanted = len(asked_for(results.pages[page]))
    least: dict[str, float] = {}
    for result in results.cells:
        client = results.experiment.setups[result.cell.setup].client
        if result.cell.page == page and client.kind != "loader" and result.requests is not None:
            least[client.label] = min(result.requests, least.get(client.label, result.requests))
    for name, requests in least.items():
        if requests < wanted:
            yield f"{name} asked for {requests:g} of the {wanted} resources that the load event waits for."


def _closing(results: Results) -> str:
    experiment = results.experiment
    lines = []
    measured: list[str] = []
    of_asked: dict[int, list[float]] = defaultdict(list)
    for (_, index), rtt in results.measured_rtt_ms.items():
        of_asked[experiment.networks[index].rtt_us].append(rtt)
    for asked_us, rtts in sorted(of_asked.items()):
        ends = dict.fromkeys(f"{rtt:.2f}" for rtt in (min(rtts), max(rtts)))
        measured.append(f"{' to '.join(ends)} for {_ms(asked_us)} asked")
    if measured:
        lines.append(f"RTT measured in the worlds (ms): {'; '.join(measured)}.")
    engines = sorted({result.cell.engine for result in results.cells})
    compared = [result for result in results.cells if result.improvement_percent is not None]
    interval = (
        "" if compared and all(result.deterministic for result in compared) else ", with its 95 % interval"
    )
    lines.append(
        f"PLT: median page load time. Saves: median over paired repeats of (off - on) / off{interval}. "
        "SYN data: connections that carried data in their SYN, of all. n: valid loads. "
        f"Engine {', '.join(engines)}, client {', '.join(_clients(experiment))}, "
        f"seed {experiment.seed}."
    )
    if any(result.deterministic for result in compared):
        lines.append(NO_NOISE)
    if any(result.pairs < PAIRS_FOR_AN_INTERVAL and not result.deterministic for result in compared):
        lines.append(
            f"With fewer than {PAIRS_FOR_AN_INTERVAL} repeats intervals are narrower than the truth: "
            "repeat more often."
        )
    if results.status != "finished":
        lines.append(f"This run is {results.status}: what it did not load is missing above.")
    return "\n".join(lines)


def _clients(experiment: Experiment) -> list[str]:
    """`loader (browser)`, `curl`: each client once, the loader with its profile."""
    clients = [setup.client for setup in experiment.setups]
    return list(
        dict.fromkeys(
            f"{client.label} ({client.profile})" if client.kind == "loader" else client.label
            for client in clients
        )
    )


def _largest_plt_ms(results: Results, page: str) -> float:
    return max((r.plt_ms_median or 0.0 for r in results.cells if r.cell.page == page), default=0.0)


def _plt(milliseconds: float | None, in_seconds: bool) -> str:
    if milliseconds is None:
        return MISSING
    return f"{milliseconds / 1000:.3f}" if in_seconds else f"{milliseconds:.1f}"


def _gain(result: CellResult, *, narrow: bool) -> Text:
    if result.improvement_percent is None:
        return Text(MISSING)
    text, between = _signed(result.improvement_percent), "\n" if narrow else " "
    if result.deterministic:
        shown = round(result.improvement_percent, 1)
        return Text(text, style="green" if shown > 0 else "red" if shown < 0 else "dim")
    if result.improvement_ci95 is None:
        return Text(f"{text}{between}[few n]")
    low, high = result.improvement_ci95
    style = "green" if low > 0 else "red" if high < 0 else "dim"
    return Text(f"{text}{between}[{_tenth(low)}, {_tenth(high)}]", style=style)


def _signed(percent: float) -> str:
    """`+4.0`, `-4.0`, but never `-0.0`."""
    return f"{round(percent, 1) or 0.0:+.1f}"


def _tenth(percent: float) -> str:
    return f"{round(percent, 1) or 0.0:.1f}"


def _range(counts: Sequence[int]) -> str:
    """`10`, or `8-10` where the arms differ."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _rate(limit: RateLimit) -> str:
    return "trace" if limit.trace_ms is not None else units.format_rate(limit.rate_bit_per_s)


def _ms(microseconds: int) -> str:
    return f"{microseconds / 1000:g}"
