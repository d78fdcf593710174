"""What stands first in a report: is it worth turning on, by how much, with what proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from fastopen.attribution.phrases import NBSP, gain, percent, plural, time, with_sign
from fastopen.report.verdict import worth
from fastopen.statistics import CellResult, Results

COMBINATIONS: Final = ("combination of page and network", "combinations of page and network")


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
    """`+3.1 to +18.8 %`."""
    low, high = min(_gains(cells)), max(_gains(cells))
    shown = with_sign(low) if with_sign(low) == with_sign(high) else f"{with_sign(low)} to {with_sign(high)}"
    return f"{shown}{NBSP}%"


def _sooner(cells: Sequence[CellResult]) -> str:
    """`3.1 to 18.8 % sooner`, `between 5.1 % later and 2.8 % sooner`."""
    low, high = (round(end, 1) for end in (min(_gains(cells)), max(_gains(cells))))
    if low < 0 < high:
        return f"between {percent(low)} later and {percent(high)} sooner"
    small, large = sorted((abs(low), abs(high)))
    word = "sooner" if high > 0 else "later"
    return f"{percent(large)} {word}" if small == large else f"{small:.1f} to {percent(large)} {word}"


def _sentence(results: Results, told: Sequence[CellResult]) -> str:
    visit = (
        "a repeat visit (warm cookies)" if told[0].cell.arm.name == "warm" else "a first visit (cold cookies)"
    )
    pages = list(results.pages)
    what = pages[0] if len(pages) == 1 else f"these {len(pages)} pages"
    said = f"On {visit} TFO loads {what} {_sooner(told)}"
    if len(told) == 1:
        return f"{said}."
    return f"{said}, {gain(median(_gains(told)))} in the median of {_places(results, told)}: {_sure(told)}."


def _places(results: Results, told: Sequence[CellResult]) -> str:
    """`12 combinations of page and network`, `3 networks`."""
    combined = len(results.pages) > 1
    return plural(len(told), *COMBINATIONS) if combined else plural(len(told), "network")


def _sure(told: Sequence[CellResult]) -> str:
    """`sooner in all`, `surely sooner in 9, surely later in 1, in 2 nobody can tell`."""
    intervals = [cell.improvement_ci95 for cell in told]
    sooner = sum(one is not None and one[0] > 0 for one in intervals)
    later = sum(one is not None and one[1] < 0 for one in intervals)
    if len(told) in (sooner, later):
        return f"{'sooner' if sooner else 'later'} in every one"
    unclear = len(told) - sooner - later
    counts = {"sooner in": sooner, "later in": later, "no difference that could be told in": unclear}
    return ", ".join(f"{words} {count}" for words, count in counts.items() if count)


def _first_visit(told: Sequence[CellResult]) -> list[str]:
    if not told:
        return []
    return [f"On a first visit, while servers hand out their cookies, it is {_sooner(told)}."]


def _proof(cells: Sequence[CellResult]) -> str:
    carried = sum(cell.syn_data_connections for cell in cells)
    connections = sum(cell.connections for cell in cells)
    return (
        f"The kernels of both ends prove it: {carried:,} of {connections:,} connections of the loads with"
        f" {cells[0].cell.arm.name} cookies carried data in their SYN."
    )


def _tiles(results: Results, told: Sequence[CellResult]) -> list[Tile]:
    loads = sum(cell.loads for cell in results.cells)
    valid = loads - sum(cell.invalid for cell in results.cells)
    tiles = []
    saved = [cell.saved_ms for cell in told if cell.saved_ms is not None]
    if saved:
        tiles.append(Tile(_spread(told), "of the page load time saved"))
        low, high = time(min(saved)), time(max(saved))
        tiles.append(Tile(low if low == high else f"{low} to {high}", "saved a load, in the median"))
        carried = sum(cell.syn_data_connections for cell in told)
        connections = sum(cell.connections for cell in told)
        tiles.append(Tile(f"{carried:,} of {connections:,}", "connections sent data in the SYN"))
    tiles.append(Tile(f"{valid:,} of {loads:,}", "loads valid"))
    return tiles
