"""Report the comparison of two runs in a terminal, and build its sentences and tables for other reports."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from fastopen.analysis.attribution import PieceChange, request_name
from fastopen.analysis.comparison import (
    Basis,
    CellChange,
    Change,
    LimitCheck,
    LimitVerdict,
    Outcome,
    RunComparison,
)
from fastopen.common.grid import Column, Entry, Grid, Tone
from fastopen.common.grouping import grouped
from fastopen.common.phrases import (
    NBSP,
    capitalised,
    change,
    listed,
    nonzero_with_sign,
    plural,
    signed,
    span,
    with_sign,
)
from fastopen.common.terminal import STYLES, filled, tabled
from fastopen.report.shared_columns import MISSING, factor_entry, known

TONES: Final[dict[Outcome, Tone]] = {Outcome.FASTER: "good", Outcome.SLOWER: "bad"}
# The smallest change of a wait on the critical path that is reported, in milliseconds.
PIECE_MIN_MS: Final = 0.05
PIECES_NAMED: Final = 3
NAMED_MAX: Final = 6


def side_lines(compared: RunComparison) -> Iterator[str]:
    """Yield a line on each run (folder, label, status), and a sentence on the settings that differ."""
    for letter, side in (("A", compared.before), ("B", compared.after)):
        named = f" ({side.label})" if side.label else ""
        status = side.results.status
        unfinished = "" if status == "finished" else f": this run is {status}"
        yield f"{letter}: {side.place}{named}{unfinished}"
    differing = "; ".join(map(str, compared.settings))
    yield f"What differs: {differing}." if differing else "The settings of the runs do not differ."


def comparison_grids(compared: RunComparison) -> Iterator[Grid]:
    """Yield a table that compares both runs for each page, with a row for each network, setting and arm."""
    return (
        _grid(compared, page, list(cells)) for page, cells in groupby(compared.cells, lambda one: one.page)
    )


def _grid(compared: RunComparison, page: str, cells: Sequence[CellChange]) -> Grid:
    factors = compared.factors
    point = compared.before.results.factors.point
    spread = any(cell.basis is not Basis.EXACT for cell in cells)
    columns = (
        *(Column(factor.header, "factor") for factor in factors),
        Column("load", "key"),
        Column(f"PLT A{NBSP}\nms", short="PLT\nA ms"),
        Column(f"PLT B{NBSP}\nms", short="PLT\nB ms"),
        Column("B - A\nms", main_result=True),
        Column(f"B - A\n%{' [range]' if spread else ''}", short="\n%", main_result=True),
        Column("A saves\n%", short="saves\nA %"),
        Column("B saves\n%", short="\nB %"),
        Column("B - A\npoints", short="\npoints"),
    )
    rows = []
    for cell in cells:
        tone = TONES.get(cell.outcome, "quiet" if cell.outcome is Outcome.SAME else "")
        at = point(cell.before.cell)
        arm, sides = cell.before.cell.arm.short_label, (cell.before, cell.after)
        rows.append(
            (
                *(factor_entry(factor, at) for factor in factors),
                Entry(arm, value=arm),
                *(known(one.plt_ms_median) for one in sides),
                known(cell.plt.difference if cell.plt else None, _difference, tone),
                _percent(cell.plt, tone),
                *(known(one.improvement_percent, with_sign) for one in sides),
                known(cell.saving.difference if cell.saving else None, _difference),
            )
        )
    return Grid(page, columns, tuple(rows), note=_note(cells)).hoist_common_factors()


def _note(cells: Sequence[CellChange]) -> str:
    bases = {cell.basis for cell in cells}
    alike = any(one.difference == 0 for cell in cells for one in (cell.plt, cell.saving) if one)
    words = {
        Basis.EXACT: "=: the same to the nanosecond, in deterministic virtual time"
        if alike
        else "single loads, in deterministic virtual time",
        Basis.PAIRED: "medians over pairs of loads with the same samples",
        Basis.SAMPLES: "differences of medians of loads without pairs",
    }
    return capitalised(f"{'; '.join(words[basis] for basis in Basis if basis in bases)}.")


def _difference(value: float) -> str:
    return "=" if value == 0 else nonzero_with_sign(value)


def _percent(found: Change | None, tone: Tone) -> Entry:
    if found is None or found.percent is None:
        return Entry(MISSING)
    aside = ""
    if found.interval is not None and found.interval[0] != found.interval[1]:
        aside = f"[{signed(found.interval[0])} to {signed(found.interval[1])}]"
    return replace(known(found.percent, _difference, tone), aside=aside)


def verdict_line(compared: RunComparison) -> str:
    """Return a sentence with the numbers of results (cells) that are slower, faster or unchanged in the
    second run, and with the largest change. A cell is one page on one network with one setting and arm."""
    cells = compared.cells
    counts = Counter(cell.outcome for cell in cells)
    other = sum(cell.evidence_changed for cell in cells)
    if counts[Outcome.SAME] == len(cells) and not other:
        return f"Nothing changed: {plural(len(cells), 'cell')} the same to the nanosecond."
    parts = []
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        found = [cell.plt.percent for cell in cells if cell.outcome is outcome and cell.plt]
        if known := [abs(percent) for percent in found if percent is not None]:
            parts.append(f"{outcome} in {len(known)} of {plural(len(cells), 'cell')} (by {span(known, '%')})")
    parts += [
        f"{outcome} in {counts[outcome]}"
        for outcome in (Outcome.SAME, Outcome.HARDLY, Outcome.UNCLEAR, Outcome.UNKNOWN)
        if counts[outcome]
    ]
    evidence = f"; the evidence changed in {other} of {plural(len(cells), 'cell')}" if other else ""
    largest = max(cells, key=lambda cell: abs(_percent_of(cell)))
    most = f"; most: {largest.name}: {_plt_change(largest)}" if _percent_of(largest) else ""
    return f"B is {listed(parts)}{most}{evidence}."


def _percent_of(cell: CellChange) -> float:
    return 0.0 if cell.plt is None or cell.plt.percent is None else cell.plt.percent


def _plt_change(cell: CellChange) -> str:
    if cell.plt is None:
        return "not known"
    return f"{change(cell.plt.difference)} ({nonzero_with_sign(_percent_of(cell))}{NBSP}%)"


def changed_cells(compared: RunComparison) -> list[CellChange]:
    """Return the results that are slower or faster in the second of two runs, largest change first."""
    changed = [cell for cell in compared.cells if cell.outcome in (Outcome.SLOWER, Outcome.FASTER)]
    return sorted(changed, key=lambda cell: -abs(_percent_of(cell)))


def path_lines(compared: RunComparison) -> Iterator[str]:
    """Yield a line for each of the NAMED_MAX largest changes of page load time between two runs, with the
    changes on the critical path. If there are more changes, yield a line with their number."""
    cells = changed_cells(compared)
    for cell in cells[:NAMED_MAX]:
        if text := where_on_the_path(compared, cell):
            yield f"{cell.name}, {_plt_change(cell)}: {text}"
    if len(cells) > NAMED_MAX:
        yield f"{len(cells) - NAMED_MAX} more cells changed; --json and --html list all of them."


def where_on_the_path(compared: RunComparison, cell: CellChange) -> str:
    """Return sentences on the difference between a result's critical paths in two runs: by kind of wait, and
    by request. Empty if a path is unknown, or if each kind of wait changed by less than PIECE_MIN_MS."""
    kinds = {} if cell.paths is None else cell.paths[0].changes_ms(cell.paths[1], PIECE_MIN_MS)
    if not kinds:
        return ""
    ordered = sorted(kinds, key=lambda kind: -abs(kinds[kind]))
    text = f"on the critical path {listed([f'{kind} {change(kinds[kind])}' for kind in ordered])}"
    text += "".join(f"; {part}" for part in _requests(compared, cell))
    return f"{text}. {capitalised(cell.reason)}." if cell.reason else f"{text}."


def _requests(compared: RunComparison, cell: CellChange) -> Iterator[str]:
    """Yield clauses on requests whose waits changed most, and on requests on only one run's critical path."""
    page = compared.after.results.pages[cell.after.cell.page]
    largest: dict[str, PieceChange] = {}
    for piece in cell.pieces:
        if piece.on_both and abs(piece.change_ns) >= PIECE_MIN_MS * 1e6:
            largest.setdefault(piece.url, piece)
    named = []
    for piece in [*largest.values()][:PIECES_NAMED]:
        name = piece.url if piece.request is None else request_name(page, piece.request)
        named.append(f"{name} ({piece.kind} {change(piece.change_ns / 1e6)})")
    if named:
        yield f"among its requests most at {listed(named)}"
    others = [piece for piece in cell.pieces if not piece.on_both]
    if others:
        urls = [{one.url for one in others if getattr(one, f"{run}_ns")} for run in ("before", "after")]
        by_ms = sum(piece.change_ns for piece in others) / 1e6
        yield (
            f"it goes over {plural(len(urls[1]), 'other request')} in B, instead of {len(urls[0])} in A"
            f" ({change(by_ms)})"
        )


