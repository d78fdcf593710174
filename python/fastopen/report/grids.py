"""The tables of a run as rows of text, the same for HTML, Markdown and LaTeX."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fastopen.attribution import Kind
from fastopen.attribution.phrases import NBSP, with_sign
from fastopen.figures import Source
from fastopen.report.beside import mark_texts
from fastopen.report.verdict import NO_NOISE
from fastopen.statistics import CellResult, Mark, partings

MISSING: Final = "-"
INTERVAL: Final = f" [95{NBSP}%]"
Tone = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class Text:
    """What stands in a cell. `tone`: good where TFO is surely sooner, bad where it is surely later."""

    text: str
    tone: Tone = ""
    aside: str = ""
    """What goes with a figure, such as its interval: where room is short it stands below."""
    words: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.aside}".rstrip()


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
    factors, arms = results.factors, results.experiment.arms
    on = [name for name in arms if name != "off"]
    gaining = on if "off" in arms else []
    columns = [factor.header.replace("-\n", "").replace("\n", " ") for factor in factors.varying]
    heads = len(columns)
    columns += [f"PLT {name}{NBSP}s" for name in arms]
    told = [cell for cell in results.cells if cell.cell.page == page and cell.improvement_percent is not None]
    exact = bool(told) and all(cell.deterministic for cell in told)
    columns += [f"{name} saves{NBSP}%{'' if exact else INTERVAL}" for name in gaining]
    columns += [f"SYN{NBSP}data {name}" for name in on]
    rows = []
    for comparison, cells in results.comparisons(page).items():
        of = {result.cell.arm.name: result for result in cells}
        point = factors.point(comparison)
        rows.append(
            (
                *(Text(factor.text_at(point)) for factor in factors.varying),
                *(Text(seconds(of[name].plt_ms_median)) for name in arms),
                *(gain(of[name]) for name in gaining),
                *(Text(f"{of[name].syn_data_connections}/{of[name].connections}") for name in on),
                Text(_range([cell.loads - cell.invalid for cell in cells])),
            )
        )
    note = NO_NOISE if any(cell.deterministic for cell in told) else ""
    return Grid(page, (*columns, "n"), tuple(rows), heads, note)


def published_grid(source: Source) -> Grid | None:
    """Ours beside theirs, theirs as it must have been meant; None where nothing was published."""
    results = source.results
    found = partings(results)
    if not found:
        return None
    rows = [
        (
            Text(one.comparison.page),
            Text(results.factors.name(one.comparison)),
            Text(seconds(one.theirs.off_ms)),
            Text(seconds(one.theirs.tfo_ms)),
            Text(with_sign(one.theirs.improvement_percent)),
            Text(seconds(one.off.plt_ms_median if one.off else None)),
            Text(seconds(one.warm.plt_ms_median if one.warm else None)),
            gain(one.warm) if one.warm else Text(MISSING),
            Text(MISSING if one.at_most_percent is None else f"{one.at_most_percent:.1f}"),
            Text(", ".join(mark_texts(one)), "good" if one.marks == (Mark.AGREES,) else "", words=True),
        )
        for one in found
    ]
    saves = f"saves{NBSP}%"
    theirs = (f"theirs off{NBSP}s", f"theirs TFO{NBSP}s", f"theirs {saves}")
    ours = (f"ours off{NBSP}s", f"ours TFO{NBSP}s", f"ours {saves}{INTERVAL}", f"ours at most{NBSP}%")
    sources = dict.fromkeys(one.theirs.source for one in found)
    note = f"Theirs: {'; '.join(sources)}. At most: what our handshakes in a row took of our page load time."
    columns = ("page", "network", *theirs, *ours, "beside each other")
    return Grid("Beside the published figures", columns, tuple(rows), 2, note)


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
    factors = results.factors
    rows = []
    for result in results.cells:
        cell = result.cell
        measured = results.measured_rtt_ms.get((cell.page, cell.network))
        proof = "" if cell.arm.cookies is None else _share(result.syn_data_connections, result.connections)
        rows.append(
            (
                *(Text(head) for head in (cell.page, factors.name(cell), cell.arm.name)),
                Text(f"{result.syn_data_connections}/{result.connections}"),
                Text(proof or MISSING),
                Text(MISSING if measured is None else f"{measured:.2f}"),
                Text(MISSING if result.retransmitted is None else f"{result.retransmitted:g}"),
                Text(MISSING if result.effect is None else with_sign(result.effect, 2)),
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
    factors = source.results.factors
    rows = []
    for result in source.results.cells:
        heads = (result.cell.page, factors.name(result.cell), result.cell.arm.name)
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


def gain(result: CellResult) -> Text:
    """`+3.1` with its interval `[+3.1, +3.3]` aside; without noise no interval."""
    if result.improvement_percent is None:
        return Text(MISSING)
    text = with_sign(result.improvement_percent)
    if result.deterministic:
        shown = round(result.improvement_percent, 1)
        return Text(text, "good" if shown > 0 else "bad" if shown < 0 else "quiet")
    if result.improvement_ci95 is None:
        return Text(text, aside="[few n]")
    low, high = result.improvement_ci95
    tone: Tone = "good" if low > 0 else "bad" if high < 0 else "quiet"
    return Text(text, tone, f"[{with_sign(low)},{NBSP}{with_sign(high)}]")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
