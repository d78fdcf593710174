"""Recordings told from the queues of their networks, before their pages are loaded over others.

What was found is kept in the user's cache, by all that it follows from.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fastopen import kernels, units
from fastopen.atomic import write_atomic
from fastopen.contract import LoadRecord, Network
from fastopen.engines import LoadDone, Maker, VirtualEngine, find_program
from fastopen.experiments import BASELINE, COMMAND_LINE, Experiment, make_plan, read_asked
from fastopen.pages import Explanation, ImportedPage, Page
from fastopen.pages.progress import FileProgress
from fastopen.replay_validation import Loads, Told, recorders_network, told_from_queues
from fastopen.resources import cache_folder
from fastopen.versions import version_of
from fastopen.workflows.engines import auto_engine, maker_of

# What was found by then is as near as it came.
WITHIN_S: Final = 20.0
FOLDER: Final = "recordings"
FORMAT: Final = "fastopen-told/1"


class _Kept(BaseModel):
    """What the cache holds of a recording."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["fastopen-told/1"] = FORMAT
    complete: bool
    explanations: list[Explanation]
    """The best one first."""


@dataclass
class _Recording:
    """A page that is told from the queues of its network."""

    imported: ImportedPage
    network: Network
    maker: Maker
    loads: int = 0
    wanted: Sequence[Page] = ()
    """What it waits for."""
    found: Told | None = None
    searching: Loads = field(init=False)

    def __post_init__(self) -> None:
        assert self.imported.recording is not None
        self.searching = told_from_queues(self.imported.page, self.imported.recording.exchanges)
        self.wanted = next(self.searching)

    @property
    def experiment(self) -> Experiment:
        """What a run loads by default, over the recorder's network and once."""
        asked = read_asked({}, COMMAND_LINE).experiment(
            name="recording", pages=[self.imported.page.name], seed=0
        )
        changes = {"networks": [self.network], "arms": [BASELINE.name], "engines": ["virtual"], "repeats": 1}
        return asked.model_copy(update=changes)

    @property
    def file(self) -> Path:
        """Where the cache has it."""
        assert self.imported.recording is not None
        exchanges = [asdict(one) for one in self.imported.recording.exchanges]
        page = self.imported.page.digest()
        network = self.network.model_dump(mode="json")
        known = [FORMAT, version_of("fastopen"), page, exchanges, network, asdict(self.maker)]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        return cache_folder(FOLDER) / f"{digest}.json"

    def take(self, records: Sequence[LoadRecord] | None) -> None:
        """Go on with a record of each page that was wanted; None: time is over."""
        self.loads += len(records or ())
        try:
            self.wanted = self.searching.send(records)
        except StopIteration as stopped:
            self.found = stopped.value

    def told(self, found: Told) -> ImportedPage:
        """The page with what was found, and a note on it."""
        rate = units.format_rate(self.network.down.rate_bit_per_s)
        over = f"RTT {units.format_duration_us(self.network.rtt_us)}, {rate} down"
        note = f"queues told from thinking over the network of the recording ({over})"
        if not found.complete:
            note += ", as far as the time for it went"
        page = found.page.model_copy(update={"notes": (*found.page.notes, note)})
        return replace(self.imported, page=page)


def told_apart(
    imported: Sequence[ImportedPage],
    *,
    progress: FileProgress = lambda *_: None,
    within_s: float = WITHIN_S,
) -> list[ImportedPage]:
    """The pages with think times that hold no queue, where the networks of their recordings are known.

    Loads each page over and over on the virtual engine, several pages at once, for `within_s` at most;
    without a kernel pages stay as they are. `progress` takes the page and the load of it, and how many pages
    are done of how many. Raises MachineError where the engine cannot run.
    """
    told = list(imported)
    networks = {
        place: network
        for place, one in enumerate(imported)
        if one.recording is not None and (network := recorders_network(one.recording)) is not None
    }
    if not networks or auto_engine(None) != "virtual":
        return told
    booted = kernels.find()
    engine = VirtualEngine(find_program(), booted)
    maker = maker_of(find_program(), booted)
    waiting: dict[int, _Recording] = {}
    for place, network in networks.items():
        recording = _Recording(imported[place], network, maker)
        if (kept := _kept(recording)) is not None:
            told[place] = recording.told(kept)
        else:
            waiting[place] = recording
    places = list(waiting)
    for first in range(0, len(places), engine.parallel):
        group = places[first : first + engine.parallel]

        def watch(recording: _Recording, done: int = first) -> None:
            name = recording.imported.page.name
            progress(f"{name}, load {recording.loads}", done, len(places))

        _search([waiting[place] for place in group], engine, within_s, watch)
        for place in group:
            found = waiting[place].found
            assert found is not None
            told[place] = waiting[place].told(found)
            _keep(waiting[place], found)
    return told


def _search(
    recordings: Sequence[_Recording],
    engine: VirtualEngine,
    within_s: float,
    watch: Callable[[_Recording], None],
) -> None:
    """Until each recording is told, or time is over. They go on together, so that no core waits for long."""
    deadline = time.monotonic() + within_s
    while open_ := [one for one in recordings if one.found is None]:
        left_s = deadline - time.monotonic()
        records = _load(open_, engine, left_s) if left_s > 0 else {}
        for number, recording in enumerate(open_):
            of_one = [records.get(f"{number}:{at}") for at in range(len(recording.wanted))]
            whole = [one for one in of_one if one is not None]
            recording.take(whole if len(whole) == len(of_one) else None)
            watch(recording)


def _load(
    recordings: Sequence[_Recording], engine: VirtualEngine, within_s: float
) -> Mapping[str, LoadRecord]:
    """A load of each page that is wanted, by the number of its recording and its own; some may be missing."""
    jobs = []
    for number, recording in enumerate(recordings):
        for at, page in enumerate(recording.wanted):
            (planned,) = make_plan(recording.experiment, [page], "virtual").jobs
            jobs.append(planned.job.model_copy(update={"id": f"{number}:{at}"}))
    with closing(engine.run(jobs, {}, within_s)) as events:
        return {one.record.job: one.record for one in events if isinstance(one, LoadDone)}


def _kept(recording: _Recording) -> Told | None:
    """What the cache has of a recording; None where it has nothing that fits."""
    page = recording.imported.page
    try:
        kept = _Kept.model_validate_json(recording.file.read_bytes())
        best, *others = kept.explanations
        explained = page.model_copy(update={"explanations": tuple(kept.explanations)})
        Page.model_validate(explained.model_dump())
    except (OSError, ValueError, ValidationError):
        return None
    return Told(page.explained(best).model_copy(update={"explanations": tuple(others)}), kept.complete)


def _keep(recording: _Recording, found: Told) -> None:
    """Into the cache; where it cannot be written, the next run has to find it anew."""
    kept = _Kept(complete=found.complete, explanations=[found.page.explanation, *found.page.explanations])
    with suppress(OSError):
        recording.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(recording.file, kept.model_dump_json())
