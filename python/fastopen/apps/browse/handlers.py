"""Handle requests to `fastopen browse`: the list of runs, a run and its sections, loads, and comparisons."""

from typing import Final

from markupsafe import Markup
from tornado.web import Application, HTTPError

from fastopen.analysis.attribution import changed_pieces
from fastopen.analysis.comparison import checks_of, compare_runs, parse_limit
from fastopen.apps.browse.guard import PACKAGE, ROWS, Answer, Guarded, Paging, ServerState
from fastopen.apps.browse.kept import Outline
from fastopen.apps.browse.loads import OneLoad, load_json, load_name, loads_grid, read_load, read_progress
from fastopen.common import units
from fastopen.common.grid import Column, Entry, Grid
from fastopen.report.compared_page import (
    comparison_section,
    kind_colours,
    kinds_of,
    path_bars,
    pieces_grid,
    segments_grid,
)
from fastopen.report.csv_sheet import csv_text
from fastopen.report.figures import Figure, rendered, slug_of
from fastopen.report.figures.requests import loads_waterfall
from fastopen.report.page import html as report_html
from fastopen.report.result_tables import cells_grid
from fastopen.report.sections import PARTS, Part, drawn, part_html, verdict_html
from fastopen.report.templates import asset, environment
from fastopen.runs import ORDERS, Listing, LoadRow, RunReader, RunSummary

CSV: Final = "text/csv; charset=utf-8"
SVG: Final = "image/svg+xml"
TITLES: Final = {part: part.capitalize() for part in PARTS} | {"published": "Published figures"}
PIECES_MAX: Final = 200
UNSEEN: Final = "recorded only at the origins, so the waits of its requests are unknown"


def application(state: ServerState) -> Application:
    run = r"/runs/([^/]+)"
    load = rf"{run}/loads/(\d{{1,9}})"
    answers: dict[str, Answer] = {
        r"/": runs,
        r"/assets/(style\.css|browse\.js)": asset_file,
        r"/compare": runs_compared,
        r"/compare/loads": loads_compared,
        r"/compare/loads/waterfall(\.svg)?": compared_waterfall,
        rf"{run}": one_run,
        rf"{run}/progress": run_progress,
        rf"{run}/report\.html": report_file,
        rf"{run}/cells\.csv": cells_file,
        rf"{run}/figures": figures,
        rf"{run}/figures/([a-z0-9-]+)(\.svg|\.csv)?": one_figure,
        rf"{run}/part/({'|'.join(PARTS)})": section,
        rf"{run}/loads": loads,
        rf"{run}/loads\.csv": loads_file,
        load: one_load,
        rf"{load}/waterfall(\.svg)?": waterfall,
        rf"{load}/(requests|connections|evidence)\.csv": load_table,
        rf"{load}/record\.json": record_file,
    }
    return Application(
        [(pattern, Guarded, {"state": state, "answer": answer}) for pattern, answer in answers.items()],
        default_handler_class=Guarded,
        default_handler_args={"state": state, "answer": nowhere},
        log_function=lambda _: None,
    )


async def nowhere(_: Guarded, *__: str) -> None:
    raise HTTPError(404)


async def asset_file(at: Guarded, name: str) -> None:
    if name == "style.css":
        at.set_header("Content-Type", "text/css; charset=utf-8")
        at.finish(asset("report.css") + asset("browse.css", PACKAGE))
    else:
        at.set_header("Content-Type", "text/javascript; charset=utf-8")
        at.finish(asset("browse.js", PACKAGE))


async def runs(at: Guarded) -> None:
    search = at.get_query_argument("q", "")
    found = [run for run in await at.kept.summaries() if _matches(run, search)]
    paging = at.paging(len(found))
    at.show(
        "runs.html.jinja",
        title="Runs",
        folder=str(at.kept.folder),
        search=search,
        runs=[(run, run.folder.absolute().name, _size(run.bytes)) for run in paging.of(found)],
        paging=paging,
    )


def _size(count: int) -> str:
    return units.format_bytes(round(count, 3 - len(str(count))) if count > 999 else count)


def _matches(run: RunSummary, search: str) -> bool:
    texts = (run.folder.absolute().name, run.experiment, run.label, run.status, run.networks, run.started)
    line = " ".join((*texts, *run.pages, *run.clients, *run.engines, *run.varying)).casefold()
    return all(word in line for word in search.casefold().split())


async def _drawing(at: Guarded, figure: Figure) -> Markup:
    made = await at.kept.drawing.run(drawn, figure)
    template = environment("fastopen.report").get_template("sections.html.jinja")
    chart = template.module.chart(made, "drawn", figure.name)  # type: ignore[attr-defined]
    return Markup(chart)  # noqa: S704  # a macro of a template that escapes


