"""What stands first in a report: is it worth turning on, by how much, with what proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fastopen.attribution.phrases import plural, time
from fastopen.report.grids import signed
from fastopen.report.verdict import worth
from fastopen.statistics import CellResult, Results


@dataclass(frozen=True)
class Tile:
    """One figure in large type, and what it is."""

    figure: str
    label: str


@dataclass(frozen=True)
class Summary:
    """The verdict in a few words, the sentences that carry it, and its figures."""

    headline: str
    sentences: tuple[str, ...]
    tiles: tuple[Tile, ...]


def summarise_run(results: Results) -> Summary:
    """Of all pages and networks together. Warm cookies decide: TFO was made for them; else cold ones."""
    warm, cold = _of_arm(results, "warm"), _of_arm(results, "cold")
    judged = warm or cold
    told = [cell for cell in judged if cell.improvement_percent is not None]
    sentences = [_sentence(results, told)] if told else []
    if warm and cold:
        sentences += _first_visit([cell for cell in cold if cell.improvement_percent is not None])
    sentences += [_proof(judged)] if judged else []
    headline = worth(judged) or "Too few valid repeats to say what TFO does."
    return Summary(headline, tuple(sentences), tuple(_tiles(results, told)))


def _of_arm(results: Results, arm: str) -> list[CellResult]:
    return [cell for cell in results.cells if cell.cell.arm.name == arm]


def _gains(cells: Sequence[CellResult]) -> list[float]:
    return [cell.improvement_percent for cell in cells if cell.improvement_percent is not None]


def _spread(cells: Sequence[CellResult]) -> str:
    """`3.1 to 18.8 %`."""
    low, high = min(_gains(cells)), max(_gains(cells))
    shown = signed(low) if signed(low) == signed(high) else f"{signed(low)} to {signed(high)}"
    return f"{shown}\N{NO-BREAK SPACE}%"


def _sentence(results: Results, told: Sequence[CellResult]) -> str:
    sure = sum(cell.improvement_ci95 is not None and cell.improvement_ci95[0] > 0 for cell in told)
    slower = sum(cell.improvement_ci95 is not None and cell.improvement_ci95[1] < 0 for cell in told)
    return (
        f"With {told[0].cell.arm.name} cookies TFO changes the page load time of"
        f" {plural(len(results.pages), 'page')} by {_spread(told)} (sooner is positive), the middle one of"
        f" {plural(len(told), 'combination')} of page and network by {signed(median(_gains(told)))}"
        f"\N{NO-BREAK SPACE}%: surely sooner in {sure}, surely later in {slower}."
    )


def _first_visit(told: Sequence[CellResult]) -> list[str]:
    if not told:
        return []
    return [f"On a first visit, without cookies, it is {_spread(told)}."]


def _proof(cells: Sequence[CellResult]) -> str:
    carried = sum(cell.syn_data_connections for cell in cells)
    connections = sum(cell.connections for cell in cells)
    return (
        f"The kernels of both ends prove it: {carried:,} of {connections:,} connections of these loads"
        " carried data in their SYN."
    )


def _tiles(results: Results, told: Sequence[CellResult]) -> list[Tile]:
    loads = sum(cell.loads for cell in results.cells)
    valid = loads - sum(cell.invalid for cell in results.cells)
    tiles = []
    saved = [cell.saved_ms for cell in told if cell.saved_ms is not None]
    if saved:
        tiles.append(Tile(_spread(told), "of the page load time saved"))
        tiles.append(Tile(f"{time(min(saved))} to {time(max(saved))}", "saved a load, median of each"))
        carried = sum(cell.syn_data_connections for cell in told)
        connections = sum(cell.connections for cell in told)
        tiles.append(Tile(f"{carried:,} of {connections:,}", "connections sent data in the SYN"))
    tiles.append(Tile(f"{valid:,} of {loads:,}", "loads valid"))
    return tiles
