"""How every figure looks: colours that the colour-blind can tell apart, fonts, sizes, and names of things.

Colours are those of Okabe and Ito (2008); where two arms meet they differ in shape and dash too, so that a
grey print can be read. The fonts come with vl-convert, so that files look the same on every machine.
"""

from dataclasses import dataclass
from typing import Any, Final

from fastopen.attribution import Kind

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
SIZE: Final = 11

# "Off" is a grey of its own that can be seen on white and on black.
ARM_COLOURS: Final = {"off": "#7a7a7a", "off2": "#56b4e9", "cold": "#e69f00", "warm": "#009e73"}
ARM_NAMES: Final = {
    "off": "no TFO",
    "off2": "no TFO, again",
    "cold": "TFO, cold cookies",
    "warm": "TFO, warm cookies",
}
# Where room is short.
ARM_WORDS: Final = {"off": "no TFO", "off2": "again", "cold": "cold", "warm": "warm"}
ARM_SHAPES: Final = {"off": "circle", "off2": "cross", "cold": "triangle-up", "warm": "square"}
ARM_DASHES: Final = {"off": [1, 0], "off2": [8, 2, 2, 2], "cold": [2, 3], "warm": [6, 3]}

KIND_COLOURS: Final = {
    Kind.LOOK_UP: "#cc79a7",
    Kind.QUEUEING: "#b5b5b5",
    Kind.HANDSHAKE: "#d55e00",
    Kind.TLS: "#8c3d00",
    Kind.WAIT: "#56b4e9",
    Kind.TRANSFER: "#0072b2",
    Kind.PROCESSING: "#f0e442",
}
THEIRS: Final = "#cc79a7"


@dataclass(frozen=True)
class Style:
    """What differs between a file and a page that may be dark."""

    ink: str
    background: str


# On paper. In a page, text takes the colour of what stands around it, in the dark and in print as well.
PAPER: Final = Style(ink="#1a1a1a", background="white")
PAGE: Final = Style(ink="currentColor", background="transparent")


def config(style: Style) -> dict[str, Any]:
    """The Vega-Lite configuration of a figure."""
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
