"""`--kernel A,B`: the same cells on several kernels of the virtual engine, and what changed between them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from rich import box
from rich.table import Table
from rich.text import Text

from fastopen import kernels
from fastopen.cli.output import console, print_json
from fastopen.errors import InputError
from fastopen.experiments import Experiment
from fastopen.report import results_document
from fastopen.statistics import Results
from fastopen.workflows.compare_kernels import Change, changes, verdict


def several(text: str | None) -> dict[str, str]:
    """Name to what was written, for each kernel of a list with commas; empty where it names one or none.

    Raises MachineError where one is not installed, InputError where one is named twice.
    """
    asked = [one.strip() for one in (text or "").split(",")]
    if len(asked) < 2:
        return {}
    named: dict[str, str] = {}
    for one in asked:
        if not one:
            raise InputError(f"{text!r} names a kernel without a name", "--kernel")
        name = kernels.find(one).name
        if name in named:
            raise InputError(f"{name} is named twice", "--kernel", "fastopen kernel list names them")
        named[name] = one
    return named


def on_virtual(experiment: Experiment) -> Experiment:
    """The experiment on the virtual engine alone. Raises InputError where another was asked for."""
    if "host" in experiment.engines:
        raise InputError(
            "several kernels are of the virtual engine", "--kernel", "leave --engine out, or say virtual"
        )
    return experiment.model_copy(update={"engines": ["virtual"]})


def beside(names: Mapping[str, str], carried: Callable[[str, str], Results], *, as_json: bool) -> bool:
    """Has `carried` run each kernel (by name, and as it was written), prints what changed from the first.

    Returns whether every cell of every kernel has a valid load.
    """
    found = {name: carried(name, written) for name, written in names.items()}
    (first, before), *others = found.items()
    compared = {name: list(changes(before, after)) for name, after in others}
    if as_json:
        print_json(
            {
                "format": "fastopen-kernels/1",
                "kernels": list(names),
                "changes": {name: [one.as_json() for one in rows] for name, rows in compared.items()},
                "results": {name: results_document(results) for name, results in found.items()},
            }
        )
    else:
        for name, rows in compared.items():
            _print((first, name), rows)
    return all(cell.loads > cell.invalid for results in found.values() for cell in results.cells)


def _print(names: tuple[str, str], found: Sequence[Change]) -> None:
    screen = console()
    for page, rows in groupby(found, key=lambda change: change.page):
        screen.print(_table(page, list(rows)))
    screen.print(Text(f"A: {names[0]}\nB: {names[1]}"))
    style = "yellow" if any(change.changed for change in found) else "green"
    screen.print(Text(verdict(names, found), style=style))
    screen.print(
        Text(
            "SYN data: connections that carried data in their SYN, of all. again: segments sent again.", "dim"
        )
    )


def _table(page: str, rows: Sequence[Change]) -> Table:
    table = Table(
        title=Text(page, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.pad_edge = False
    table.add_column("", no_wrap=True)
    table.add_column("network")
    for header in ("PLT ms\nA", "\nB", "B - A\nms", "\n%", "SYN data\nA", "\nB", "again\nA", "\nB"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.arm,
            row.where,
            *(_ms(cell.plt_ms_median) for cell in (row.before, row.after)),
            _signed(row.difference_ms, 3),
            _signed(row.difference_percent, 2),
            *(f"{cell.syn_data_connections}/{cell.connections}" for cell in (row.before, row.after)),
            *("-" if c.retransmitted is None else f"{c.retransmitted:g}" for c in (row.before, row.after)),
            style="bold" if row.changed else "",
        )
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _signed(value: float | None, digits: int) -> str:
    """`+0.104`, and `=` where there is no difference at all."""
    if value is None:
        return "-"
    return "=" if value == 0 else f"{value:+.{digits}f}"
