"""Define `fastopen compare`: compare stored runs with the first of them, and check limits on the changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from rich.text import Text
from typer import Argument, Option

from fastopen.analysis.comparison import (
    LimitCheck,
    RunComparison,
    Side,
    checks_of,
    compare_runs,
    parse_limit,
    read_side,
)
from fastopen.cli.output import console, exit_if, print_json, print_message
from fastopen.cli.shared_options import JsonOption
from fastopen.common.errors import InputError, collected, raise_all
from fastopen.common.files import write_file
from fastopen.report import results_document
from fastopen.report.compared import comparison_renderables
from fastopen.report.compared_document import comparison_document
from fastopen.report.junit import junit as junit_xml
from fastopen.runs import find_run

PANEL: Final = "Read a result"


def command(
    runs: Annotated[
        list[str],
        Argument(metavar="RUN RUN...", help="Folders or names of runs, or last; the first is the reference."),
    ],
    json: JsonOption = False,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also write the comparison as an HTML page.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        Option(
            metavar="LIMIT",
            help="Exit with 1 if a cell changes more: 'plt +1%', 'plt +10ms', 'saving -0.5'; repeatable.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, Option(metavar="FILE", help="Write the result of each limit as JUnit XML.")
    ] = None,
) -> None:
    """Compare runs with the first one, cell by cell and along the critical path."""
    problems: list[InputError] = []
    limits = []
    for text in fail_on or []:
        with collected(problems):
            limits.append(parse_limit(text))
    raise_all(problems)
    if junit is not None and not limits:
        raise InputError("has no limits to write", "--junit", "add one, such as --fail-on 'plt +1%'")
    if len(runs) < 2:
        raise InputError("compare needs two runs", runs[0], "add a run that fastopen ls lists")
    reference, *others = (find_run(run) for run in runs)
    before = read_side(reference)
    compared = [compare_runs(before, read_side(folder)) for folder in others]
    checks = [list(checks_of(limits, one.cells)) for one in compared]
    if json:
        print_json(comparison_document(compared, checks))
    else:
        print_comparisons(compared, checks)
    if html is not None:
        # The template engine takes longer to import than most comparisons.
        from fastopen.report.compared_page import comparison_html

        write_file(html, comparison_html(compared, checks))
        print_message(f"report: {html}")
    if junit is not None:
        write_file(junit, junit_xml(compared, checks))
    exit_if(any(check.failed for of_one in checks for check in of_one))


def print_comparisons(compared: list[RunComparison], checks: list[list[LimitCheck]]) -> None:
    """Print each comparison of runs as sentences and tables, with the results of its checks (`--fail-on`)."""
    screen = console()
    for number, (one, of_one) in enumerate(zip(compared, checks, strict=True)):
        if number:
            screen.print(Text())
        for renderable in comparison_renderables(one, of_one, screen.width):
            screen.print(renderable)


def print_kernels(of_kernel: Mapping[str, Side], *, as_json: bool) -> None:
    """Compare the runs of an experiment on several kernels with the run on the first kernel, and print the
    differences. `of_kernel` maps names of kernels to runs. With `as_json`, print one JSON document."""
    before, *others = of_kernel.values()
    compared = [compare_runs(before, after) for after in others]
    checks: list[list[LimitCheck]] = [[] for _ in compared]
    if not as_json:
        print_comparisons(compared, checks)
        return
    print_json(
        {
            "format": "fastopen-kernels/1",
            "kernels": list(of_kernel),
            "comparison": comparison_document(compared, checks),
            "results": {name: results_document(side.results) for name, side in of_kernel.items()},
        }
    )
