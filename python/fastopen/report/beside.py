"""Published figures beside ours: a table cell by cell, and in words where and why they part."""

import textwrap
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fastopen.statistics import Growth, Mark, Parting, Results, growths, partings

MISSING: Final = "-"
# So many cells are named one by one; of more, the worst.
NAMED: Final = 3
# What takes so many times as long, or grows so many times as fast, is another load.
OTHER_LOAD: Final = 1.5

LEGEND: Final = {
    Mark.SLOWER: "their times are longer with TFO than without",
    Mark.UNSIGNED: "their table prints the size of the difference without its sign",
    Mark.MISPRINTED: "the printed improvement is not that of the printed times",
    Mark.IMPOSSIBLE: (
        "theirs saves more than half, but each handshake is followed by a request, which takes as long"
    ),
    Mark.BEYOND: "theirs saves more than all handshakes in a row took in ours",
    Mark.OURS_BEYOND: "ours saves more than its handshakes in a row took, see above",
    Mark.AGREES: "the improvements differ by 3 points at most",
}
# What was printed is shown with these.
OF_PRINT: Final = (Mark.UNSIGNED, Mark.MISPRINTED)
# For a terminal of 80 columns.
SHORT: Final = {
    Mark.SLOWER: "slower",
    Mark.UNSIGNED: "unsigned",
    Mark.MISPRINTED: "misprint",
    Mark.IMPOSSIBLE: "over half",
    Mark.BEYOND: "too much",
    Mark.OURS_BEYOND: "ours: much",
    Mark.AGREES: "agrees",
    Mark.THEIRS_MORE: "theirs more",
    Mark.OURS_MORE: "ours more",
}


def beside_renderables(results: Results, width: int, *, narrow: bool) -> Iterator[RenderableType]:
    """Everything that is printed of the published figures; `narrow` where marks have to be short."""
    found = partings(results)
    if not found:
        return
    sources = dict.fromkeys(one.theirs.source for one in found)
    title = f"Beside the published figures: {'; '.join(sources)}"
    yield Text(textwrap.fill(title, width, subsequent_indent="  "), style="bold")
    yield _table(results, found, narrow=narrow)
    for line in parting_words(results, found, narrow=narrow):
        yield Text(textwrap.fill(line, width, subsequent_indent="  "))
    yield Text()


