"""Name, find, list and remove the folders of runs."""

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count, product
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, did_you_mean, os_errors_as, unreadable, unwritable
from fastopen.experiments import DesignPoint, Experiment, varying_factors
from fastopen.runs.database import FILE, LIST_THEM, OWN_FILES, FolderLock, holds_run, is_database
from fastopen.runs.export.folder import FORMATS, UNFINISHED, is_exported
from fastopen.runs.reader import RunReader
from fastopen.runs.rows import PACKETS

VARIABLE: Final = "FASTOPEN_RUNS"
LAST: Final = "last"
REPORT: Final = "report.html"
# The names of reports in a run's folder, including the report of `fastopen reproduce`.
REPORTS: Final = re.compile(rf"{re.escape(REPORT)}|[\w.-]+-explained\.html")


def runs_folder() -> Path:
    """Return the folder that contains the folders of all runs: the value of the environment variable
    FASTOPEN_RUNS if it is set, otherwise fastopen/runs in the user's XDG state folder."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG Base Directory Specification requires that relative paths are ignored.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "fastopen" / "runs"


def new_run_folder(name: str) -> Path:
    """Return a path in the runs folder that does not exist yet: `name` with the local time appended."""
    stem = f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(folder for name in names if not (folder := runs_folder() / name).exists())


def find_run(text: str | Path) -> Path:
    """Return the folder of a run. `text` is the name of the run, or `last` for the run written last, or a
    path, which is returned unchanged. Raises InputError if no run has this name."""
    path = Path(text)
    if path.name == FILE and path.is_file():
        raise InputError("is the file of a run", str(path), f"give its folder, {path.parent}")
    with os_errors_as(unreadable, path):
        if path.exists() or path.is_absolute() or len(path.parts) != 1:
            return path
    kept = {folder.name: folder for folder in run_folders(runs_folder())}
    if str(text) == LAST and kept:
        return max(kept.values(), key=lambda folder: (folder / FILE).stat().st_mtime_ns)
    if str(text) in kept:
        return kept[str(text)]
    if str(text) == LAST:
        raise InputError("no run is kept yet", str(runs_folder()), "fastopen run INPUT... keeps one")
    raise InputError("not a kept run", str(text), did_you_mean(str(text), kept, LIST_THEM))


def run_argument(folder: Path) -> str:
    """Return a shell word that names a run: its name if it is in the user's folder of runs, else its path."""
    return shlex.quote(folder.name if folder.parent == runs_folder() else str(folder))


def run_folders(folder: Path) -> list[Path]:
    """Return [folder] if the folder itself holds a run, otherwise its visible subfolders that hold a run."""
    if holds_run(folder):
        return [folder]
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if not one.name.startswith(".") and holds_run(one))


@dataclass(frozen=True)
class RunSummary:
    """The main facts about a run, for a list of runs. If the run is unreadable, `status` is the reason, and
    the fields after `bytes` have their defaults. `bytes` is the size of the run's files without exports."""

    folder: Path
    status: str
    bytes: int
    experiment: str = ""
    pages: tuple[str, ...] = ()
    networks: str = ""
    """The RTTs of the networks, such as `20, 100 ms`, or `20 ms, 3 networks` if networks share an RTT."""
    clients: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    started: str = ""
    label: str = ""
    varying: tuple[str, ...] = ()
    """The factors that vary within the run, except RTT and client, such as `initial window 4, 10`."""
    loads_done: int = 0
    loads_asked: int = 0


def list_runs(folder: Path) -> list[RunSummary]:
    """Return a summary of each run that `run_folders` finds, oldest first. Unreadable runs come last."""
    return sorted(map(summary_of, run_folders(folder)), key=lambda run: (not run.started, run.started))


def summary_of(folder: Path) -> RunSummary:
    """Read the main facts about the run in `folder`. Raise no error if the run is unreadable."""
    size = 0
    try:
        files = [*folder.iterdir(), *(folder / PACKETS).glob("*")]
        size = sum(file.stat().st_size for file in files if file.is_file())
        with RunReader.open(folder) as run:
            experiment = run.experiment()
            return RunSummary(
                folder=folder,
                status=run.status,
                bytes=size,
                experiment=experiment.name,
                pages=tuple(run.page_names()),
                networks=_networks(experiment),
                clients=tuple(dict.fromkeys(setup.client.label for setup in experiment.setups)),
                engines=tuple(dict.fromkeys(cell.engine for cell in run.cells())),
                started=str(run.environment.get("started", "")),
                label=run.label,
                varying=_varying(experiment),
                loads_done=run.loads_done(),
                loads_asked=run.loads_asked(),
            )
    except InputError as error:
        return RunSummary(folder, error.message, size)
    except OSError as error:  # no permission, or another process removed a file meanwhile
        return RunSummary(folder, unreadable(folder, error).message, size)


def _varying(experiment: Experiment) -> tuple[str, ...]:
    points = [DesignPoint(*one, "host") for one in product(experiment.networks, experiment.setups)]
    return tuple(
        f"{factor.title} {', '.join(dict.fromkeys(map(factor.text_at, points)))} {factor.unit}".rstrip()
        for factor in varying_factors(experiment).varying
        if factor.name not in ("rtt", "client")
    )


def _networks(experiment: Experiment) -> str:
    rtts = list(dict.fromkeys(f"{network.rtt_us / 1000:g}" for network in experiment.networks))
    more = f", {len(experiment.networks)} networks" if len(experiment.networks) > len(rtts) else ""
    return f"{', '.join(rtts)} ms{more}"


def remove_run(folder: Path) -> int:
    """Remove a run's folder with its exports and report, and return the number of bytes freed.

    Raises InputError if the folder holds no run or also holds other files, or if the run is being written."""
    if not holds_run(folder):
        raise InputError("not a kept run: it has no " + FILE, str(folder), LIST_THEM)
    if not is_database(folder / FILE):
        raise InputError(f"{FILE} is not a run's file", str(folder), "remove the folder yourself")
    with FolderLock(folder):
        files = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
        for path in files:
            if path.is_symlink() or not _is_of_run(path, folder):
                message = f"contains {path.relative_to(folder)}, which is not part of a run"
                raise InputError(message, str(folder), "remove it first")
        size = sum(path.stat().st_size for path in files)
        with os_errors_as(unwritable, folder):
            shutil.rmtree(folder)
    return size


def _is_of_run(path: Path, folder: Path) -> bool:
    """Return True if fastopen writes files with the name of `path` into a run's folder or its subfolders."""
    inside = path.relative_to(folder)
    if len(inside.parts) == 1:
        return OWN_FILES.fullmatch(path.name) is not None or REPORTS.fullmatch(path.name) is not None
    exports = {PACKETS, *FORMATS, *map(UNFINISHED.format, FORMATS)}
    return len(inside.parts) == 2 and inside.parts[0] in exports and is_exported(path)
