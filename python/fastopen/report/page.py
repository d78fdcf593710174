"""A report as one HTML file that needs no network: Jinja2 escapes whatever a page brings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from fastopen.attribution import Answer, Source, page_answers, run_answers
from fastopen.attribution.phrases import NBSP, listed
from fastopen.figures import Figure, median_loads, overview_figures
from fastopen.figures.requests import timing_breakdown, waterfall
from fastopen.figures.tcp_trace import has_trace, tcp_trace
from fastopen.report.browser_metrics import cache_lines
from fastopen.report.deciding import deciding_lines
from fastopen.report.embedding import inline_svg, packed, script_json
from fastopen.report.first_flight import first_flight_lines
from fastopen.report.grids import detail_grids, fixed_rates, published_grid, result_grid, spread_words
from fastopen.report.method import environment_facts, method_paragraphs
from fastopen.report.paths import payoff_lines
from fastopen.report.published import comparison_sentences
from fastopen.report.summary import summarise_run
from fastopen.report.surprises import surprise_lines
from fastopen.report.templates import asset, environment, policy
from fastopen.report.vega import library
from fastopen.report.verdict import page_verdicts
from fastopen.statistics import Results, discrepancies

# Of more pages a heading gives the number alone.
NAMED_PAGES: Final = 4
# What single loads may take of the file: a report opens on a phone, too.
LOADS_BYTES_MAX: Final = 5_000_000


@dataclass(frozen=True)
class Drawn:
    """A figure, and its drawing for readers without scripts."""

    figure: Figure
    svg: Markup


def html(source: Source) -> str:
    """The whole file."""
    results = source.results
    overview = overview_figures(source)
    loads, left_out = _loads(source)
    data = script_json(
        {
            "figures": {figure.name: packed(figure) for figure in overview},
            "loads": [{**choice, "figures": data} for choice, _, data in loads],
        }
    )
    scripts = {"library": library(), "own": asset("report.js"), "data": data}
    first = loads[0][1] if loads else ()
    pages = [_page(source, name) for name in results.pages]
    notes = {page["grid"].note for page in pages}
    template = environment().get_template("report.html.jinja")
    return template.render(
        experiment=results.experiment,
        environment=results.environment,
        status=results.status,
        summary=summarise_run(results),
        subject=_subject(results),
        pages=pages,
        common_note=notes.pop() if len(notes) == 1 else "",
        published=published_grid(results),
        comparison=[
            line.removeprefix("- ") for line in comparison_sentences(results, discrepancies(results))
        ],
        spread=spread_words(results.cells),
        only_rtt=all(factor.name == "rtt" for factor in results.factors.varying),
        figures=[_drawn(figure) for figure in overview],
        loads=[one[0] for one in loads],
        first_load=[_drawn(figure) for figure in first],
        left_out=left_out,
        run_answers=run_answers(results, source.attribution),
        grids=detail_grids(source),
        method=list(method_paragraphs(source)),
        facts=environment_facts(source),
        style=Markup(asset("report.css")),  # noqa: S704  # ours
        scripts={name: Markup(text) for name, text in scripts.items()},  # noqa: S704  # ours, or script_json
        policy=policy(scripts["library"], scripts["own"]),
    )


def _subject(results: Results) -> str:
    """`wikipedia-2018; RTT 20 and 50 ms, 20 Mbit/s down, 5 Mbit/s up; loader`: what was measured."""
    pages, experiment = list(results.pages), results.experiment
    rtts = dict.fromkeys(f"{network.rtt_us / 1000:g}" for network in experiment.networks)
    rates = fixed_rates(results)
    clients = dict.fromkeys(setup.client.label for setup in experiment.setups)
    parts = (
        listed(pages) if len(pages) <= NAMED_PAGES else f"{len(pages)} pages",
        f"RTT {listed(list(rtts))}{NBSP}ms{f', {rates}' if rates else ''}",
        listed(list(clients)),
    )
    return "; ".join(parts)


def _page(source: Source, name: str) -> dict[str, Any]:
    results = source.results
    return {
        "name": name,
        "facts": results.pages[name],
        "grid": result_grid(results, name).answer_first(),
        "verdicts": [
            *first_flight_lines(results, name),
            *page_verdicts(results, name),
            *deciding_lines(results, name),
            *payoff_lines(results, name),
            *surprise_lines(results, name, source.reasons),
        ],
        "answers": [*page_answers(results, source.attribution, name), *_caching(results, name)],
    }


def _caching(results: Results, page: str) -> Iterator[Answer]:
    if sentences := tuple(cache_lines(results, page)):
        yield Answer("What did the browser's cache answer?", sentences)


def _loads(source: Source) -> tuple[list[tuple[dict[str, str], tuple[Figure, ...], Any]], int]:
    """What can be chosen: page and network, the figures, and the same packed; and how many had no room."""
    taken: list[tuple[dict[str, str], tuple[Figure, ...], Any]] = []
    size, loads = 0, list(median_loads(source))
    # The same figures of each load, since one takes the place of another.
    traced = any(has_trace(arms) for _, _, arms in loads)
    drawn = (waterfall, *([tcp_trace] if traced else []), timing_breakdown)
    for page, place, arms in loads:
        figures = tuple(draw(page, place, arms, "chosen") for draw in drawn)
        data = [packed(figure) for figure in figures]
        size += len(script_json(data))
        if size > LOADS_BYTES_MAX and taken:
            break
        taken.append(({"page": page.name, "place": place}, figures, data))
    return taken, len(loads) - len(taken)


def _drawn(figure: Figure) -> Drawn:
    return Drawn(figure, Markup(inline_svg(figure, figure.name)))  # noqa: S704  # vl-convert escapes