async def _show_figure(
    at: Guarded, figure: Figure, ending: str | None, file: str, back: tuple[str, str]
) -> None:
    if ending == ".svg":
        at.download(f"{file}.svg", SVG, await at.kept.drawing.run(rendered, figure, "svg"))
    elif ending == ".csv":
        names = dict.fromkeys(name for row in figure.rows for name in row)
        rows = (tuple(Entry("", value=row.get(name)) for name in names) for row in figure.rows)
        at.download(f"{file}.csv", CSV, csv_text(Grid("", tuple(map(Column, names)), tuple(rows))))
    else:
        at.show_part(figure.title, await _drawing(at, figure), back)


async def one_run(at: Guarded, name: str) -> None:
    """Show the page of a run: its settings, and the numbers of finished and valid loads in each cell. The
    browser requests the other sections later."""
    outline = await at.kept.outline(name)
    counts = await at.kept.counts(name)
    progress = await at.kept.read(name, read_progress)
    search = at.get_query_argument("q", "")
    words = search.casefold().split()
    cells = [
        (cell, outline.cell_name(cell), *counts.get(cell.index, (0, 0)))
        for cell in outline.cells
        if all(word in outline.cell_name(cell).casefold() for word in words)
    ]
    paging = at.paging(len(cells))
    at.show(
        "run.html.jinja",
        title=outline.experiment.title or name,
        name=name,
        experiment=outline.experiment,
        progress=progress,
        search=search,
        cells=paging.of(cells),
        paging=paging,
        parts=[(part, TITLES[part]) for part in PARTS if part not in ("verdict", "results")],
    )


async def run_progress(at: Guarded, name: str) -> None:
    outline = await at.kept.outline(name)
    progress = await at.kept.read(name, read_progress)
    latest = [(row, load_name(outline, row)) for row in progress.latest]
    html = at.rendered("progress.html.jinja", name=name, progress=progress, latest=latest)
    at.show_part("Progress", html, at.run_link(name))


async def section(at: Guarded, name: str, part: Part) -> None:
    if part == "verdict":
        html = await at.kept.threads.run(verdict_html, await at.kept.results(name))
    else:
        html = await at.kept.threads.run(part_html, part, await at.kept.analysis(name))
    nothing = Markup("<p>This section is empty for this run.</p>")
    at.show_part(TITLES[part], html or nothing, at.run_link(name))


async def report_file(at: Guarded, name: str) -> None:
    """Send the report of a run as one HTML file, as `fastopen report` writes it."""
    text = await at.kept.drawing.run(report_html, await at.kept.analysis(name))
    at.download(f"{slug_of(name)}.html", "text/html; charset=utf-8", text)


async def cells_file(at: Guarded, name: str) -> None:
    analysis = await at.kept.analysis(name)
    text = await at.kept.threads.run(lambda: csv_text(cells_grid(analysis)))
    at.download(f"{slug_of(name)}-cells.csv", CSV, text)


async def figures(at: Guarded, name: str) -> None:
    """Show the list of the figures of a run. Each figure is drawn when the browser requests it."""
    found = await at.kept.figures(name)
    html = at.rendered("figures.html.jinja", name=name, figures=[*found.values()])
    at.show_part("Figures", html, at.run_link(name))


async def one_figure(at: Guarded, name: str, figure: str, ending: str | None) -> None:
    found = (await at.kept.figures(name)).get(figure)
    if found is None:
        raise HTTPError(404)
    await _show_figure(at, found, ending, slug_of(f"{name}-{figure}"), at.run_link(name))


async def loads(at: Guarded, name: str) -> None:
    outline = await at.kept.outline(name)
    listing = _listing(at, outline)

    def read(run: RunReader) -> tuple[Paging, list[LoadRow]]:
        paging = at.paging(run.listed_count(listing))
        return paging, run.listed(listing, paging.start, ROWS)

    paging, rows = await at.kept.read(name, read)
    at.show(
        "loads.html.jinja",
        title="Loads",
        name=name,
        cell=None if listing.cell is None else outline.cell_name(outline.cells[listing.cell]),
        arguments={key: at.get_query_argument(key, "") for key in ("cell", "valid", "q", "order")},
        orders=ORDERS,
        paging=paging,
        loads=[(row, load_name(outline, row)) for row in rows],
    )


def _listing(at: Guarded, outline: Outline) -> Listing:
    order = at.get_query_argument("order", "written")
    cell = at.number("cell")
    if cell is not None and cell >= len(outline.cells):
        raise HTTPError(404, f"the run has no cell {cell}")
    return Listing(
        cell=cell,
        valid={"yes": True, "no": False}.get(at.get_query_argument("valid", "")),
        search=at.get_query_argument("q", ""),
        order=next((one for one in ORDERS if one == order), "written"),
    )


