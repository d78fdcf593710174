"""`fastopen reproduce NAME --check`: the expected table, to the digit."""

import typer

from fastopen.cli.output import EXIT_FAULTS, console, errors_console, print_json
from fastopen.cli.progress import RunWatcher
from fastopen.cli.run_settings import RunSettings
from fastopen.experiments import Experiment
from fastopen.workflows.expected import expected_table, first_difference, measured


def check_expected(experiment: Experiment, settings: RunSettings) -> None:
    """Load the experiment and print "equal" or the first difference, which exits with 1."""
    # Before anything is loaded: is there one?
    expected_table(experiment)
    with RunWatcher(errors_console(), settings.quiet) as watcher:
        found = measured(experiment, kernel=settings.kernel, jobs=settings.jobs, watch=watcher)
    difference = first_difference(experiment, found)
    if settings.json:
        detail = None if difference is None else str(difference)
        print_json({"experiment": experiment.name, "equal": difference is None, "difference": detail})
    elif difference is None:
        console().print(f"equal: {len(found)} page load times of {experiment.name}", markup=False)
    else:
        console().print(f"different: {difference}", markup=False, soft_wrap=True)
    if difference is not None:
        raise typer.Exit(EXIT_FAULTS)
