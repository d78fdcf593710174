"""Read pages from the user's inputs, with a progress bar on standard error if this takes long."""

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from fastopen.cli.output import errors_console, print_message
from fastopen.cli.progress import LiveBar
from fastopen.common.errors import InputError
from fastopen.common.units import UnitError, parse_size_bytes
from fastopen.experiments import packaged_experiments
from fastopen.pages import Choice, ImportedPage, load_chosen, packaged_pages
from fastopen.pages.budget import MAX_UNPACKED_BYTES
from fastopen.pages.library import LeftOutWarning, damage_notes
from fastopen.runs import holds_run, run_argument, runs_folder
from fastopen.workflows.calibrate import calibrated

# Reading shows a bar only if it takes longer than this.
BAR_AFTER_S: Final = 0.5


def _bytes(text: object) -> int:
    try:
        size = parse_size_bytes(str(text))
    except UnitError as error:
        raise InputError(str(error), "--max-unpacked") from None
    return sys.maxsize if size is None else size


@dataclass(frozen=True)
class Reading:
    """Options for reading pages, which `with_settings` adds to a command."""

    lenient: Annotated[
        bool, Option("--lenient", help="Skip damaged entries, and damaged files of folders.")
    ] = False
    max_unpacked: Annotated[
        int,
        Option(
            parser=_bytes,
            metavar="SIZE",
            show_default=False,
            help="Limit on the unpacked size of each input, or none. (default: 1GiB)",
        ),
    ] = MAX_UNPACKED_BYTES

    def pages(
        self,
        inputs: Sequence[Path | str],
        library: Sequence[Path | str] = (),
        choice: Choice | None = None,
        *,
        quiet: bool = False,
    ) -> list[ImportedPage]:
        """Read the pages in `inputs` that `choice` selects, by default all. Show progress, and print notes on
        damaged inputs. If an input is a list of URLs, their recordings are in the folders in `library`."""
        for name in inputs:
            refuse_run(str(name), "a page")
        with warnings.catch_warnings(record=True, action="always", category=LeftOutWarning) as left_out:
            try:
                with LiveBar(errors_console(), quiet, after_s=BAR_AFTER_S) as bar:
                    progress = partial(show_reading, bar)
                    found = load_chosen(inputs, choice, library, **vars(self), progress=progress)
            finally:
                for one in left_out:
                    print_message(str(one.message))
        for imported in found:
            for note in damage_notes(imported.page):
                print_message(f"{imported.page.name}: {note}")
        return found


@dataclass(frozen=True)
class CalibrationOptions:
    """Options for calibration, which removes queueing delay from the server think times of recorded pages."""

    as_imported: Annotated[
        bool, Option("--as-imported", help="Keep the recording's queueing delay in server think times.")
    ] = False

    def calibrated(self, imported: list[ImportedPage], *, quiet: bool = False) -> list[ImportedPage]:
        """Return the pages without queueing delay in think times or, with `--as-imported`, unchanged."""
        if self.as_imported:
            return imported
        with LiveBar(errors_console(), quiet, after_s=BAR_AFTER_S) as bar:

            def show(page: str, done: int, total: int) -> None:
                counted = f" ({done} of {total} pages done)" if total > 1 else ""
                bar.update(f"separating queueing delay from think time: {page}{counted}", done, total)

            return calibrated(imported, progress=show)


def refuse_run(text: str, expected: str) -> None:
    """Raise InputError if `text` names a kept run, instead of `expected`, such as `a page`. A packaged page
    or experiment may have the name of a run, whose folder may be in the working directory."""
    if text in packaged_pages() or text in packaged_experiments():
        return
    places = [Path(text)] if os.path.exists(text) else [runs_folder() / text]
    for folder in filter(holds_run, places):
        run = run_argument(folder)
        remedy = f"fastopen show {run} prints it, and fastopen resume {run} finishes it"
        raise InputError(f"is a kept run, not {expected}", text, remedy)


def show_reading(bar: LiveBar, file: str, done: int, total: int) -> None:
    """Show in `bar` the file being read, and the percentage of all inputs read."""
    bar.update(f"reading {file}: {100 * done // max(total, 1)} %", done, total)
