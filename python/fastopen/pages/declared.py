"""The page of the CS244 2015 report, out of what it says: `python -m fastopen.pages.declared OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fastopen.pages.model import Page, Resource, ResourceType, write_page

_HOSTS: Final = 7
# Number and bytes together, by type. The report says 44 resources and that all are small. The averages of May
# 2010, from which the paper has its 44 resources on 7 hosts, say how large: 320.24 KB in all, 29.39 images of
# 205.99 KB, 7.09 scripts of 57.98 KB, 3.22 stylesheets of 18.72 KB. What is left is the document and others
# (S. Ramachandran, "Web metrics: Size and number of resources", Google, 26 May 2010).
_PARTS: Final[tuple[tuple[ResourceType, str, str, int, int], ...]] = (
    ("document", "html", "text/html", 1, 27_550),
    ("stylesheet", "css", "text/css", 3, 18_720),
    ("script", "js", "text/javascript", 7, 57_980),
    ("image", "png", "image/png", 29, 205_990),
    ("other", "bin", "application/octet-stream", 4, 10_000),
)


def cs244_2015() -> Page:
    """44 resources over 7 hosts, all of them named by the document."""
    resources: list[Resource] = []
    for kind, suffix, mime, count, together in _PARTS:
        for number in range(count):
            index = len(resources)
            host = f"host{index % _HOSTS + 1}.cs244.example"
            resources.append(
                Resource(
                    url=f"http://{host}/{kind}{number + 1}.{suffix}" if index else f"http://{host}/",
                    type=kind,
                    mime=mime,
                    body_bytes=together // count,
                    initiator=0 if index else None,
                )
            )
    return Page(
        format="fastopen-page/1",
        name="cs244-2015",
        url=resources[0].url,
        source="CS244 2015 report on TCP Fast Open (K. Miller, R. Watson): 44 resources from 7 hosts",
        initiators="declared",
        notes=(
            "the report gives no sizes, but that all are small: averages by type of May 2010 stand for them",
            "these are of Google's web metrics (320 KB a page), where 44 resources on 7 hosts come from, too",
            "the report gives no order: the document names all others, spread evenly over the hosts",
            "header sizes are typical ones; no think time and no processing, as on the report's plain server",
        ),
        resources=tuple(resources),
    )


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m fastopen.pages.declared OUT", file=sys.stderr)
        return 2
    write_page(cs244_2015(), Path(arguments[0]) / "cs244-2015.page.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
