"""What comes first in a report: is it worth turning on, by how much, with what proof."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from fastopen.attribution.phrases import NBSP, gain, percent, plural, time, with_sign
from fastopen.experiments import treatments_of
from fastopen.report.verdict import outcome, worth
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
    """Of all pages and networks together. The headline arm decides."""
    arms = treatments_of(results.experiment.arms)
    of_arm = [[cell for cell in results.cells if cell.cell.arm.name == arm.name] for arm in arms]
    judged = of_arm[0] if of_arm else []
    valid = [cell for cell in judged if cell.improvement_percent is not None]
    sentences = [_sentence(results, valid)] if valid else []
    for arm, cells in zip(arms[1:], of_arm[1:], strict=True):
        if any(cell.improvement_percent is not None for cell in cells):
            sentences.append(f"On {arm.visit} it is {_sooner(cells)}.")
    if carried := _carried(judged):
        sentences.append(
            f"The kernels of both ends prove it: {carried} connections of the loads {arms[0].words} carried"
            " data in their SYN."
        )
    headline = worth(judged) or "Too few valid repeats to say what TFO does."
    return Summary(headline, tuple(sentences), tuple(_tiles(results, valid)))


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


def _sentence(results: Results, cells: Sequence[CellResult]) -> str:
    pages = list(results.pages)
    what = pages[0] if len(pages) == 1 else f"these {len(pages)} pages"
    sentence = f"On {cells[0].cell.arm.visit} TFO loads {what} {_sooner(cells)}"
    if len(cells) == 1:
        return f"{sentence}."
    places = plural(len(cells), *COMBINATIONS) if len(pages) > 1 else plural(len(cells), "network")
    return f"{sentence}, {gain(median(_gains(cells)))} in the median of {places}: {_sure(cells)}."


def _sure(cells: Sequence[CellResult]) -> str:
    """`sooner in every one`, `sooner in 9, later in 1, no difference that could be told in 2`."""
    counts = Counter(outcome(cell) for cell in cells)
    sooner, later = counts["sooner"], counts["later"]
    if len(cells) in (sooner, later):
        return f"{'sooner' if sooner else 'later'} in every one"
    words = {
        "sooner": sooner,
        "later": later,
        "no difference that could be told": len(cells) - sooner - later,
    }
    return ", ".join(f"{what} in {count}" for what, count in words.items() if count)


def _carried(cells: Sequence[CellResult]) -> str:
    """`1,000 of 1,000`: connections with data in their SYN; empty where there is none at all."""
    connections = sum(cell.connections for cell in cells)
    return f"{sum(cell.syn_data_connections for cell in cells):,} of {connections:,}" if connections else ""


def _tiles(results: Results, judged: Sequence[CellResult]) -> list[Tile]:
    loads = sum(cell.loads for cell in results.cells)
    valid = loads - sum(cell.invalid for cell in results.cells)
    tiles = []
    saved = [cell.saved_ms for cell in judged if cell.saved_ms is not None]
    if saved:
        tiles.append(Tile(_spread(judged), "of the page load time saved"))
        low, high = time(min(saved)), time(max(saved))
        tiles.append(Tile(low if low == high else f"{low} to {high}", "saved a load, in the median"))
        tiles.append(Tile(_carried(judged), "connections sent data in the SYN"))
    tiles.append(Tile(f"{valid:,} of {loads:,}", "loads valid"))
    return tiles
