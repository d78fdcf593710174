"""Write pages from recordings, without the queries of URLs.

PYTHONPATH=tools python -m packaged_pages.recorded OUT FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

from fastopen.common.errors import InputError
from fastopen.pages import load_pages
from fastopen.pages.model import Page, write_page
from packaged_pages.shorter import without_query


def without_queries(page: Page) -> Page:
    """Return the page without the queries of its URLs. Sizes of request headers still include the queries."""
    resources = tuple(
        one.model_copy(
            update={
                "url": without_query(one.url),
                "redirect_to": without_query(one.redirect_to) if one.redirect_to else None,
            }
        )
        for one in page.resources
    )
    noted = (*page.notes, "queries of URLs are replaced by checksums")
    url = without_query(page.url)
    return Page.model_validate(
        page.model_copy(update={"url": url, "resources": resources, "notes": noted}).model_dump()
    )


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        usage = "usage: PYTHONPATH=tools python -m packaged_pages.recorded OUT FILE..."
        print(usage, file=sys.stderr)
        return 2
    out, *files = arguments
    try:
        for imported in load_pages([Path(file) for file in files]):
            path = Path(out) / f"{imported.page.name}.page.json"
            write_page(without_queries(imported.page), path)
            print(path)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
