"""Execute or open runs in a notebook, and read their tables, data frames and figures.

Data frames need pandas, an optional dependency. Without it, methods that return them raise MachineError."""

import io
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from fastopen.analysis.attribution import analyse_run
from fastopen.analysis.statistics import Results, collect
from fastopen.api.experiment import Experiment
from fastopen.common.closing import Closing
from fastopen.common.errors import MachineError, pip_install
from fastopen.common.files import write_atomic
from fastopen.contract import LoadRecord
from fastopen.experiments import Shard
from fastopen.experiments.quantities import Kind
from fastopen.report import flat_cells, results_renderables
from fastopen.runs import RunOutcome, RunProgress, RunStore, find_run
from fastopen.runs.export import Format, export
from fastopen.runs.flat_tables import TABLES, Flattener, Row
from fastopen.workflows.run import MAX_REPEATS, RunOptions, StartedRun, Watch, run_experiment, until_interval

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from fastopen.report.figures import Figure

WIDTH: Final = 100
# A notebook's progress bar is redrawn at most once in this many seconds.
BAR_EVERY_S: Final = 0.25
BAR_WIDTH: Final = 24
# Nullable types of pandas, so that integers and flags with missing values keep their type.
DTYPES: Final[dict[Kind, str]] = {"int": "Int64", "float": "float64", "text": "str", "flag": "boolean"}


class Run(Closing):
    """A run, opened from a folder or held in memory. A notebook displays it as tables of results. A `with`
    block closes the run's database at its end."""

    def __init__(self, store: RunStore, outcome: RunOutcome | None = None) -> None:
        self._store = store
        self.outcome = outcome
        """The outcome, such as `interrupted` and `faults`; None if this process did not execute the run."""

    def close(self) -> None:
        """Close the run's database. No more data can be read from the run."""
        self._store.close()

    @property
    def folder(self) -> Path | None:
        """Return the folder of the run; None if it is only in memory."""
        return self._store.folder

    @property
    def status(self) -> str:
        """Return the status: `finished`, `interrupted`, `out of time`, `stopped` or `running`."""
        return self._store.status

    @cached_property
    def results(self) -> Results:
        """Return the results: medians, improvements and intervals for each page, network, setup and arm."""
        return collect(self._store)

    def frame(self) -> "pd.DataFrame":
        """Return a data frame of the results, such as page load times and improvements, with a row for each
        page, network, setting and arm. docs/json.md lists the columns. An interval has two columns."""
        return _pandas().DataFrame(flat_cells(self.results))

    def loads(self) -> "pd.DataFrame":
        """Return a data frame with a row for each load, valid or not. docs/json.md lists the columns."""
        return _frame(TABLES["loads"], map(Flattener(self._store).load, self._store.loads()))

    def requests(self) -> "pd.DataFrame":
        """Return a data frame with a row for each request. `load` is the load's number in `loads()`."""
        return self._table("requests")

    def connections(self) -> "pd.DataFrame":
        """Return a data frame with a row for each connection, with TCP_INFO of both client and server."""
        return self._table("connections")

    def evidence(self) -> "pd.DataFrame":
        """Return a data frame with a row for each load: the TFO cookies that the client had before the load,
        and the counters of the emulated link and of the client's and the servers' kernels."""
        return self._table("evidence")

    def _table(self, name: str) -> "pd.DataFrame":
        flat, documents = Flattener(self._store), self._store.documents()
        rows = (one for row, record in documents for one in flat.rows(name, row, record))
        return _frame(TABLES[name], rows)

    def load(self, job: str, load: str) -> LoadRecord:
        """Return the full record of the last attempt at a load. `job` and `load` are the values in the
        columns `job` and `id` of the data frame `loads()`. Raises KeyError if the run has no such load."""
        return self._store.load_record(job, load)

    def figures(self, *, loads: bool = False) -> "dict[str, alt.TopLevelMixin]":
        """Return the charts of the report by name. With `loads`, also return charts of example loads, without
        and with TFO, for each page, network and setup: the loads whose saving is nearest to the median."""
        from fastopen.report.figures import load_figures, overview_figures

        analysis = analyse_run(self._store)
        made = [*overview_figures(analysis), *(load_figures(analysis) if loads else ())]
        return {figure.name: _chart(figure) for figure in made}

    def report(self, path: str | Path) -> Path:
        """Write the report as one HTML file, and return its path. Raises OSError if it cannot be written."""
        from fastopen.report.page import html

        write_atomic(path, html(analyse_run(self._store)))
        return Path(path)

    def export(self, folder: str | Path, form: Format = "parquet") -> Path:
        """Export the run into a new folder, as `parquet` or `csv` tables, `har` files or `png` screenshots,
        and return the folder's path. Raises InputError if the folder has files."""
        export(self._store, Path(folder), form)
        return Path(folder)

    def __repr__(self) -> str:
        return _recorded(self.results).export_text()

    def _repr_html_(self) -> str:
        form = '<pre style="line-height:1.2;overflow-x:auto">{code}</pre>'
        return _recorded(self.results).export_html(inline_styles=True, code_format=form)


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise MachineError("data frames need pandas", pip_install("pandas")) from None
    return pd


