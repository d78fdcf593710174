"""The addresses: the list, a run and its sections, loads, loads and runs compared."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from tornado.web import Application, HTTPError

from fastopen.analysis.attribution import changed_pieces
from fastopen.analysis.comparison import Check, checks_of, compare_runs, parse_limit
from fastopen.apps.browse.guard import PACKAGE, Desk, Guarded, Nowhere
from fastopen.apps.browse.kept import Outline
from fastopen.apps.browse.live import Progress, read_progress
from fastopen.apps.browse.one_load import OneLoad, load_json, load_name, loads_grid, read_load
from fastopen.apps.browse.paging import ROWS, Paging
from fastopen.common import units
from fastopen.common.csv_cells import inert
from fastopen.report.compared_page import comparison_section
from fastopen.report.figures import Figure, rendered, slug_of
from fastopen.report.figures.requests import loads_waterfall
from fastopen.report.grids import cells_grid
from fastopen.report.page import html as report_html
from fastopen.report.path_pieces import kind_colours, kinds_of, path_bars, pieces_grid, segments_grid
from fastopen.report.sections import PARTS, Part, drawn, part_html, verdict_html
from fastopen.report.sheet import csv_text
from fastopen.report.templates import asset, environment
from fastopen.runs import ORDERS, Listing, RunReader, RunSummary

CSV: Final = "text/csv; charset=utf-8"
SVG: Final = "image/svg+xml"
TITLES: Final[dict[Part, str]] = {
    "verdict": "Verdict",
    "results": "Results",
    "published": "Published figures",
    "answers": "Answers",
    "evidence": "Evidence",
    "method": "Method",
}
PIECES_MAX: Final = 200
UNSEEN: Final = "recorded only at the origins, so the waits of its requests are unknown"


def application(desk: Desk) -> Application:
    run = r"/runs/([^/]+)"
    load = rf"{run}/loads/(\d{{1,9}})"
    routes: list[Any] = [
        (r"/", Runs),
        (r"/assets/(style\.css|browse\.js)", Asset),
        (r"/compare", Compare),
        (r"/compare/loads", LoadsCompared),
        (r"/compare/loads/waterfall(\.svg)?", LoadsComparedWaterfall),
        (rf"{run}", Run),
        (rf"{run}/progress", RunProgress),
        (rf"{run}/report\.html", Report),
        (rf"{run}/cells\.csv", CellsFile),
        (rf"{run}/figures", Figures),
        (rf"{run}/figures/([a-z0-9-]+)(\.svg|\.csv)?", OneFigure),
        (rf"{run}/part/({'|'.join(PARTS)})", Section),
        (rf"{run}/loads", Loads),
        (rf"{run}/loads\.csv", LoadsFile),
        (load, Load),
        (rf"{load}/waterfall(\.svg)?", Waterfall),
        (rf"{load}/(requests|connections|evidence)\.csv", LoadTable),
        (rf"{load}/record\.json", LoadRecordFile),
    ]
    with_desk = [(pattern, handler, {"desk": desk}) for pattern, handler in routes]
    return Application(
        with_desk,
        default_handler_class=Nowhere,
        default_handler_args={"desk": desk},
        log_function=lambda _: None,
    )


class Asset(Guarded):
    """Style and script of all pages."""

    def get(self, name: str) -> None:
        if name == "style.css":
            self.set_header("Content-Type", "text/css; charset=utf-8")
            self.finish(asset("report.css") + asset("browse.css", PACKAGE))
        else:
            self.set_header("Content-Type", "text/javascript; charset=utf-8")
            self.finish(asset("browse.js", PACKAGE))


class Runs(Guarded):
    """The list of runs."""

    async def get(self) -> None:
        search = self.get_query_argument("q", "")
        found = [run for run in await self.kept.summaries() if _found(run, search)]
        paging = Paging.within(self.number("page", 1), len(found))
        self.show(
            "runs.html.jinja",
            title="Runs",
            folder=str(self.kept.folder),
            search=search,
            runs=[(run, run.folder.absolute().name, _size(run.bytes)) for run in paging.of(found)],
            paging=paging,
        )


def _size(count: int) -> str:
    """Three digits of it."""
    return units.format_bytes(round(count, 3 - len(str(count))) if count > 999 else count)


def _found(run: RunSummary, search: str) -> bool:
    """Return True if each word is in the line."""
    texts = (run.folder.absolute().name, run.experiment, run.label, run.status, run.networks, run.started)
    line = " ".join((*texts, *run.pages, *run.clients, *run.engines, *run.varying)).casefold()
    return all(word in line for word in search.casefold().split())


def _rows_csv(figure: Figure) -> str:
    names = list(dict.fromkeys(name for row in figure.rows for name in row))
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(names)
    writer.writerows([inert(row.get(name)) for name in names] for row in figure.rows)
    return target.getvalue()


class OfRun(Guarded):
    """A handler for one run."""

    async def drawing(self, figure: Figure) -> Markup:
        made = await self.kept.drawing.run(drawn, figure)
        template = environment("fastopen.report").get_template("sections.html.jinja")
        chart = template.module.chart(made, "drawn", figure.name)  # type: ignore[attr-defined]
        return Markup(chart)  # noqa: S704  # a macro of a template that escapes

    async def show_figure(self, figure: Figure, ending: str | None, file: str, back: tuple[str, str]) -> None:
        """Ends with a part of a page, or with the file of that ending."""
        if ending == ".svg":
            svg = await self.kept.drawing.run(rendered, figure, "svg")
            self.download(f"{file}.svg", SVG, svg)
        elif ending == ".csv":
            self.download(f"{file}.csv", CSV, _rows_csv(figure))
        else:
            self.show_part(figure.title, await self.drawing(figure), back)

    def folder(self, name: str) -> Path:
        """Raises InputError where there is none of that name."""
        return self.kept.find(name)


class Run(OfRun):
    """A run: what it is at once, its figures when they are read, the rest when it is opened."""

    async def get(self, name: str) -> None:
        folder = self.folder(name)
        outline = await self.kept.outline(folder)
        counts = await self.kept.counts(folder)
        progress = await self.kept.threads.run(_progress, folder)
        search = self.get_query_argument("q", "")
        words = search.casefold().split()
        cells = [
            (cell, outline.cell_name(cell), *counts.get(cell.index, (0, 0)))
            for cell in outline.cells
            if all(word in outline.cell_name(cell).casefold() for word in words)
        ]
        paging = Paging.within(self.number("page", 1), len(cells))
        self.show(
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


def _progress(folder: Path) -> Progress:
    with RunReader.open(folder) as run:
        return read_progress(run)


class RunProgress(OfRun):
    """The progress of a run that is being written."""

    async def get(self, name: str) -> None:
        folder = self.folder(name)
        outline = await self.kept.outline(folder)
        progress = await self.kept.threads.run(_progress, folder)
        latest = [(row, load_name(outline, row)) for row in progress.latest]
        template = environment(PACKAGE).get_template("progress.html.jinja")
        text = template.render(link=self.link, name=name, progress=progress, latest=latest)
        self.show_part("Progress", Markup(text), (name, self.link("runs", name)))  # noqa: S704  # escaped


class Section(OfRun):
    """One section of the report."""

    async def get(self, name: str, part: Part) -> None:
        folder = self.folder(name)
        if part == "verdict":
            html = await self.kept.threads.run(verdict_html, await self.kept.results(folder))
        else:
            html = await self.kept.threads.run(part_html, part, await self.kept.source(folder))
        nothing = Markup("<p>This section is empty for this run.</p>")
        self.show_part(TITLES[part], html or nothing, (name, self.link("runs", name)))


class Report(OfRun):
    """The report in one file, as `fastopen report` writes it."""

    async def get(self, name: str) -> None:
        source = await self.kept.source(self.folder(name))
        text = await self.kept.drawing.run(report_html, source)
        self.download(f"{slug_of(name)}.html", "text/html; charset=utf-8", text)


class CellsFile(OfRun):
    """The table of all cells."""

    async def get(self, name: str) -> None:
        source = await self.kept.source(self.folder(name))
        text = await self.kept.threads.run(lambda: csv_text(cells_grid(source)))
        self.download(f"{slug_of(name)}-cells.csv", CSV, text)


class Figures(OfRun):
    """The list of figures. Each is drawn when it is requested."""

    async def get(self, name: str) -> None:
        figures = await self.kept.figures(self.folder(name))
        template = environment(PACKAGE).get_template("figures.html.jinja")
        text = template.render(link=self.link, name=name, figures=[*figures.values()])
        self.show_part("Figures", Markup(text), (name, self.link("runs", name)))  # noqa: S704  # escaped


class OneFigure(OfRun):
    """A figure, in a page or as a file."""

    async def get(self, name: str, figure: str, ending: str | None) -> None:
        found = (await self.kept.figures(self.folder(name))).get(figure)
        if found is None:
            raise HTTPError(404)
        await self.show_figure(found, ending, slug_of(f"{name}-{figure}"), (name, self.link("runs", name)))


class Loads(OfRun):
    """The loads of a run, as many as one looks at."""

    async def get(self, name: str) -> None:
        folder = self.folder(name)
        outline = await self.kept.outline(folder)
        listing = self.listing(outline)

        def read() -> tuple[Paging, list[Any]]:
            with RunReader.open(folder) as run:
                paging = Paging.within(self.number("page", 1), run.listed_count(listing))
                return paging, run.listed(listing, paging.start, ROWS)

        paging, rows = await self.kept.threads.run(read)
        arguments = {key: self.get_query_argument(key, "") for key in ("cell", "valid", "q", "order")}
        self.show(
            "loads.html.jinja",
            title="Loads",
            name=name,
            cell=None if listing.cell is None else outline.cell_name(outline.cells[listing.cell]),
            arguments=arguments,
            orders=ORDERS,
            paging=paging,
            loads=[(row, load_name(outline, row)) for row in rows],
        )

    def listing(self, outline: Outline) -> Listing:
        """Return the listing that the address requests."""
        order = self.get_query_argument("order", "written")
        valid = {"yes": True, "no": False}.get(self.get_query_argument("valid", ""))
        cell = self.number("cell", -1)
        if cell >= len(outline.cells):
            raise HTTPError(404, f"the run has no cell {cell}")
        listing = Listing(valid=valid, search=self.get_query_argument("q", ""))
        listing = listing if cell < 0 else replace(listing, cell=cell)
        return next((replace(listing, order=one) for one in ORDERS if one == order), listing)


class LoadsFile(Loads):
    """The list of all loads as a file."""

    async def get(self, name: str) -> None:
        folder = self.folder(name)
        outline = await self.kept.outline(folder)
        listing = self.listing(outline)

        def read() -> str:
            with RunReader.open(folder) as run:
                return csv_text(loads_grid(outline, run.listed(listing)))

        self.download(f"{slug_of(name)}-loads.csv", CSV, await self.kept.threads.run(read))


class OfLoad(OfRun):
    """A handler for one load."""

    async def one(self, name: str, number: int) -> OneLoad:
        """Raises InputError where it is not there."""
        folder = self.folder(name)
        outline = await self.kept.outline(folder)
        return await self.kept.threads.run(read_load, folder, outline, number)


class Load(OfLoad):
    """A load: its critical path, its waterfall, what the kernels say of it."""

    async def get(self, name: str, number: str) -> None:
        load = await self.one(name, int(number))
        self.show(
            "load.html.jinja",
            title=load.name,
            name=name,
            load=load,
            kinds=kind_colours(),
            bars=[] if load.path is None else path_bars({"": kinds_of(load.path)}),
            path=None if load.path is None else segments_grid(load.page, load.path),
        )


class Waterfall(OfLoad):
    """The waits of each request of a load."""

    async def get(self, name: str, number: str, ending: str | None) -> None:
        load = await self.one(name, int(number))
        if load.shown is None:
            raise HTTPError(404, UNSEEN)
        figure = loads_waterfall(load.page, {load.cell.arm.label: load.shown}, number)
        back = (load.name, self.link("runs", name, "loads", number))
        await self.show_figure(figure, ending, slug_of(f"{name}-{number}-waterfall"), back)


class LoadTable(OfLoad):
    """Requests, connections or evidence of a load as a file."""

    async def get(self, name: str, number: str, table: str) -> None:
        load = await self.one(name, int(number))
        self.download(slug_of(f"{name}-{number}-{table}") + ".csv", CSV, csv_text(load.tables[table]))


class LoadRecordFile(OfRun):
    """The record of a load."""

    async def get(self, name: str, number: str) -> None:
        _, text = await self.kept.threads.run(load_json, self.folder(name), int(number))
        self.download(f"{slug_of(f'{name}-{number}')}.json", "application/json", text)


class Pair(OfLoad):
    """A handler for two loads, of one run or of two."""

    async def pair(self) -> tuple[tuple[str, OneLoad], tuple[str, OneLoad]]:
        """The runs' names and the loads."""
        first, second = self.get_query_argument("a"), self.get_query_argument("b")
        one = await self.one(first, self.number("a_load", 0))
        return (first, one), (second, await self.one(second, self.number("b_load", 0)))


