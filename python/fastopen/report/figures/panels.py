"""Small multiples: a panel for each page and each combination of factors, where one factor alone varies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastopen.analysis.attribution import Place, Source, axis_of, curves_of

# More panels than this fill no page.
PANELS_MAX: Final = 24


@dataclass(frozen=True)
class Panels:
    """The panels of a figure, and the factor that its panels are drawn against."""

    heading: str
    """Of the axis, with the unit."""
    places: tuple[tuple[str, str, Place], ...]
    """Title of the panel, text on the axis, and the place."""
    left_out: str
    """A sentence on the panels that there is no room for; empty where there is."""

    def each(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Each place, and what its rows say of where they are drawn."""
        for title, text, place in self.places:
            page = place.comparison.page
            yield place, {"page": page, "place": place.name, "panel": title, "x": text}


def panels_of(source: Source) -> Panels:
    """Return the panels of all pages, drawn against the factor that decides."""
    axis = axis_of(source.results)
    titles: list[str] = []
    places = []
    for page in source.results.pages:
        for curve in curves_of(source.results, source.places(page), axis.name):
            titles.append(title_of(source, page, curve.name))
            places += [(titles[-1], place.texts.get(axis.name, place.name), place) for place in curve.places]
    shown = titles[:PANELS_MAX]
    left = f" The first {PANELS_MAX} of {len(titles)} panels are shown." if len(titles) > PANELS_MAX else ""
    return Panels(axis.heading, tuple(one for one in places if one[0] in shown), left)


def title_of(source: Source, page: str, name: str) -> str:
    """Return the panel's title: the page, if there are several, and other factors that vary."""
    several = len(source.results.pages) > 1
    return ", ".join(part for part in (page if several or not name else "", name) if part)


def columns_of(rows: Sequence[Mapping[str, Any]], width: int, most: int = 680) -> int:
    """Return the number of panels of this width side by side. A page's panels fill rows of their own."""
    of_page: dict[str, set[str]] = {}
    for row in rows:
        of_page.setdefault(row.get("page", ""), set()).add(row["panel"])
    panels = sum(map(len, of_page.values()))
    room = max(1, min(panels, most // (width + 40)))
    each = max(map(len, of_page.values()))
    even = [count for count in range(2, room + 1) if each > 1 and each % count == 0]
    return max(even, default=room)