def _table(results: Results, found: list[Parting], *, narrow: bool) -> Table:
    # Columns are a space apart by the box alone.
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0 if narrow else 1, 0, 0), pad_edge=False)
    # A published experiment varies in its networks alone.
    factors = [factor for factor in results.factors.varying if factor.name in ("down", "rtt")]
    table.add_column("page", no_wrap=True, vertical="bottom")
    for factor in factors:
        table.add_column(factor.header, justify="right", no_wrap=True)
    percent = "\n%" if narrow else " %"
    for who in ("theirs", "ours"):
        table.add_column(f"{who}\noff s", justify="right", no_wrap=True)
        table.add_column(f"{who}\nTFO s", justify="right", no_wrap=True)
        table.add_column(f"{who}\nsaves{percent}", justify="right", no_wrap=True)
    table.add_column("at\nmost\n%" if narrow else "ours at\nmost %", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    earlier = [None, *(one.comparison.page for one in found)]
    following = [*(one.comparison.page for one in found[1:]), None]
    for one, before, after in zip(found, earlier, following, strict=False):
        page, point = one.comparison.page, results.factors.point(one.comparison)
        table.add_row(
            page if page != before else "",
            *(factor.text_at(point) for factor in factors),
            _seconds(one.theirs.off_ms),
            _seconds(one.theirs.tfo_ms),
            f"{one.theirs.improvement_percent:+.1f}",
            _seconds(one.off.plt_ms_median if one.off else None),
            _seconds(one.warm.plt_ms_median if one.warm else None),
            _percent(one.warm.improvement_percent if one.warm else None, "+.1f"),
            _percent(one.at_most_percent, ".1f"),
            _marks(one, narrow=narrow),
            end_section=after is not None and after != page,
        )
    return table


def _marks(one: Parting, *, narrow: bool) -> Text:
    texts = mark_texts(one, narrow=narrow)
    agrees = one.marks == (Mark.AGREES,)
    style = "green" if agrees else "yellow" if len(texts) > 1 else ""
    return Text(("\n" if narrow else ", ").join(texts), style=style)


def mark_texts(one: Parting, *, narrow: bool = False) -> list[str]:
    """The marks of a cell in words; what was printed stands with the marks that are about the print."""
    printed = f"{one.theirs.improvement_percent_as_printed:.3g}"
    if narrow:
        return [f"{SHORT[mark]} {printed}" if mark in OF_PRINT else SHORT[mark] for mark in one.marks]
    return [f"{mark} ({printed})" if mark in OF_PRINT else str(mark) for mark in one.marks]


def parting_words(results: Results, found: list[Parting], *, narrow: bool = False) -> list[str]:
    """Where they part and why: counts, bounds, round trips, and what is known of the source."""
    used = {mark for one in found for mark in one.marks}
    lines = [_counts(found)]
    names = {mark: SHORT[mark] if narrow else str(mark) for mark in Mark if mark in used}
    lines += [
        f"{name[0].upper()}{name[1:]}: {LEGEND[mark]}." for mark, name in names.items() if mark in LEGEND
    ]
    lines += _beyond(results, found)
    grown = {growth.page: growth for growth in growths(found, results)}
    pages = dict.fromkeys(one.comparison.page for one in found)
    lines += [line for page in pages if (line := _of_times(page, found, grown.get(page)))]
    table = results.experiment.published
    known = table.known if table is not None else []
    return lines + (["Known of the source:"] if known else []) + [f"- {sentence}" for sentence in known]


def _counts(found: list[Parting]) -> str:
    compared = [one for one in found if one.warm is not None and one.warm.improvement_percent is not None]
    agree = sum(Mark.AGREES in one.marks for one in compared)
    parted = [one for one in compared if Mark.AGREES not in one.marks]
    more = sum(one.theirs.improvement_percent > _ours(one) for one in parted)
    if not compared:
        return "Nothing valid of ours stands beside them."
    return (
        f"Of {len(compared)} cells, {agree} {'agrees' if agree == 1 else 'agree'}; "
        f"theirs saves more in {more} of the others, ours in {len(compared) - agree - more}."
    )


def _ours(one: Parting) -> float:
    gain = one.warm.improvement_percent if one.warm is not None else None
    assert gain is not None
    return gain


def _beyond(results: Results, found: list[Parting]) -> Iterator[str]:
    """The worst of the cells in which theirs saved more than our handshakes took."""
    beyond = [one for one in found if Mark.BEYOND in one.marks or Mark.IMPOSSIBLE in one.marks]
    worst = sorted(beyond, key=lambda one: one.theirs.improvement_percent, reverse=True)[:NAMED]
    for one in worst:
        rtt_ms = results.experiment.networks[one.comparison.network].rtt_us / 1000
        took_ms = one.warm.handshakes_ms if one.warm is not None else None
        ours = "" if took_ms is None else f"; in ours, handshakes in a row took {_trips(took_ms, rtt_ms)}"
        yield (
            f"{one.comparison.page} at {results.factors.name(one.comparison)}: theirs saves "
            f"{_trips(one.theirs_saved_ms, rtt_ms)}{ours}."
        )


def _trips(milliseconds: float, rtt_ms: float) -> str:
    return f"{milliseconds / 1000:.3g} s ({milliseconds / rtt_ms:.3g} RTTs)"


def _of_times(page: str, found: list[Parting], growth: Growth | None) -> str:
    """How the times of a page without TFO part, and whether round trips in a row are why; else empty."""
    said = []
    ratios = [one.theirs_longer for one in found if one.comparison.page == page]
    known = [ratio for ratio in ratios if ratio is not None]
    if known and (max(known) > OTHER_LOAD or min(known) < 1 / OTHER_LOAD):
        low, high = f"{min(known):.2g}", f"{max(known):.2g}"
        said.append(f"theirs takes {low if low == high else f'{low} to {high}'} times as long as ours")
    if growth is not None and not 1 / OTHER_LOAD <= growth.theirs / max(growth.ours, 0.1) <= OTHER_LOAD:
        more = "more" if growth.theirs > growth.ours else "fewer"
        said.append(
            f"each ms of RTT adds {growth.theirs:.3g} ms to theirs and {growth.ours:.3g} to ours, so theirs"
            f" waits for {more} round trips in a row (another page, client or server, or time-outs)"
        )
    return f"{page} without TFO: {'; '.join(said)}." if said else ""


def _seconds(milliseconds: float | None) -> str:
    return MISSING if milliseconds is None else f"{milliseconds / 1000:.3f}"


def _percent(value: float | None, form: str) -> str:
    return MISSING if value is None else format(round(value, 1) or 0.0, form)
