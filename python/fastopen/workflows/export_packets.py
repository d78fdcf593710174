"""Export the packets of loads: the packets that the run kept, or the packets of an exact repeat of a load."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord
from fastopen.engines import Reported
from fastopen.experiments import repeats_to_the_byte
from fastopen.runs import LoadRow, RunReader, stored_plan
from fastopen.runs.export.folder import atomic_folder
from fastopen.runs.rows import kept_packets, packets_name
from fastopen.workflows.engines import EngineSet
from fastopen.workflows.run import bodies_of, pages_of


@dataclass
class ExportedPackets:
    """Numbers of loads in a packet export. The run had kept the packets of `copied` loads; `repeated` loads
    were repeated to capture packets. `missing` maps reasons to numbers of loads without packets."""

    copied: int = 0
    repeated: int = 0
    missing: dict[str, int] = field(default_factory=Counter)

    @property
    def written(self) -> int:
        return self.copied + self.repeated


def export_packets(
    folder: Path,
    place: Path,
    *,
    job: str | None = None,
    replace_export: bool = False,
    jobs: int | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> ExportedPackets:
    """Write the packets of each page load of a run (`folder`) into the new folder `place`, as pcapng files.
    With `job`, export only the job with this id. With `replace_export`, replace an older export.

    If a load's packets were not kept, repeat the load. This needs virtual time and a deterministic client.
    Use the new packets only if the new record equals the old one. `jobs` is the number of networks to emulate
    at once. `watch` is called with the number of files so far. Raises InputError if no page load has packets,
    if `place` is in use or if recorded bodies have changed, and MachineError if loads cannot be repeated."""
    found = ExportedPackets()
    with RunReader.open(folder) as run:
        run.check_job(job)
        rows = [row for row in run.loads() if job is None or row.job == job]
        with atomic_folder(place, replace=replace_export) as unfinished:
            owed: list[LoadRow] = []
            for row in rows:
                if (kept := kept_packets(folder, row.number, row.job, row.load)) is not None:
                    shutil.copyfile(kept, unfinished / kept.name)
                    found.copied += 1
                    watch(found.written)
                else:
                    owed.append(row)
            if owed:
                _load_again(run, owed, unfinished, found, jobs, watch)
            if not found.written:
                why = "; ".join(found.missing) or "it has no loads"
                raise InputError(f"has no packets: {why}", run.place, "fastopen run --pcap keeps them")
    return found


def _load_again(
    run: RunReader,
    rows: Sequence[LoadRow],
    place: Path,
    found: ExportedPackets,
    parallel: int | None,
    watch: Callable[[int], None],
) -> None:
    experiment, cells = run.experiment(), run.cells()
    owed: dict[tuple[str, str], LoadRow] = {}
    for row in rows:
        if row.superseded or not repeats_to_the_byte(experiment, cells[row.cell]):
            found.missing["they were not kept, and the load cannot be repeated exactly"] += 1
        else:
            owed[row.job, row.load] = row
    if not owed:
        return
    plan, names = stored_plan(run), {name for name, _ in owed}
    plan = replace(plan, jobs=tuple(one for one in plan.jobs if one.job.id in names))
    bodies = bodies_of(plan, pages_of(run))
    engines = EngineSet.of(plan, None, parallel, run.environment)
    # Repeat all loads of a job, because the number of a load determines its client address.
    again = [one.job.model_copy(update={"packets": True}) for one in plan.jobs]
    with closing(engines.engines["virtual"].run(again, bodies)) as events:
        for event in events:
            if not isinstance(event, Reported) or not isinstance(event.record, LoadRecord):
                continue
            load = (event.record.job, event.record.id)
            if load not in owed:
                continue
            if event.packets is None or event.record != run.load_record(*load):
                found.missing["the repeated load differs from the kept load"] += 1
                continue
            (place / packets_name(owed[load].number, *load)).write_bytes(event.packets.pcapng)
            found.repeated += 1
            watch(found.written)
