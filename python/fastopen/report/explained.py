"""Tables and sentences of a search for the rig behind published figures."""

from collections.abc import Iterator
from dataclasses import replace

from fastopen.common.grid import Column, Entry, Grid, Tone
from fastopen.common.phrases import plural
from fastopen.experiments.rigs import Property
from fastopen.workflows.explain import AGREE_SHARE, Explained, Times


def cells_grid(found: Explained) -> Grid:
    """Return each published cell beside the base and the best rig."""
    columns = (
        Column("page", "key"),
        Column("RTT\nms", "factor"),
        Column("down\nMbit/s", "factor"),
        Column("theirs\noff s"),
        Column("saves\n%", answer=True),
        Column("base\noff s"),
        Column("saves\n%"),
        Column("best\noff s"),
        Column("saves\n%", answer=True),
    )
    rows = []
    for cell in found.cells:
        best = found.best
        ours = _entries(best.times[cell], fitted=cell in best.fitted)
        tone: Tone = "good" if best.agrees(cell) else ""
        rows.append(
            (
                Entry(cell.page),
                Entry(f"{cell.rtt_ms:g}"),
                Entry(f"{cell.down_mbit:g}"),
                *_entries(Times(cell.off_ms, cell.tfo_ms)),
                *_entries(found.base.times[cell]),
                replace(ours[0], tone="good" if best.times_agree(cell) else ""),
                replace(ours[1], tone=tone),
            )
        )
    note = "* fitted to this time without TFO; all else is predicted." if found.best.fitted else ""
    return Grid(found.space.base.title, columns, tuple(rows), note, grouped=True)


def properties_grid(found: Explained) -> Grid:
    """Return what each declared property does for the savings."""
    columns = (
        Column("property", "key"),
        Column("value", "words"),
        Column("cells gained by itself"),
        Column("cells lost without"),
        Column("source", "words"),
    )
    rows = []
    for one in found.space.properties:
        gained, lost = found.gained(one), _lost(found, one)
        rows.append(
            (
                Entry(one.name),
                Entry(one.value, mark=" *" if one in found.best.rig else ""),
                Entry("-" if gained is None else f"{gained:+d}"),
                Entry("-" if lost is None else f"{lost}"),
                Entry(one.source),
            )
        )
    return Grid("Properties that the rig may have had", columns, tuple(rows), "* of the best rig.")


def property_lines(found: Explained) -> Iterator[str]:
    """Yield the same as lines."""
    for one in found.space.properties:
        mark = "*" if one in found.best.rig else " "
        gained, lost = found.gained(one), _lost(found, one)
        effects = (
            [] if gained is None else [f"by itself {gained:+d} {'cell' if abs(gained) == 1 else 'cells'}"]
        )
        effects += [] if lost is None else [f"the best rig without it {-lost:+d}"]
        yield f"{mark} {one.name}: {one.value} ({'; '.join(effects) or 'not tried by itself'})"
        yield f"    {one.source}"


def unreached_lines(found: Explained) -> Iterator[str]:
    """Yield why the best rig does not give each other saving."""
    for cell in found.cells:
        if not found.best.agrees(cell):
            rate = f", {cell.down_mbit:g} Mbit/s" if len({one.down_mbit for one in found.cells}) > 1 else ""
            saves = f"{cell.improvement_percent:+.1f} %"
            yield f"{cell.page}, {cell.rtt_ms:g} ms{rate} ({saves}): {found.why_unreached(cell)}"


def _lost(found: Explained, one: Property) -> int | None:
    return found.lost_without(one) if one in found.best.rig else None


def sentences(found: Explained) -> Iterator[str]:
    """Yield what the search found, in words."""
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


def _entries(times: Times, *, fitted: bool = False) -> tuple[Entry, Entry]:
    off = "-" if times.off_ms is None else f"{times.off_ms / 1000:.2f}"
    saving = times.saving_percent
    return Entry(off, mark="*" if fitted else ""), Entry("-" if saving is None else f"{saving:+.1f}")
