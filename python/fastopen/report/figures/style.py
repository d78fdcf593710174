"""Define the look of all figures: fonts, sizes, and colours that colour-blind readers can distinguish.

The colours are from Okabe and Ito (2008). Each arm has its own colour, shape and dash, so that figures are
also readable in grey. The fonts come with vl-convert, so that files look the same on every machine.
"""

from dataclasses import dataclass
from typing import Any, Final

from fastopen.analysis.attribution import Kind

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
SIZE: Final = 12

KIND_COLOURS: Final = {
    Kind.LOOK_UP: "#cc79a7",
    Kind.QUEUEING: "#b5b5b5",
    Kind.HANDSHAKE: "#d55e00",
    Kind.TLS: "#8c3d00",
    Kind.WAIT: "#56b4e9",
    Kind.TRANSFER: "#0072b2",
    Kind.PROCESSING: "#f0e442",
}
PUBLISHED_COLOUR: Final = "#cc79a7"


@dataclass(frozen=True)
class Style:
    """Colours that differ between files and web pages, because a web page may be dark."""

    ink: str
    background: str


# On a page, text takes the surrounding colour, so that dark mode and print use the same drawing.
PAPER: Final = Style(ink="#1a1a1a", background="white")
PAGE: Final = Style(ink="currentColor", background="transparent")


def config(style: Style) -> dict[str, Any]:
    quiet = {"labelColor": style.ink, "titleColor": style.ink}
    return {
        "background": style.background,
        "font": FONT,
        "axis": {
            **quiet,
            "labelFontSize": SIZE,
            "titleFontSize": SIZE,
            "titleFontWeight": "normal",
            "domainColor": style.ink,
            "tickColor": style.ink,
            "gridColor": style.ink,
            "gridOpacity": 0.13,
            "labelFlush": False,
            "domainOpacity": 0.5,
            "tickOpacity": 0.5,
        },
        "legend": {
            **quiet,
            "labelFontSize": SIZE,
            "labelLimit": 0,
            "title": None,
            "orient": "top",
            "direction": "horizontal",
            "symbolStrokeWidth": 2,
            "columns": 6,
        },
        "header": {
            **quiet,
            "labelFontSize": SIZE + 1,
            "labelFontWeight": "bold",
            "title": None,
            "labelAnchor": "start",
            "labelLimit": 0,
        },
        "title": {"color": style.ink, "fontSize": SIZE + 1, "anchor": "start", "frame": "group"},
        "text": {"color": style.ink, "fontSize": SIZE},
        "rule": {"color": style.ink},
        "tick": {"color": style.ink},
        "view": {"stroke": None},
        "facet": {"spacing": 24},
        "concat": {"spacing": 24},
    }