def evidence_lines(compared: RunComparison) -> Iterator[str]:
    """Yield a line for each result whose loads should be the same in both runs, but differ in invalid loads,
    SYN data, or retransmissions. After NAMED_MAX lines, yield only the number of further results."""
    cells = [cell for cell in compared.cells if cell.evidence_changed]
    for cell in cells[:NAMED_MAX]:
        texts = []
        for one in (cell.before, cell.after):
            segments = "unknown" if one.retransmitted is None else plural(one.retransmitted, "segment")
            invalid = f"{one.invalid} of {plural(one.loads, 'load')} invalid"
            syn_data = f"SYN data on {one.syn_data_connections} of {one.connections}"
            texts.append((invalid, syn_data, f"{segments} retransmitted"))
        changed = [f"{was} in A, {now} in B" for was, now in zip(*texts, strict=True) if was != now]
        yield f"Evidence of {cell.name}: {'; '.join(changed)}."
    if len(cells) > NAMED_MAX:
        more = len(cells) - NAMED_MAX
        yield f"The evidence of {more} more cells changed; fastopen compare --json lists all of it."


def unshared_lines(compared: RunComparison) -> Iterator[str]:
    """Yield a line for each run with results that the other lacks. A line names at most NAMED_MAX results."""
    for letter, names in (("A", compared.only_before), ("B", compared.only_after)):
        if names:
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            yield f"Only in {letter}: {'; '.join(names[:NAMED_MAX])}{more}."


