"""Calibrate recorded pages: separate queueing delay from server think time, and cache the results."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from fastopen.common import units
from fastopen.common.errors import InputError, MachineError
from fastopen.common.files import write_atomic
from fastopen.common.resources import cache_folder
from fastopen.contract import LoadRecord, Network
from fastopen.engines import Maker, VirtualEngine, find_program, kernels, loads_in
from fastopen.experiments import BASELINE, COMMAND_LINE, Experiment, make_plan, read_settings
from fastopen.pages import ImportedPage, Page
from fastopen.pages.files import FileProgress
from fastopen.workflows.engines import auto_engine, maker_of
from fastopen.workflows.replays import Calibration, recorders_network, search_think_times
from fastopen.workflows.replays.calibration import FORMAT

# The time limit in seconds for each group of pages that are calibrated together.
WITHIN_S: Final = 20.0
FOLDER: Final = "recordings"
AS_IMPORTED: Final = "think times as imported, with any queueing delay"


class _Recording:
    """A recorded page, and the search for its server think times, which loads the page repeatedly."""

    def __init__(self, imported: ImportedPage, network: Network, maker: Maker) -> None:
        assert imported.recording is not None
        self.imported, self.network, self._maker = imported, network, maker
        self.loads = 0
        self.found: Calibration | None = None
        self._exchanges = imported.recording.exchanges
        self._searching = search_think_times(imported.page, self._exchanges)
        self.wanted = next(self._searching)
        """The variants of the page that the search needs to be loaded next."""

    @property
    def experiment(self) -> Experiment:
        """Return an experiment that loads one page once over the recorder's network, without TFO, and with
        the default settings of a run."""
        settings = read_settings({"engine": "virtual", "transport": BASELINE.name}, COMMAND_LINE)
        experiment = settings.experiment(name="recording", pages=[self.imported.page.name], seed=0, repeats=1)
        return experiment.model_copy(update={"networks": [self.network]})

    @property
    def file(self) -> Path:
        exchanges = [asdict(one) for one in self._exchanges]
        page = self.imported.page.digest()
        network = self.network.model_dump(mode="json")
        known = [FORMAT, metadata.version("fastopen"), page, exchanges, network, asdict(self._maker)]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        return cache_folder(FOLDER) / f"{digest}.json"

    def take(self, records: Sequence[LoadRecord]) -> None:
        """Continue the search for server think times with the records of the loads that it requested, one for
        each page in `wanted`. If any is missing, the time limit was reached: end the search."""
        try:
            if len(records) < len(self.wanted):
                self._searching.throw(TimeoutError)
            self.loads += len(records)
            self.wanted = self._searching.send(records)
        except StopIteration as stopped:
            self.found = stopped.value

    def calibrated(self, found: Calibration) -> ImportedPage:
        rate = units.format_rate(self.network.down.rate_bit_per_s)
        over = f"RTT {units.format_duration_us(self.network.rtt_us)}, {rate} down"
        limit = "" if found.complete else "; the time limit ended the search"
        note = f"queueing delay separated from think time over the recorded network ({over}){limit}"
        if not found.explanations:
            note = f"{AS_IMPORTED}: no load over the recorded network ({over}) was valid"
        return _noted(replace(self.imported, page=found.applied_to(self.imported.page)), note)


def calibrated(
    imported: Sequence[ImportedPage], *, progress: FileProgress = lambda *_: None, within_s: float = WITHIN_S
) -> list[ImportedPage]:
    """Return the pages, with queueing delay removed from the server think times of recorded pages. To find
    the queueing delay, load each page over the network of its recorder, in virtual time. A page stays
    unchanged if this network is unknown, or if this machine has no kernel for virtual time. If its loads
    fail, only a note is added to it. `within_s` limits the time for each group of pages that are loaded at
    once. `progress` receives a text about the current page, and the numbers of finished and of all pages."""
    pages = list(imported)
    networks = {
        place: network
        for place, one in enumerate(imported)
        if one.recording is not None and (network := recorders_network(one.recording)) is not None
    }
    if not networks or auto_engine(None) != "virtual":
        return pages
    try:
        booted = kernels.find()
        engine = VirtualEngine(find_program(), booted)
        maker = maker_of(find_program(), booted)
    except MachineError as error:
        for place in networks:
            pages[place] = _noted(imported[place], f"{AS_IMPORTED}: {error.message}")
        return pages
    waiting: list[tuple[int, _Recording]] = []
    for place, network in networks.items():
        recording = _Recording(imported[place], network, maker)
        if (kept := _read_cached(recording)) is not None:
            pages[place] = recording.calibrated(kept)
        else:
            waiting.append((place, recording))
    for first in range(0, len(waiting), engine.parallel):
        group = dict(waiting[first : first + engine.parallel])

        def watch(recording: _Recording, done: int = first) -> None:
            progress(f"{recording.imported.page.name}, load {recording.loads}", done, len(waiting))

        try:
            _search([*group.values()], engine, within_s, watch)
        except (InputError, MachineError) as error:
            # Do not raise the error: commands that only show pages need no engine, and a run will report it.
            for place in group:
                pages[place] = _noted(imported[place], f"{AS_IMPORTED}: {error.message}")
            continue
        for place, recording in group.items():
            assert recording.found is not None
            pages[place] = recording.calibrated(recording.found)
            if recording.found.explanations:
                # Ignore errors, because the next run can search again.
                with suppress(OSError):
                    recording.file.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(recording.file, recording.found.model_dump_json())
    return pages


def _noted(imported: ImportedPage, note: str) -> ImportedPage:
    return replace(imported, page=imported.page.model_copy(update={"notes": (*imported.page.notes, note)}))


def _search(
    recordings: Sequence[_Recording],
    engine: VirtualEngine,
    within_s: float,
    watch: Callable[[_Recording], None],
) -> None:
    """Search for the best server think times of all recordings in parallel, for at most `within_s` seconds.
    Call `watch` with a recording after each step of its search."""
    deadline = time.monotonic() + within_s
    while open_ := [one for one in recordings if one.found is None]:
        left_s = deadline - time.monotonic()
        jobs, records = [], dict[str, LoadRecord]()
        for number, recording in enumerate(open_ if left_s > 0 else ()):
            for at, page in enumerate(recording.wanted):
                (planned,) = make_plan(recording.experiment, [page], "virtual").jobs
                jobs.append(planned.job.model_copy(update={"id": f"{number}:{at}"}))
        if jobs:
            with closing(engine.run(jobs, {}, left_s)) as events:
                records = {record.job: record for record in loads_in(events)}
        for number, recording in enumerate(open_):
            of_one = (records.get(f"{number}:{at}") for at in range(len(recording.wanted)))
            recording.take([one for one in of_one if one is not None])
            watch(recording)


def _read_cached(recording: _Recording) -> Calibration | None:
    try:
        kept = Calibration.model_validate_json(recording.file.read_bytes())
        Page.model_validate(kept.applied_to(recording.imported.page).model_dump())
    except (OSError, ValueError):
        return None
    return kept