class LoadsCompared(Pair):
    """Two loads compared."""

    async def get(self) -> None:
        (first, before), (second, after) = await self.pair()
        paths = {letter: one.path for letter, one in (("A", before), ("B", after)) if one.path is not None}
        grid = None
        if before.path is not None and after.path is not None:
            pieces = changed_pieces((before.page, before.path), (after.page, after.path))
            grid = pieces_grid(pieces[:PIECES_MAX])
        asked = {"a": first, "a_load": before.row.number, "b": second, "b_load": after.row.number}
        self.show(
            "loads_compared.html.jinja",
            title="Two loads compared",
            loads=[("A", first, before), ("B", second, after)],
            kinds=kind_colours(),
            bars=path_bars({letter: kinds_of(path) for letter, path in paths.items()}),
            grid=grid,
            asked=asked,
        )


class LoadsComparedWaterfall(Pair):
    """Both waterfalls."""

    async def get(self, ending: str | None) -> None:
        (first, before), (_, after) = await self.pair()
        shown = {
            f"{letter}, {one.cell.arm.short_label}": (one.page, one.shown)
            for letter, one in (("A", before), ("B", after))
        }
        if any(load is None for _, load in shown.values()):
            raise HTTPError(404, UNSEEN)
        back = ("Two loads compared", self.request.uri.replace("/waterfall", "") if self.request.uri else "/")
        loads = {label: load for label, (_, load) in shown.items() if load is not None}
        if before.page.resources == after.page.resources:
            figure = loads_waterfall(before.page, loads, "compared")
            await self.show_figure(figure, ending, slug_of(f"{first}-compared"), back)
            return
        if ending:
            raise HTTPError(404, "the loads are of different pages, so they have separate waterfalls")
        parts = [
            await self.drawing(loads_waterfall(shown[label][0], {label: load}, f"compared-{number}"))
            for number, (label, load) in enumerate(loads.items())
        ]
        self.show_part("Waterfalls", Markup("").join(parts), back)


class Compare(Guarded):
    """Two runs compared, as `fastopen compare` does."""

    async def get(self) -> None:
        names = self.get_query_argument("a"), self.get_query_argument("b")
        limits = self.get_query_argument("limit", "").strip()
        if not self.is_part and not self.number("whole", 0):
            self.show("compare.html.jinja", title="Two runs compared", names=names, limit=limits)
            return
        asked = [parse_limit(text) for text in filter(None, limits.split(","))]
        first, second = (self.kept.find(name) for name in names)
        before, after = await self.kept.side(first), await self.kept.side(second)

        def compared() -> Markup:
            one = compare_runs(before, after)
            checks: list[Check] = list(checks_of(asked, one.cells))
            return comparison_section(one, checks)

        html = await self.kept.threads.run(compared)
        self.show_part("Two runs compared", html, ("the runs", self.link()))
