"""Embed figures in HTML pages, as compact data for a script and as SVG. Text from runs is escaped."""

import json
import re
from contextlib import suppress
from functools import cache
from html import escape, unescape
from importlib import metadata
from typing import Any, Final

import vl_convert as vlc

from fastopen.common.files import write_atomic
from fastopen.common.resources import cache_folder
from fastopen.report.figures import PAGE, VEGA_LITE, Figure, rendered

# The last statement of the bundled script, which lets the page's own script call vega-embed.
EXPOSED: Final = "window.vegaEmbed = vegaEmbed;"
# Matches a bar in the SVG of a figure, as vl-convert writes it.
BAR: Final = re.compile(
    r'(<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="bar"[^>]*)/>'
)


def packed(figure: Figure) -> dict[str, Any]:
    """Return data for the page's script: the figure's title, specification, and rows as compact columns."""
    rows = figure.rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {
        "title": figure.title,
        "spec": figure.bare_spec(PAGE),
        "columns": [_column(name, [row.get(name) for row in rows]) for name in names],
    }


def _column(name: str, values: list[Any]) -> dict[str, Any]:
    """Return a compact column: strings as indexes into its `levels`, floats with six significant digits."""
    if any(isinstance(value, str) for value in values):
        levels = list(dict.fromkeys(values))
        numbers = {level: number for number, level in enumerate(levels)}
        return {"name": name, "levels": levels, "values": [numbers[value] for value in values]}
    shorter = [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]
    return {"name": name, "values": shorter}


def script_json(value: Any) -> str:
    """Return the value as JSON, escaped so that it cannot end a `script` element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return the figure as SVG, for print and for readers without scripts. `prefix` makes its ids unique."""
    svg = rendered(figure, "svg", PAGE).decode()
    svg = re.sub(r'(id="|url\(#|href="#)((?:clip|gradient)[\w-]*)', rf"\1{prefix}-\2", svg)
    # Give each bar its description as a tooltip.
    return BAR.sub(lambda bar: f"{bar[1]}><title>{escape(unescape(bar[2]), quote=False)}</title></path>", svg)


@cache
def library() -> str:
    """Return the JavaScript libraries Vega, Vega-Lite and vega-embed as one script of 0.9 MB. Bundling takes
    seconds, so the script is stored in the user's cache folder if possible."""
    path = cache_folder("report") / f"vega-{metadata.version('vl-convert-python')}-{VEGA_LITE}.js"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script = _bundled()
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Replace the file atomically, because another process may read it at the same time.
            write_atomic(path, script)
        return script


def _bundled() -> str:
    bundle = vlc.javascript_bundle(EXPOSED, VEGA_LITE)
    return "(() => {" + bundle.replace("</script", "<\\/script") + "})();"