def check_lines(checks: Sequence[LimitCheck]) -> Iterator[tuple[str, Tone]]:
    """Yield (line, colour) for each limit on changes, and then for each change that exceeds, or may exceed,
    this limit. The colour is `bad` for failures, `notable` for unclear or unknown changes, else `good`."""
    for limit, own in grouped((check.limit, check) for check in checks).items():
        counts = Counter(check.verdict for check in own)
        said = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in LimitVerdict if counts[verdict])
        failed = any(check.failed for check in own)
        yield f"{limit.text}: {said} of {plural(len(own), 'cell')}", "bad" if failed else "good"
        for check in own:
            if check.verdict is not LimitVerdict.HOLDS:
                line = f"  {check.verdict}: {check.change.name}: {check_words(check)}"
                yield line, "bad" if check.failed else "notable"


def check_words(check: LimitCheck) -> str:
    """Return the change of page load time or saving that `check` compared with a limit, and its interval, as
    text. If the change is unknown, return the number of invalid loads of the second run."""
    found = check.change.plt if check.limit.measure == "plt" else check.change.saving
    if found is None:
        loads = check.change.after
        return f"{loads.invalid} of {loads.loads} loads of B are invalid"
    text = f"saving {nonzero_with_sign(found.difference)} points"
    if found.percent is not None:
        text = f"PLT {_plt_change(check.change)}"
    if found.interval is None:
        return f"{text}; too few loads for an interval"
    if found.interval[0] != found.interval[1]:
        sure = "range" if found.confidence is None else f"{100 * found.confidence:.0f}{NBSP}% sure"
        text += f", {sure} {with_sign(found.interval[0])} to {with_sign(found.interval[1])}"
    return text


def comparison_renderables(
    compared: RunComparison, checks: Sequence[LimitCheck], width: int
) -> Iterator[RenderableType]:
    """Yield the sentences and tables of a comparison, for a terminal with `width` columns."""
    yield from filled(side_lines(compared), width, indent="   ")
    yield Text()
    grids = list(comparison_grids(compared))
    for grid in grids:
        yield from tabled(grid, width)
    yield from filled([verdict_line(compared)], width, "bold")
    yield from filled(path_lines(compared), width, indent="  ")
    yield from filled(evidence_lines(compared), width, "yellow", indent="  ")
    yield from filled(unshared_lines(compared), width, "yellow", indent="  ")
    yield from filled(dict.fromkeys(grid.note for grid in grids), width, "dim")
    for line, tone in check_lines(checks):
        yield from filled([line], width, STYLES[tone], indent="    ")
