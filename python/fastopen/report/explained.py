"""Report the assumptions about a published measurement that explain its figures best."""

from collections.abc import Iterator
from dataclasses import replace

from fastopen.common.grid import Column, Entry, Grid, Tone
from fastopen.common.phrases import plural, with_sign
from fastopen.experiments import PublishedCell
from fastopen.experiments.rigs import Property
from fastopen.report.shared_columns import known
from fastopen.workflows.explained import Explained, Tried
from fastopen.workflows.predicted import AGREE_SHARE, CellTimes

PROPERTY = (Column("property", "key"), Column("value", "words", wraps=True))
PLACE = (Column("page", "key"), Column("RTT\nms", "factor"), Column("down\nMbit/s", "factor"))


def explained_grids(found: Explained) -> list[Grid]:
    """Return the tables on a search for the best rig, without empty tables."""
    grids = (cells_grid, properties_grid, changed_agreement_grid, disagreeing_cells_grid)
    return [made for grid in grids if (made := grid(found)).rows]


def cells_grid(found: Explained) -> Grid:
    """Return a table that compares published load times and savings with measurements of the experiment as it
    is (`base`), and under the assumed test conditions that explain the most savings (`best`)."""
    columns = (
        *PLACE,
        Column("theirs\noff s"),
        Column("saves\n%", main_result=True),
        Column("base\noff s"),
        Column("saves\n%"),
        Column("best\noff s"),
        Column("saves\n%", main_result=True),
        Column("saving\nagrees", "words"),
    )
    rigs = {"base": found.base, "best": found.best}
    rows = tuple(
        (
            *_place(cell),
            *_times(CellTimes(cell.off_ms, cell.tfo_ms)),
            *(entry for rig in rigs.values() for entry in _of_rig(rig, cell)),
            Entry(", ".join(name for name, rig in rigs.items() if rig.agrees(cell)) or "-"),
        )
        for cell in found.cells
    )
    note = "* fitted to this time without TFO; all else is computed." if found.best.fitted else ""
    return Grid(found.space.base.title, columns, rows, note, grouped=True).hoist_common_factors()


def properties_grid(found: Explained) -> Grid:
    """Return a table of test conditions that a published measurement may have had. Each row counts the
    published savings that agree with measured savings: how many more agree under only this condition than
    under none, and how many fewer agree under the best set of conditions if it lacks this condition."""
    columns = (
        *PROPERTY,
        Column("cells by\nitself", main_result=True),
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
        for one in _shown(found)
    )
    note = (
        "* of the best rig. Cells by itself: savings that agree with only this property, compared with the"
        " experiment as it stands. Best without: of the best rig without it, compared with the best rig."
        " Predicted: savings predicted from the other cells, compared with a search without it."
    )
    return Grid("Properties that the rig may have had", columns, rows, note)


def disagreeing_cells_grid(found: Explained) -> Grid:
    """Return a table of the published savings that disagree with the measured ones even under the assumed
    test conditions that explain the most savings, with the reasons."""
    columns = (*PLACE, Column("theirs\n%"), Column("reason", "words", wraps=True))
    rows = tuple(
        (*_place(cell), Entry(f"{cell.improvement_percent:+.1f}"), Entry(found.why_unreached(cell)))
        for cell in found.cells
        if not found.best.agrees(cell)
    )
    return Grid("Savings that the best rig does not give", columns, rows, grouped=True).hoist_common_factors()


def changed_agreement_grid(found: Explained) -> Grid:
    """Return a table of published savings that agree with measured savings only with, or only without, one
    assumed test condition."""
    figures = (Column("theirs\n%"), Column("base\n%"), Column("with it\n%", main_result=True))
    rows = tuple(
        (
            *(Entry(one.name), Entry(one.value), *_place(cell), Entry(with_sign(cell.improvement_percent))),
            *(known(saving, with_sign) for saving in savings),
        )
        for one in _shown(found)
        for cell, *savings in found.moved(one)
    )
    title = "Cells that one property moves to or from agreement"
    return Grid(title, (*PROPERTY, *PLACE, *figures), rows, grouped=True).hoist_common_factors()


def sentences(found: Explained) -> Iterator[str]:
    """Yield sentences on how many published savings agree with measured savings, and on the best rig."""
    cells, base, best = len(found.cells), found.base, found.best
    yield (
        f"Of {plural(cells, 'published saving')} {base.agreeing} agree within 3 points as the experiment"
        f" stands, {found.sourced.agreeing} on the rig of all properties that have a source, and"
        f" {best.agreeing} on the best rig. With a rig of its own for each cell, which explains nothing, at"
        f" least {found.reachable} would agree."
    )
    yield (
        f"Both page load times agree within {100 * AGREE_SHARE:.0f} % in {base.times_agreeing},"
        f" {found.sourced.times_agreeing} and {best.times_agreeing} of these cells."
    )
    properties = "; ".join(f"{one.name}: {one.value}" for one in best.rig)
    yield f"The best rig: {properties}." if properties else "The best rig has no declared property."
    yield (
        f"Savings predicted: {found.predicted} of {cells} from the other cells, {found.predicted_pages} from"
        f" the other pages. Only these speak for the rig; the rest may be fitted to noise."
    )
    if idle := "; ".join(f"{one.name}: {one.value}" for one in found.without_effect):
        yield f"Properties that changed no load: {idle}."
    yield (
        f"{len(found.tried):,} of {plural(found.space.size, 'rig')} were compared, with"
        f" {plural(found.loads, 'load')} in virtual time."
    )


def _shown(found: Explained) -> list[Property]:
    """Return the test conditions to list: all that the experiment's file declares. Conditions that were
    derived from these for a single page are listed only if they belong to the best rig."""
    space = found.space
    return [one for one in space.properties if one in found.best.rig or not space.is_copy(one)]


def _place(cell: PublishedCell) -> tuple[Entry, Entry, Entry]:
    rtt, down = f"{cell.rtt_ms:g}", f"{cell.down_mbit:g}"
    return Entry(cell.page), Entry(rtt, phrase=f"RTT {rtt} ms"), Entry(down, phrase=f"{down} Mbit/s down")


def _of_rig(rig: Tried, cell: PublishedCell) -> tuple[Entry, Entry]:
    """Return entries for a rig's PLT without TFO and for TFO's saving. The first is green if both PLTs (with
    and without TFO) agree with those of row `cell`, the second if the saving agrees."""
    tones: tuple[Tone, Tone] = ("good" if rig.times_agree(cell) else "", "good" if rig.agrees(cell) else "")
    off, saving = _times(rig.times[cell], *tones)
    return replace(off, mark="*" if cell in rig.fitted else ""), saving


def _times(times: CellTimes, off_tone: Tone = "", saving_tone: Tone = "") -> tuple[Entry, Entry]:
    off = known(times.off_ms, lambda ms: f"{ms / 1000:.2f}", off_tone)
    return off, known(times.saving_percent, "{:+.1f}".format, saving_tone)
