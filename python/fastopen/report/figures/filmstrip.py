"""Draw film strips of a browser's screenshots, with a row for each arm, and animated GIFs."""

from __future__ import annotations

import io
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastopen.analysis.attribution import RunAnalysis, Shown
from fastopen.common.errors import InputError, MachineError, pip_install
from fastopen.report.figures.gallery import median_loads, slug_of
from fastopen.runs.export.folder import atomic_folder

if TYPE_CHECKING:
    from PIL import ImageDraw
    from PIL.Image import Image

COLUMNS_MAX: Final = 12
STEPS_MS: Final = (50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10_000, 30_000, 60_000)
"""Possible intervals between pictures. A strip uses the shortest that needs at most COLUMNS_MAX pictures."""
AFTER: Final = 1.5
"""A strip or animation ends at this multiple of the longest page load time of its loads."""
THUMBNAIL: Final = 180
"""Width of a picture in a strip, in pixels."""
SIDE_MAX: Final = 1000
"""The largest accepted side of a picture, in pixels. Screenshots of loads are less than half as large."""
GAP: Final = 12
LABEL: Final = 150
"""Width of the column with the labels of the loads, in pixels."""
LINE: Final = 22
"""Height of a line of text, in pixels."""
FONT: Final = 15
MOVING_STEP_MS: Final = 50
"""The shortest time between two pictures of an animation. It is a multiple of GIF's unit, 10 ms."""
MOVING_MAX: Final = 1200
"""The approximate maximum number of pictures in an animation. Longer animations show each picture longer."""
LAST_MS: Final = 3000
"""The time for which an animation shows its last picture."""
WHITE, BLACK, GREY, CHANGED = "white", "#222222", "#bbbbbb", "#e8710a"


@dataclass(frozen=True)
class Film:
    """Screenshots from a load, all of the same size, and the times in ms when they appeared."""

    label: str
    plt_ms: float
    times: tuple[float, ...]
    pictures: tuple[Image, ...]

    def at(self, moment_ms: float) -> int:
        """Return the index of the picture that the browser showed at this time."""
        return max(bisect_right(self.times, moment_ms) - 1, 0)


def export_filmstrips(
    analysis: RunAnalysis, place: Path, folder: Path, *, replace: bool = False, watch: Callable[[int], None]
) -> int:
    """Write screenshots of example loads, without and with TFO, as a strip (PNG) and an animation (GIF) for
    each page, network and setup. Return the number of strips. `place` is the run's folder, for messages.
    `watch` is called with the number of strips so far. Raises MachineError without Pillow, and InputError for
    missing or damaged screenshots."""
    count = 0
    with atomic_folder(folder, replace=replace) as unfinished:
        for count, (name, title, films) in enumerate(_films(analysis, place), 1):
            strip(title, films).save(unfinished / f"{name}.png", optimize=True)
            _save_moving(title, films, unfinished / f"{name}.gif")
            watch(count)
        if not count:
            raise InputError(
                "has no film strips",
                str(place),
                "load again with fastopen run PAGE --client chromium --filmstrip",
            )
    return count


def _films(analysis: RunAnalysis, place: Path) -> Iterator[tuple[str, str, list[Film]]]:
    for number, (page, where, loads) in enumerate(median_loads(analysis), 1):
        films = [film for label, shown in loads.items() if (film := _film(label, shown, place))]
        if films:
            yield f"{number:03}-{slug_of(f'{page.name}-{where}')}", f"{page.name}, {where}", films


def _film(label: str, shown: Shown, place: Path) -> Film | None:
    browser = shown.record.browser
    if browser is None or not browser.frames:
        return None
    try:
        pictures = [_picture(frame.jpeg) for frame in browser.frames]
    except (OSError, ValueError, SyntaxError):
        remedy = "load the page again with fastopen run PAGE --client chromium --filmstrip"
        raise InputError("a stored picture is damaged", str(place), remedy) from None
    size = pictures[-1].size
    return Film(
        label=label,
        plt_ms=shown.path.plt_ns / 1e6,
        times=tuple(frame.at_ns / 1e6 for frame in browser.frames),
        pictures=tuple(one if one.size == size else one.resize(size) for one in pictures),
    )


def _picture(jpeg: str) -> Image:
    """Decode a base64-encoded JPEG. Raises OSError, ValueError or SyntaxError if malformed or too large."""
    try:
        from PIL import Image
    except ImportError:
        raise MachineError("film strips need Pillow, which is not installed", pip_install("pillow")) from None
    opened = Image.open(io.BytesIO(b64decode(jpeg, validate=True)), formats=["JPEG"])
    if max(opened.size) > SIDE_MAX:
        raise ValueError(f"{opened.width} x {opened.height} pixels")
    return opened.convert("RGB")


