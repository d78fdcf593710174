"""`--kernel A,B`: what changed between the kernels of the virtual engine, as tables or as JSON."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from fastopen.cli.output import console, figures_table, print_json, shown
from fastopen.report import results_document
from fastopen.statistics import Results
from fastopen.workflows.compare_kernels import KernelChange, changes, verdict


def print_comparison(of_kernel: Mapping[str, Results], *, as_json: bool) -> None:
    """What changed from the first kernel to each other one. `of_kernel`: the results by the kernel's name."""
    (first, before), *others = of_kernel.items()
    compared = {name: list(changes(before, after)) for name, after in others}
    if as_json:
        print_json(
            {
                "format": "fastopen-kernels/1",
                "kernels": list(of_kernel),
                "changes": {name: [one.as_json() for one in rows] for name, rows in compared.items()},
                "results": {name: results_document(results) for name, results in of_kernel.items()},
            }
        )
    else:
        for name, rows in compared.items():
            _print((first, name), rows)


def _print(names: tuple[str, str], found: Sequence[KernelChange]) -> None:
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


def _table(page: str, rows: Sequence[KernelChange]) -> Table:
    headers = ("PLT ms\nA", "\nB", "B - A\nms", "\n%", "SYN data\nA", "\nB", "again\nA", "\nB")
    table = figures_table(page, ("", "network"), headers)
    for row in rows:
        cells = (row.before, row.after)
        table.add_row(
            row.arm,
            row.where,
            *(shown(cell.plt_ms_median) for cell in cells),
            _signed(row.difference_ms, 3),
            _signed(row.difference_percent, 2),
            *(f"{cell.syn_data_connections}/{cell.connections}" for cell in cells),
            *("-" if cell.retransmitted is None else f"{cell.retransmitted:g}" for cell in cells),
            style="bold" if row.changed else "",
        )
    return table


def _signed(value: float | None, digits: int) -> str:
    """`+0.104`, and `=` where there is no difference at all."""
    return "=" if value == 0 else shown(value, sign=True, digits=digits)
