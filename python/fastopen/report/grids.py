"""The tables of a run as rows of text, the same for HTML, Markdown and LaTeX."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fastopen.attribution import Kind
from fastopen.attribution.phrases import MINUS
from fastopen.figures import Source
from fastopen.statistics import CellResult

MISSING: Final = "-"
Tone = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class Text:
    """What stands in a cell. `tone`: good where TFO is surely sooner, bad where it is surely later."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Grid:
    """A table. The first `heads` columns say what a row is about, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    heads: int = 1
    note: str = ""
    in_words: bool = False
    """Whether the other columns are words, not figures."""


def result_grid(source: Source, page: str) -> Grid:
    """A row for each comparison of a page: times, improvements, proof, and how many loads that comes from."""
    results = source.results
    axes, arms = results.axes, results.experiment.arms
    on = [name for name in arms if name != "off"]
    gaining = on if "off" in arms else []
    columns = [axis.header.replace("-\n", "").replace("\n", " ") for axis in axes.varying]
    heads = len(columns)
    columns += [f"PLT {name} s" for name in arms]
    columns += [f"{name} saves % [95 %]" for name in gaining]
    columns += [f"SYN data {name}" for name in on]
    rows = []
    for comparison, cells in results.comparisons(page).items():
        of = {result.cell.arm.name: result for result in cells}
        point = axes.point(comparison)
        rows.append(
            (
                *(Text(axis.shown(point)) for axis in axes.varying),
                *(Text(seconds(of[name].plt_ms_median)) for name in arms),
                *(gain(of[name]) for name in gaining),
                *(Text(f"{of[name].syn_data_connections}/{of[name].connections}") for name in on),
                Text(_range([cell.loads - cell.invalid for cell in cells])),
            )
        )
    return Grid(page, (*columns, "n"), tuple(rows), heads)


def published_grid(source: Source) -> Grid | None:
    """Ours beside theirs; None where nothing was published."""
    rows = []
    for page in source.results.pages:
        for place in source.places(page):
            theirs = source.results.published.get((page, place.comparison.network))
            if theirs is None:
                continue
            off, on = place.off, place.on
            rows.append(
                (
                    Text(page),
                    Text(place.name),
                    Text(f"{theirs.plt_off:g} {theirs.unit_as_printed}"),
                    Text(f"{theirs.plt_tfo:g} {theirs.unit_as_printed}"),
                    Text(f"{theirs.improvement_percent_as_printed:g}"),
                    Text(seconds(off.plt_ms_median if off else None)),
                    Text(seconds(on.plt_ms_median if on else None)),
                    gain(on) if on else Text(MISSING),
                )
            )
    if not rows:
        return None
    names = ("theirs off", "theirs TFO", "theirs saves %", "ours off s", "ours TFO s", "ours saves % [95 %]")
    sources = dict.fromkeys(cell.source for cell in source.results.published.values())
    return Grid(
        "Beside the published figures", ("page", "network", *names), tuple(rows), 2, "; ".join(sources)
    )


def path_grid(source: Source) -> Grid:
    """The mean critical path of each cell in milliseconds."""
    rows = []
    for page in source.results.pages:
        for place in source.places(page):
            for arm, path in place.breakdowns.items():
                times = (path.kinds_ms[kind] for kind in Kind)
                figures = (path.plt_ms, *times, path.ready_ms)
                rows.append(
                    (
                        *(Text(head) for head in (page, place.name, arm)),
                        *(Text(f"{figure:.0f}") for figure in figures),
                        Text(f"{path.handshakes:.1f}"),
                        Text(str(path.loads)),
                    )
                )
    columns = ("page", "network", "arm", "PLT", *Kind, "ready", "handshakes", "loads")
    note = (
        "Means in ms; the kinds add up to the PLT. Ready: for how long a request on the path was known and"
        " only waited for a connection. Handshakes: how many stood on the path."
    )
    return Grid("The critical path in figures", tuple(str(name) for name in columns), tuple(rows), 3, note)


def evidence_grid(source: Source) -> Grid:
    """What the kernels said of each cell, and what the network measured."""
    results = source.results
    axes = results.axes
    rows = []
    for result in results.cells:
        cell = result.cell
        measured = results.measured_rtt_ms.get((cell.page, cell.network))
        proof = "" if cell.arm.transport == "tcp" else _share(result.syn_data_connections, result.connections)
        rows.append(
            (
                *(Text(head) for head in (cell.page, axes.name(cell), cell.arm.name)),
                Text(f"{result.syn_data_connections}/{result.connections}"),
                Text(proof or MISSING),
                Text(MISSING if measured is None else f"{measured:.2f}"),
                Text(MISSING if result.retransmitted is None else f"{result.retransmitted:g}"),
                Text(MISSING if result.effect is None else signed(result.effect, 2)),
                Text(str(len(result.outliers))),
                Text(f"{result.loads - result.invalid}/{result.loads}", "bad" if result.invalid else ""),
            )
        )
    columns = ("SYN data", "share", "RTT measured ms", "sent again", "effect", "outliers", "valid")
    note = (
        "SYN data: connections whose SYN carried data that the other end acknowledged (TCPI_OPT_SYN_DATA), of"
        " all. Sent again: segments a load by both ends, median. Effect: matched-pairs rank-biserial"
        " correlation, 1 where every pair got faster. Outliers are in every figure."
    )
    return Grid("Evidence of each cell", ("page", "network", "arm", *columns), tuple(rows), 3, note)


def invalid_grid(source: Source) -> Grid | None:
    """Loads that count for nothing, with why: invalid ones, and attempts that were done again."""
    axes = source.results.axes
    rows = []
    for result in source.results.cells:
        heads = (result.cell.page, axes.name(result.cell), result.cell.arm.name)
        for what, reasons in (("invalid", result.reasons), ("done again", result.repeated)):
            rows += [
                (
                    *(Text(head) for head in heads),
                    Text(what),
                    Text(str(one.loads)),
                    Text(one.kind),
                    Text(one.example),
                )
                for one in reasons
            ]
    if not rows:
        return None
    columns = ("page", "network", "arm", "what", "loads", "kind", "for example")
    return Grid("Loads that do not count", columns, tuple(rows), 3, in_words=True)


def all_grids(source: Source) -> Iterator[Grid]:
    """Every table, in order."""
    for page in source.results.pages:
        yield result_grid(source, page)
    for grid in (published_grid(source), path_grid(source), evidence_grid(source), invalid_grid(source)):
        if grid is not None:
            yield grid


def seconds(milliseconds: float | None) -> str:
    """`1.648`, or a hyphen."""
    return MISSING if milliseconds is None else f"{milliseconds / 1000:.3f}"


def signed(value: float, digits: int = 1) -> str:
    """With its sign, a true minus among them; never minus zero."""
    rounded = round(value, digits) or 0.0
    return f"{MINUS if rounded < 0 else '+'}{abs(rounded):.{digits}f}"


def gain(result: CellResult) -> Text:
    """`+3.1 [+3.1, +3.3]`; without noise no interval."""
    if result.improvement_percent is None:
        return Text(MISSING)
    text = signed(result.improvement_percent)
    if result.deterministic:
        tone: Tone = (
            "good" if result.improvement_percent > 0 else "bad" if result.improvement_percent < 0 else ""
        )
        return Text(f"{text} [no noise]", tone)
    if result.improvement_ci95 is None:
        return Text(f"{text} [few n]")
    low, high = result.improvement_ci95
    return Text(
        f"{text} [{signed(low)}, {signed(high)}]", "good" if low > 0 else "bad" if high < 0 else "quiet"
    )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
