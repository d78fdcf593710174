"""Define `fastopen page index`: write a CSV file with facts about each page in folders of recordings."""

import csv
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, TextIO

from typer import Argument, Exit, Option, Typer

from fastopen.cli.output import EXIT_INTERRUPTED, exit_if, print_message
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import QuietOption, with_settings
from fastopen.common.errors import os_errors_as, unwritable
from fastopen.common.grid import escape_formula
from fastopen.common.phrases import plural
from fastopen.pages.corpus import COLUMNS, corpus_files, index_pages

PANEL: Final = "Inputs"

command = Typer()


@command.command("index")
@with_settings
def index(
    folders: Annotated[
        list[Path],
        Argument(metavar="FOLDER...", help="Folders of HARs, WARCs, WACZs and page files, at any depth."),
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="A CSV file. (default: standard output)")
    ] = None,
    jobs: Annotated[
        int | None,
        Option(
            "--jobs", "-j", min=1, max=1024, help="Number of files to read in parallel. (default: by cores)"
        ),
    ] = None,
    quiet: QuietOption = False,
    *,
    reading: Reading,
) -> None:
    """Write a CSV row of facts about each page in folders of recordings, and list damaged files.

    Exit codes: 0 done; 1 a file could not be read."""
    files = corpus_files(folders)
    found = index_pages(files, **vars(reading), processes=jobs or len(os.sched_getaffinity(0)))
    pages = read = damaged = 0
    with _writing(output) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        try:
            for one in found:
                read += 1
                pages += len(one.rows)
                rows = ({name: escape_formula(value) for name, value in row.items()} for row in one.rows)
                writer.writerows(rows)
                if one.error:
                    damaged += 1
                    print_message(f"damaged: {one.error}")
        except KeyboardInterrupt:
            print_message(f"interrupted after {read:,} files")
            raise Exit(EXIT_INTERRUPTED) from None
    if not quiet:
        of_them = f", {damaged:,} of them damaged" if damaged else ""
        print_message(f"{plural(pages, 'page')} in {plural(read, 'file')}{of_them}")
    exit_if(damaged)


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with os_errors_as(unwritable, path), path.open("w", encoding="utf-8", newline="") as file:
        yield file
