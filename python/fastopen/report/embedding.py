"""Data that goes into an HTML page: specifications and rows, small, and inert whatever they contain."""

import json
import re
from html import escape, unescape
from typing import Any, Final

from fastopen.report.figures import PAGE, Figure, rendered

# Of a figure as it is drawn beforehand.
BAR: Final = re.compile(
    r'(<path aria-label="(?P<said>[^"]*)" role="graphics-symbol" aria-roledescription="bar"[^>]*)/>'
)


def packed(figure: Figure) -> dict[str, Any]:
    """A figure for the page's script: its specification, and its rows as columns with texts numbered."""
    rows = figure.rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {
        "title": figure.title,
        "spec": figure.bare_spec(PAGE),
        "columns": [_column(name, [row.get(name) for row in rows]) for name in names],
    }


def _column(name: str, values: list[Any]) -> dict[str, Any]:
    """Texts as numbers into a list of levels; numbers to six digits, more than a screen can show."""
    if any(isinstance(value, str) for value in values):
        levels = list(dict.fromkeys(values))
        numbers = {level: number for number, level in enumerate(levels)}
        return {"name": name, "levels": levels, "values": [numbers[value] for value in values]}
    shorter = [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]
    return {"name": name, "values": shorter}


def script_json(value: Any) -> str:
    """JSON that can stand in a `script` element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def inline_svg(figure: Figure, prefix: str) -> str:
    """The figure drawn beforehand, for print and for readers without scripts; ids made its own."""
    svg = rendered(figure, "svg", PAGE).decode()
    svg = re.sub(r'(id="|url\(#|href="#)((?:clip|gradient)[\w-]*)', rf"\1{prefix}-\2", svg)
    return BAR.sub(_titled, svg)


def _titled(bar: re.Match[str]) -> str:
    """A bar with what it says as its tooltip."""
    return f"{bar[1]}><title>{escape(unescape(bar['said']), quote=False)}</title></path>"
