"""Report in tables and sentences which rig, according to a search, explains published figures best."""

from collections.abc import Iterator
from dataclasses import replace

from fastopen.common.grid import Column, Entry, Grid, Tone
from fastopen.common.phrases import plural
from fastopen.experiments import PublishedCell
from fastopen.report.entries import known
from fastopen.workflows.explain import AGREE_SHARE, CellTimes, Explained, Tried

PLACE = (Column("page", "key"), Column("RTT\nms", "factor"), Column("down\nMbit/s", "factor"))


def explained_grids(found: Explained) -> list[Grid]:
    grids = (cells_grid(found), properties_grid(found), unreached_grid(found))
    return [grid for grid in grids if grid.rows]


def cells_grid(found: Explained) -> Grid:
    """Return a table of the published cells beside those of the experiment as it stands and the best rig."""
    columns = (
        *PLACE,
        Column("theirs\noff s"),
        Column("saves\n%", answer=True),
        Column("base\noff s"),
        Column("saves\n%"),
        Column("best\noff s"),
        Column("saves\n%", answer=True),
        Column("saving\nagrees", "words"),
    )
    rows = tuple(
        (
            *_place(cell),
            *_entries(CellTimes(cell.off_ms, cell.tfo_ms)),
            *_of_rig(found.base, cell),
            *_of_rig(found.best, cell),
            Entry(", ".join(name for name, rig in _named(found) if rig.agrees(cell)) or "-"),
        )
        for cell in found.cells
    )
    note = "* fitted to this time without TFO; all else is predicted." if found.best.fitted else ""
    return Grid(found.space.base.title, columns, rows, note, grouped=True).hoist_common_factors()


def properties_grid(found: Explained) -> Grid:
    """Return a table of the properties and their effects on how many published savings are reproduced."""
    columns = (
        Column("property", "key"),
        Column("value", "words", wraps=True),
        Column("cells by\nitself", answer=True),
        Column("best\nwithout"),
        Column("pre-\ndicted"),
        Column("source", "words", wraps=True),
    )
    rows = tuple(
        (
            Entry(one.name),
            Entry(one.value, mark=" *" if one in found.best.rig else ""),
            known(found.gained(one), "{:+d}".format),
            known(None if (lost := found.lost_without(one)) is None else -lost, "{:+d}".format),
            known(found.predicted_gained(one), "{:+d}".format),
            Entry(one.source),
        )
        for one in found.space.properties
    )
    note = (
        "* of the best rig. Cells by itself: savings that agree with only this property, compared with the"
        " experiment as it stands. Best without: of the best rig without it, compared with the best rig."
        " Predicted: savings that agree when left out of the search, compared with a search without it."
    )
    return Grid("Properties that the rig may have had", columns, rows, note)


def unreached_grid(found: Explained) -> Grid:
    """Return a table of the savings that the best rig does not reproduce, with reasons."""
    columns = (*PLACE, Column("theirs\n%"), Column("reason", "words", wraps=True))
    rows = tuple(
        (*_place(cell), Entry(f"{cell.improvement_percent:+.1f}"), Entry(found.why_unreached(cell)))
        for cell in found.cells
        if not found.best.agrees(cell)
    )
    title = "Savings that the best rig does not give"
    return Grid(title, columns, rows, grouped=True).hoist_common_factors()


def sentences(found: Explained) -> Iterator[str]:
    cells, base, best = len(found.cells), found.base, found.best
    yield (
        f"Of {plural(cells, 'published saving')} {base.agreeing} agree within 3 points as the experiment"
        f" stands, {found.sourced.agreeing} on the rig of all properties that have a source, and"
        f" {best.agreeing} on the best rig."
    )
    share = f"{100 * AGREE_SHARE:.0f} %"
    yield (
        f"Of as many cells both page load times agree within {share}: {base.times_agreeing},"
        f" {found.sourced.times_agreeing} and {best.times_agreeing}."
    )
    if best.rig:
        yield "The best rig: " + "; ".join(f"{one.name}: {one.value}" for one in best.rig) + "."
    else:
        yield "No declared property earns its place."
    yield (
        f"Left out of the search, a page at a time, {found.predicted} of {cells} savings are predicted: that"
        " is what the rig explains; the rest may be fitted to noise."
    )
    yield (
        f"{plural(len(found.tried), 'rig')} of {found.space.size} were loaded, {plural(found.loads, 'load')}"
        " in virtual time."
    )


def _named(found: Explained) -> tuple[tuple[str, Tried], ...]:
    return (("base", found.base), ("best", found.best))


def _place(cell: PublishedCell) -> tuple[Entry, Entry, Entry]:
    rtt, down = f"{cell.rtt_ms:g}", f"{cell.down_mbit:g}"
    return Entry(cell.page), Entry(rtt, phrase=f"RTT {rtt} ms"), Entry(down, phrase=f"{down} Mbit/s down")


def _of_rig(rig: Tried, cell: PublishedCell) -> tuple[Entry, Entry]:
    off, saving = _entries(rig.times[cell], fitted=cell in rig.fitted)
    return replace(off, tone=_tone(rig.times_agree(cell))), replace(saving, tone=_tone(rig.agrees(cell)))


def _tone(agrees: bool) -> Tone:
    return "good" if agrees else ""


def _entries(times: CellTimes, *, fitted: bool = False) -> tuple[Entry, Entry]:
    off = known(times.off_ms, lambda ms: f"{ms / 1000:.2f}")
    return replace(off, mark="*" if fitted else ""), known(times.saving_percent, "{:+.1f}".format)
