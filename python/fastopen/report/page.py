"""Write the report of a run as one HTML file that needs no network. Jinja2 escapes all text from the run."""

from typing import Any, Final

from markupsafe import Markup

from fastopen.analysis.attribution import RunAnalysis
from fastopen.report.embedding import library, packed, script_json
from fastopen.report.figures import Figure, median_loads, overview_figures
from fastopen.report.figures.requests import loads_waterfall, timing_breakdown
from fastopen.report.figures.tcp_trace import has_trace, tcp_trace
from fastopen.report.sections import PARTS, drawn, part_html, subject
from fastopen.report.templates import asset, whole_page

# The maximum size in bytes of the data on single loads, so that phones can open the report, too.
LOADS_BYTES_MAX: Final = 5_000_000


def html(analysis: RunAnalysis) -> str:
    """Return the report of a run as an HTML page, with charts that scripts in the page draw."""
    results = analysis.results
    overview = overview_figures(analysis)
    loads, left_out = _loads(analysis)
    data = script_json(
        {
            "figures": {figure.name: packed(figure) for figure in overview},
            "loads": [{**choice, "figures": data} for choice, _, data in loads],
        }
    )
    scripts = {"library": library(), "own": asset("report.js"), "data": data}
    return whole_page(
        "report.html.jinja",
        *(scripts["library"], scripts["own"]),
        experiment=results.experiment,
        environment=results.environment,
        status=results.status,
        subject=subject(results),
        parts={part: part_html(part, analysis) for part in PARTS},
        only_rtt=all(factor.name == "rtt" for factor in results.factors.varying),
        figures=[drawn(figure) for figure in overview],
        loads=[one[0] for one in loads],
        first_load=[drawn(figure) for figure in (loads[0][1] if loads else ())],
        left_out=left_out,
        scripts={name: Markup(text) for name, text in scripts.items()},  # noqa: S704  # own files, or escaped
    )


def _loads(analysis: RunAnalysis) -> tuple[list[tuple[dict[str, str], tuple[Figure, ...], Any]], int]:
    """Return (items, number of items left out because of LOADS_BYTES_MAX). An item is (menu entries, figures,
    figure data for scripts), for the example loads of one page, network and setup."""
    taken: list[tuple[dict[str, str], tuple[Figure, ...], Any]] = []
    size, loads = 0, list(median_loads(analysis))
    # All loads need the same figures, because the figures of a chosen load replace the figures on the page.
    traced = any(has_trace(shown) for _, _, shown in loads)
    drawn = (loads_waterfall, *([tcp_trace] if traced else []), timing_breakdown)
    for page, place, shown in loads:
        figures = tuple(draw(page, place, shown, "chosen") for draw in drawn)
        data = [packed(figure) for figure in figures]
        size += len(script_json(data))
        if size > LOADS_BYTES_MAX and taken:
            break
        taken.append(({"page": page.name, "place": place}, figures, data))
    return taken, len(loads) - len(taken)
