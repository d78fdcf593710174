"""Sentences on what a browser's loads tell beside their times: its cache, and missing screenshots."""

from collections import defaultdict
from collections.abc import Iterator

from fastopen.statistics import Results


def kept_lines(results: Results, page: str) -> Iterator[str]:
    """What the browser had kept of a first visit, row by row where that differs; and what nobody knows."""
    said: dict[str, list[str]] = defaultdict(list)
    for row, cells in results.comparisons(page).items():
        told = [results.browsed[cell.cell.index] for cell in cells if cell.cell.index in results.browsed]
        kept = [(one.requests, one.fresh, one.revalidated) for one in told if one.requests is not None]
        # The same in every arm but where a browser does otherwise now and then.
        for requests, fresh, confirmed in sorted(set(kept), reverse=True)[:1]:
            words = (
                f"of {requests:g} requests {fresh:g} were answered by the browser's cache and {confirmed:g}"
                " confirmed by the origin (304)"
            )
            said[words].append(results.factors.name(row))
    for words, places in said.items():
        where = f", RTT {'; '.join(places)}" if len(said) > 1 else ""
        yield f"Repeat view{where}: {words}."
    resources = results.pages[page].resources
    unknown = sum(one.fresh_s is None and not one.validator for one in resources)
    if said and unknown:
        yield (
            f"Of {unknown} of the page's {len(resources)} resources nobody recorded whether they may be kept:"
            " they are loaded again."
        )


def unshown_lines(results: Results, page: str) -> Iterator[str]:
    """How many screenshots are missing, and why the first is."""
    cells = [cell for cell in results.cells if cell.cell.page == page]
    told = [results.browsed[cell.cell.index] for cell in cells if cell.cell.index in results.browsed]
    why = [reason for one in told for reason in one.unshown]
    if why:
        loads = f"{len(why)} load{'s have' if len(why) > 1 else ' has'}"
        yield f"{loads} no screenshot: {why[0]}."