def _frame(columns: Mapping[str, Kind], rows: Iterable[Row]) -> "pd.DataFrame":
    frame = _pandas().DataFrame.from_records(list(rows), columns=list(columns))
    return frame.astype({name: DTYPES[kind] for name, kind in columns.items()})


def _chart(figure: "Figure") -> "alt.TopLevelMixin":
    """Convert a figure to an Altair chart with its data, style and alternative text."""
    import altair as alt

    spec = figure.spec()
    chart: Any = figure.drawing.chart.copy(deep=False)  # type: ignore[attr-defined]
    chart.data = alt.InlineData(values=spec["data"]["values"])
    for name in ("config", "description", "padding"):
        chart[name] = spec[name]
    shown: alt.TopLevelMixin = chart
    return shown


def _recorded(results: Results) -> Console:
    """Return a console that has printed the results, and can export its output as text and HTML."""
    console = Console(
        width=WIDTH, file=io.StringIO(), record=True, highlight=False, emoji=False, force_jupyter=False
    )
    for renderable in results_renderables(results, WIDTH):
        console.print(renderable)
    return console


def _progress_bar() -> Watch:
    """Return a function that shows a run's progress in one line of a notebook cell, or nothing elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return lambda _: None

    def line(text: str) -> dict[str, str]:
        return {"text/plain": text}

    cell = ipython.display.display(line(""), display_id=True, raw=True)
    shown_at = 0.0

    def show(progress: RunProgress) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if progress.left == 0 or now - shown_at >= BAR_EVERY_S:
            shown_at = now
            filled = BAR_WIDTH * progress.done // max(progress.loads, 1)
            running = f"  {progress.running[0]}" if progress.running else ""
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            cell.update(line(f"[{bar}] {progress.counts()}{running}"), raw=True)

    return show


def open_run(run: str | Path = "last") -> Run:
    """Open a run that was saved in a folder. `run` is the folder, the name of the run, or `last` for the
    latest run. Raises InputError if the run cannot be opened."""
    return Run(RunStore.open(find_run(run)))


def run(
    experiment: Experiment,
    output: str | Path | None = None,
    *,
    keep: bool = True,
    jobs: int | None = None,
    kernel: str | None = None,
    until_ci: str | None = None,
    max_repeats: int = MAX_REPEATS,
    shard: str | None = None,
    store: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool | Watch = True,
) -> Run:
    """Run an experiment, or resume its unfinished run in `output`.

    The run is saved in the folder `output`, by default among the user's runs. If `keep` is False, it is only
    in memory. `jobs` is the number of page loads in parallel. `kernel` names a kernel for virtual time. With
    `until_ci`, such as `"1%"`, repeats are added until all confidence intervals have at most this half-width,
    or until there are `max_repeats`. `shard`, such as `"17/200"`, runs a part of the experiment. `store` is a
    folder or URL of results to reuse. If `executor` is given, its workers run loads in virtual time; the
    caller shuts it down. `progress` is True for a progress bar, or a function to call after each event.

    Call this function from the main thread. On KeyboardInterrupt, it returns the run with its finished loads.
    Raises InputError for invalid settings, and MachineError if this machine cannot execute the run."""
    options = RunOptions(
        output=None if output is None else Path(output),
        keep=keep,
        kernel=kernel,
        jobs=jobs,
        until=until_interval(until_ci, max_repeats, experiment.asked.repeats),
        shard=None if shard is None else Shard.parse(shard),
        store=None if store is None else str(store),
        executor=executor,
        seed_drawn=experiment.seed_drawn,
        inputs=experiment.paths,
        library=experiment.library,
        lenient=experiment.lenient,
    )

    def observe(started: StartedRun) -> AbstractContextManager[Watch]:
        if started.not_kept is not None:
            warnings.warn(f"not kept: {started.not_kept}", stacklevel=4)
        if progress is True:
            return nullcontext(_progress_bar())
        return nullcontext(progress or (lambda _: None))

    executed = run_experiment(experiment.asked, experiment.pages(), options, observe)
    made = Run(executed.store, executed.outcome)
    made.results = executed.results
    return made
