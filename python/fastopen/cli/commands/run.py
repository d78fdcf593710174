"""Define `fastopen run`: load pages over networks and print the results."""

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from fastopen.cli.options import Written, with_factors
from fastopen.cli.reading import CalibrationOptions, Reading
from fastopen.cli.run_settings import RunSettings
from fastopen.cli.shared_options import with_settings
from fastopen.common.errors import InputError
from fastopen.experiments import ASKED, COMMAND_LINE, NAMED_NETWORKS, Combine, read_settings, with_drawn_seed
from fastopen.pages import Choice
from fastopen.pages.conditions import Condition
from fastopen.pages.corpus import KINDS
from fastopen.workflows.engines import auto_engine

PANEL: Final = "Measure"
FIRST_OPTIONS: Final = (
    *("inputs", "rtt", "down", "up", "network", "transport", "repeats", "quick"),
    *("report", "json", "output"),
)
EXAMPLES: Final = {
    "fastopen run page.har": "as it was recorded, over three common networks",
    "fastopen run page.har --network 4g --report": "over 4g, inputs varied, with a report in HTML",
    "fastopen run example --transports tcp,tfo --rtt 100ms": "in cleartext, as in the TFO paper",
}


@with_factors(ASKED)
@with_settings
def command(
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="HAR files or folders of them, an index of a corpus, page files, lists of URLs, or packaged"
            " pages by name.",
        ),
    ],
    combine: Annotated[
        Combine,
        Option(help="Combination of the network's lists: every pair (cross), or first with first (zip)."),
    ] = "cross",
    network: Annotated[
        str | None,
        Option(
            metavar="NAME,NAME",
            help=f"Networks by name: {', '.join(NAMED_NETWORKS)}."
            " (default: broadband,mobile,4g without RTT, rate or trace)",
        ),
    ] = None,
    seed: Annotated[
        int | None, Option(min=0, help="Seed of all random choices. (default: random and recorded)")
    ] = None,
    where: Annotated[
        str,
        Option(metavar="CONDITION", help="Load only pages that match: 'connections > 20 and hosts < 50'."),
    ] = "",
    sample: Annotated[
        int | None, Option(min=1, metavar="N", help="Load a sample of N pages, with seed --seed or else 0.")
    ] = None,
    library: Annotated[
        list[Path] | None,
        Option(metavar="DIR", help="Folder in which URLs of lists are looked up; repeatable."),
    ] = None,
    *,
    reading: Reading,
    calibration: CalibrationOptions,
    settings: RunSettings,
    written: Written,
) -> None:
    """Load pages over networks with TCP Fast Open off and on, and report the time saved."""
    for one in inputs:
        if settings.report and one.endswith(".html") and not Path(one).exists():
            remedy = "it writes report.html into the run's folder, which -o DIR names"
            raise InputError(f"takes no file name such as {one}", "--report", remedy)
    requested = read_settings(written, COMMAND_LINE, combine=combine, named=network)
    corpus = None
    if where.strip() or sample is not None:
        if where.strip():
            Condition(where, KINDS)  # raises InputError if the condition is wrong, before pages are read
        corpus = Choice(where=where, sample=sample, seed=seed or 0)
    experiment = requested.experiment(name="run", pages=inputs, corpus=corpus, seed=seed or 0)
    if seed is None:
        experiment = with_drawn_seed(experiment, auto_engine(settings.kernel))
    pages = reading.pages(inputs, library or (), corpus, quiet=settings.quiet)
    pages = calibration.calibrated(pages, quiet=settings.quiet)
    given = {"inputs": inputs, "library": library or (), **vars(reading)}
    named = {*written, *(("rtt",) if network is not None else ())}
    settings.run(experiment, pages, named, seed_drawn=seed is None, **given)
