"""Define `fastopen validate transfer`: predict a page's loads over other networks, and compare with loads."""

from typing import Annotated

import typer
from rich.text import Text

from fastopen.apps.validate.page_load_options import PageLoadOptions, one_network
from fastopen.apps.validate.transfer_loads import Prediction, Transfer, summary
from fastopen.cli.output import (
    EXIT_FAULTS,
    console,
    nothing_to_compare_when_interrupted,
    print_json,
    print_message,
    shown,
)
from fastopen.cli.progress import page_watchers
from fastopen.cli.reading import Reading
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.cli.tables import print_grid
from fastopen.common.errors import InputError
from fastopen.common.grid import figures, keys, listing
from fastopen.experiments import networks_asked


@with_settings
def transfer(
    pages: Annotated[list[str], typer.Argument(help="Packaged pages or files.", metavar="PAGE...")],
    from_rtt: Annotated[str, typer.Option("--from", metavar="RTT", help="RTT of the one load.")] = "20ms",
    to_rtt: Annotated[
        str, typer.Option("--to", metavar="RTT,RTT", help="RTTs of the networks to predict.")
    ] = "50ms,200ms",
    from_down: Annotated[str, typer.Option(help="Rate to the client of the one load.")] = "4mbit",
    to_down: Annotated[
        str | None, typer.Option(help="Rate of the networks to predict. (default: the same)")
    ] = None,
    from_up: Annotated[str, typer.Option(help="Rate from the client of the one load.")] = "256kbit",
    to_up: Annotated[
        str | None, typer.Option(help="Rate of the networks to predict. (default: the same)")
    ] = None,
    to_loss: Annotated[str, typer.Option(help="Random loss of the networks to predict.")] = "0%",
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            "-n",
            min=1,
            help="Samples of each predicted load, of which the median counts; 1 loads without variation.",
        ),
    ] = 1,
    json: JsonOption = False,
    quiet: QuietOption = False,
    *,
    reading: Reading,
    loading: PageLoadOptions,
) -> None:
    """Load each page once in Chromium, predict its loads over other networks, and compare.

    The prediction uses only that one load, imported from its HAR. Exit codes: 0 done; 1 a load is missing."""
    before = one_network(from_rtt, from_down, from_up, option="--from")
    after = networks_asked(rtt=to_rtt, down=to_down or from_down, up=to_up or from_up, loss=to_loss)
    task = Transfer(before, after, loading.page_loads(), repeats)
    imported = [one.page for one in reading.pages(pages, quiet=quiet)]
    found: list[Prediction] = []
    failed = False
    with nothing_to_compare_when_interrupted(), page_watchers(quiet=quiet) as watch:
        for one in task.predictions(imported, watch):
            if isinstance(one, InputError):
                print_message(f"left out: {one}")
                failed = True
            else:
                found.append(one)
    if json:
        print_json(
            {"format": "fastopen-transfer/1", "pages": [one.as_json() for one in found], **summary(found)}
        )
    else:
        _print(found)
    if failed or any(one.difference_ms is None for one in found):
        raise typer.Exit(EXIT_FAULTS)


def _print(found: list[Prediction]) -> None:
    columns = (
        *keys("page", "arm", "predicted by"),
        *figures("RTT\nms", "down\nMbit/s", "loss\n%", "measured\nms", "predicted\nms"),
        *figures("draws\nspan", "error\n%", "saving off\npoints"),
    )
    rows = []
    for one in found:
        rate = one.after.down.rate_bit_per_s
        rows.append(
            (
                *(one.page, one.arm, one.client, f"{one.after.rtt_us / 1000:g}"),
                *("-" if rate is None else f"{rate / 1e6:g}", f"{100 * one.after.down.loss:g}"),
                *(shown(one.measured_ms), shown(one.predicted_ms), _span(one.predicted_range_ms)),
                *(shown(one.difference_percent, sign=True), shown(one.saving_error_points, sign=True)),
            )
        )
    print_grid(listing(columns, rows))
    screen = console()
    for one in found:
        if one.error is not None:
            where = f"{one.page}, {one.arm}, {one.after.rtt_us / 1000:g} ms, {one.client}"
            screen.print(
                Text(f"{where}: {one.error.kind}: {one.error.sentence()}", style="dim"), soft_wrap=True
            )
    totals = summary(found)
    if totals["in_range_percent"] is not None:
        screen.print(
            f"{shown(totals['in_range_percent'])} % of measured times lie in the range of the samples."
        )
    screen.print(
        f"Absolute error: {shown(totals['median_error_percent'])} % in the median,"
        f" {shown(totals['worst_error_percent'])} % at worst; savings are"
        f" {shown(totals['median_saving_error_points'])} points off in the median."
    )


def _span(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.0f} to {ends[1]:.0f}"