def end_ms(films: list[Film]) -> float:
    """Return when a film strip ends, in ms: after the last load event, because pages may still change."""
    return AFTER * max(film.plt_ms for film in films)


def strip(title: str, films: list[Film]) -> Image:
    """Draw a row of pictures for each load, at equal intervals of time. A picture that differs from the
    previous one has a coloured frame."""
    end = end_ms(films)
    step = next((step for step in STEPS_MS if end / step <= COLUMNS_MAX - 1), STEPS_MS[-1])
    lefts = [LABEL + column * (THUMBNAIL + GAP) for column in range(min(ceil(end / step) + 1, COLUMNS_MAX))]
    size = _size(films, THUMBNAIL)
    below = size[1] + LINE + GAP
    canvas, draw = _canvas(title, lefts[-1] + THUMBNAIL + 2 * GAP, 2 * LINE + len(films) * below + GAP)
    for column, left in enumerate(lefts):
        draw.text((left, LINE + GAP // 2), seconds(column * step), BLACK)
    for row, film in enumerate(films):
        top = 2 * LINE + GAP + row * below
        draw.multiline_text((GAP, top), f"{film.label}\nPLT {seconds(film.plt_ms)}", BLACK)
        loaded = min(ceil(film.plt_ms / step), len(lefts) - 1)
        for column, left in enumerate(lefts):
            index, before = film.at(column * step), film.at((column - 1) * step)
            changed = column > 0 and film.pictures[index].tobytes() != film.pictures[before].tobytes()
            _paste(canvas, draw, film.pictures[index].resize(size), (left, top), changed=changed)
            if column == loaded:
                draw.text((left, top + size[1] + 2), "load event over", CHANGED)
    return canvas


def _save_moving(title: str, films: list[Film], path: Path) -> None:
    """Write a GIF animation that shows all loads side by side."""
    end = end_ms(films)
    step = max(MOVING_STEP_MS, round(end / MOVING_MAX / 10) * 10)
    pictures = [_frame(title, films, moment).quantize(128) for moment in range(0, int(end) + step, step)]
    durations = [*(step for _ in pictures[1:]), LAST_MS]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=durations, loop=0)


def _frame(title: str, films: list[Film], moment_ms: int) -> Image:
    size = _size(films, 2 * THUMBNAIL)
    canvas, draw = _canvas(title, GAP + len(films) * (size[0] + GAP), 3 * LINE + size[1] + GAP)
    for column, film in enumerate(films):
        left, loaded = GAP + column * (size[0] + GAP), moment_ms >= film.plt_ms
        draw.text((left, LINE + GAP // 2), film.label, BLACK)
        passed = seconds(min(moment_ms, film.plt_ms))
        draw.text((left + THUMBNAIL, LINE + GAP // 2), passed, CHANGED if loaded else BLACK)
        picture = film.pictures[film.at(moment_ms)].resize(size)
        _paste(canvas, draw, picture, (left, 3 * LINE), changed=loaded)
    return canvas


def seconds(ms: float) -> str:
    """Format a time in seconds, with a plain space because Pillow's built-in font has no narrow space."""
    return f"{ms / 1000:.2f} s"


def _canvas(title: str, width: int, height: int) -> tuple[Image, ImageDraw.ImageDraw]:
    from PIL import Image, ImageDraw, ImageFont

    canvas = Image.new("RGB", (width, height), WHITE)
    draw = ImageDraw.Draw(canvas)
    draw.font = ImageFont.load_default(FONT)
    draw.text((GAP, GAP // 2), title, BLACK)
    return canvas, draw


def _size(films: list[Film], width: int) -> tuple[int, int]:
    """Return the size of a picture, (width, height) in pixels, with the first load's aspect ratio."""
    picture = films[0].pictures[-1]
    return width, max(round(width * picture.height / picture.width), 1)


def _paste(
    canvas: Image, draw: ImageDraw.ImageDraw, picture: Image, at: tuple[int, int], *, changed: bool
) -> None:
    canvas.paste(picture, at)
    corners = (at[0] - 2, at[1] - 2, at[0] + picture.width + 1, at[1] + picture.height + 1)
    draw.rectangle(corners, outline=CHANGED if changed else GREY, width=2 if changed else 1)
