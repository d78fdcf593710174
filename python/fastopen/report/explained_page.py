"""Write the result of a search for the rig behind published figures as one HTML file, without scripts."""

from fastopen.report.explained import explained_grids, sentences
from fastopen.report.figures.rigs import cells_by_property
from fastopen.report.sections import drawn
from fastopen.report.templates import whole_page
from fastopen.workflows.explain import Explained


def explained_html(found: Explained) -> str:
    """Return the HTML document. All text is escaped, because the rig's file may be untrusted."""
    experiment, figure = found.space.base, cells_by_property(found)
    tiles = {
        "agree as the experiment stands": found.base.agreeing,
        "agree on the sourced rig": found.sourced.agreeing,
        "agree on the best rig": found.best.agreeing,
        "predicted when left out of the search": found.predicted,
    }
    return whole_page(
        "explained.html.jinja",
        experiment=experiment,
        cells=len(found.cells),
        best=found.best.agreeing,
        tiles=tiles,
        sentences=list(sentences(found)),
        grids=explained_grids(found),
        figure=None if figure is None else drawn(figure),
    )