async def loads_file(at: Guarded, name: str) -> None:
    outline = await at.kept.outline(name)
    listing = _listing(at, outline)
    text = await at.kept.read(name, lambda run: csv_text(loads_grid(outline, run.listed(listing))))
    at.download(f"{slug_of(name)}-loads.csv", CSV, text)


async def _load(at: Guarded, name: str, number: int) -> OneLoad:
    outline = await at.kept.outline(name)
    return await at.kept.read(name, lambda run: read_load(run, outline, number))


async def one_load(at: Guarded, name: str, number: str) -> None:
    """Show the page of a load: critical path, waterfall, and tables of connections, requests and counters."""
    load = await _load(at, name, int(number))
    at.show(
        "load.html.jinja",
        title=load.name,
        name=name,
        load=load,
        kinds=kind_colours(),
        bars=[] if load.shown is None else path_bars({"": kinds_of(load.shown.path)}),
        path=None if load.shown is None else segments_grid(load.page, load.shown.path),
    )


async def waterfall(at: Guarded, name: str, number: str, ending: str | None) -> None:
    load = await _load(at, name, int(number))
    if load.shown is None:
        raise HTTPError(404, UNSEEN)
    figure = loads_waterfall(load.page, "", {load.cell.arm.label: load.shown}, number)
    back = (load.name, at.link("runs", name, "loads", number))
    await _show_figure(at, figure, ending, slug_of(f"{name}-{number}-waterfall"), back)


async def load_table(at: Guarded, name: str, number: str, table: str) -> None:
    load = await _load(at, name, int(number))
    at.download(slug_of(f"{name}-{number}-{table}") + ".csv", CSV, csv_text(load.tables[table]))


async def record_file(at: Guarded, name: str, number: str) -> None:
    text = await at.kept.read(name, lambda run: load_json(run, int(number)))
    at.download(f"{slug_of(f'{name}-{number}')}.json", "application/json", text)


async def _pair(at: Guarded) -> tuple[tuple[str, OneLoad], tuple[str, OneLoad]]:
    first, second = at.get_query_argument("a"), at.get_query_argument("b")
    one = await _load(at, first, at.number("a_load") or 0)
    return (first, one), (second, await _load(at, second, at.number("b_load") or 0))


async def loads_compared(at: Guarded) -> None:
    (first, before), (second, after) = await _pair(at)
    loads = [("A", first, before), ("B", second, after)]
    grid = None
    if before.shown is not None and after.shown is not None:
        pieces = changed_pieces((before.page, before.shown.path), (after.page, after.shown.path))
        grid = pieces_grid(pieces[:PIECES_MAX])
    at.show(
        "loads_compared.html.jinja",
        title="Two loads compared",
        loads=loads,
        kinds=kind_colours(),
        bars=path_bars({letter: kinds_of(one.shown.path) for letter, _, one in loads if one.shown}),
        grid=grid,
        asked={"a": first, "a_load": before.row.number, "b": second, "b_load": after.row.number},
    )


async def compared_waterfall(at: Guarded, ending: str | None) -> None:
    (first, before), (_, after) = await _pair(at)
    if before.shown is None or after.shown is None:
        raise HTTPError(404, UNSEEN)
    one = {f"A, {before.cell.arm.short_label}": before.shown}
    other = {f"B, {after.cell.arm.short_label}": after.shown}
    back = ("Two loads compared", at.request.uri.replace("/waterfall", "") if at.request.uri else "/")
    if before.page.resources == after.page.resources:
        figure = loads_waterfall(before.page, "", one | other, "compared")
        await _show_figure(at, figure, ending, slug_of(f"{first}-compared"), back)
        return
    if ending:
        raise HTTPError(404, "the loads are of different pages, so they have separate waterfalls")
    figures = (
        loads_waterfall(before.page, "", one, "compared-0"),
        loads_waterfall(after.page, "", other, "compared-1"),
    )
    parts = [await _drawing(at, figure) for figure in figures]
    at.show_part("Waterfalls", Markup("").join(parts), back)


async def runs_compared(at: Guarded) -> None:
    """Show the comparison of two runs, as `fastopen compare` prints it."""
    names = at.get_query_argument("a"), at.get_query_argument("b")
    limits = at.get_query_argument("limit", "").strip()
    if not at.is_part and not at.number("whole"):
        at.show("compare.html.jinja", title="Two runs compared", names=names, limit=limits)
        return
    asked = [parse_limit(text) for text in filter(None, limits.split(","))]
    for name in names:
        at.kept.find(name)  # reject an unknown name before a run is read
    before, after = [await at.kept.side(name) for name in names]

    def compared() -> Markup:
        one = compare_runs(before, after)
        return comparison_section(one, list(checks_of(asked, one.cells)))

    at.show_part("Two runs compared", await at.kept.threads.run(compared), ("the runs", at.link()))
