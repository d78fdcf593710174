"""Write pages described in reports on TFO: `PYTHONPATH=tools python -m packaged_pages.handwritten OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fastopen.pages.model import Page, Resource, ResourceType, write_page
from packaged_pages.handwritten_sites import SITES, Part, Site

_HOSTS: Final = 7
# Number of resources and their total bytes, by type. The report only states that there are 44 small
# resources. The sizes are averages of May 2010, from which the TFO paper takes its 44 resources on 7 hosts:
# 320.24 KB in all, 29.39 images of 205.99 KB together, 7.09 scripts of 57.98 KB, 3.22 stylesheets of 18.72
# KB. The rest is the document and others (S. Ramachandran, "Web metrics: Size and number of resources",
# Google, 26 May 2010).
_PARTS: Final[tuple[tuple[ResourceType, str, str, int, int], ...]] = (
    ("document", "html", "text/html", 1, 27_550),
    ("stylesheet", "css", "text/css", 3, 18_720),
    ("script", "js", "text/javascript", 7, 57_980),
    ("image", "png", "image/png", 29, 205_990),
    ("other", "bin", "application/octet-stream", 4, 10_000),
)


def cs244_2015() -> Page:
    """Return the page of the CS244 report: 44 resources on 7 hosts, all of them initiated by the document."""
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


# Bytes of a resource by type: the HTTP Archive's averages for a page of 2017 (HTML 26 KB, style sheets 60 KB,
# fonts 97 KB, scripts 347 KB, images 1714 KB, as quoted in the MEAN Cookbook of 2017), divided by assumed
# counts (1, 7, 4, 22 and 55). Responses to requests of scripts are assumed to be almost empty.
_BYTES: Final[dict[ResourceType, int]] = {
    "document": 26_000,
    "stylesheet": 8_600,
    "font": 24_000,
    "script": 15_800,
    "image": 31_200,
    "xhr": 35,
}
_FORMS: Final[dict[ResourceType, tuple[str, str]]] = {
    "stylesheet": ("css", "text/css"),
    "font": ("woff2", "font/woff2"),
    "script": ("js", "text/javascript"),
    "image": ("jpg", "image/jpeg"),
    "xhr": ("gif", "image/gif"),
}


def site_page(site: Site) -> Page:
    """Return a site's page. A part's resources are initiated by the first resource of part number `by`."""
    resources: list[Resource] = []
    first_of_part: list[int] = []
    for number, part in enumerate(site.parts):
        first_of_part.append(len(resources))
        initiator = first_of_part[part.by] if number else None
        resources += [_resource(site, part, number, which, initiator) for which in range(part.count)]
    return Page(
        format="fastopen-page/1",
        name=site.name,
        url=resources[0].url,
        source=site.source,
        initiators="declared",
        notes=(
            f"the report says: {site.quote}",
            f"assumed: {site.assumed}",
            "assumed: sizes by type, averages of 2017 of the HTTP Archive; header sizes are typical ones",
            "assumed: no think time and no processing, plain HTTP/1.1",
            "assumed: host names in .example, which stand for hosts that the report does not name",
        ),
        resources=tuple(resources),
    )


def _resource(site: Site, part: Part, number: int, which: int, initiator: int | None) -> Resource:
    path, mime = site.path, "text/html"
    if number:
        suffix, mime = _FORMS[part.type]
        path = f"/{part.type}{number}-{which + 1}.{suffix}"
    return Resource(
        url=f"http://{part.host}{path}",
        type=part.type,
        mime=mime,
        body_bytes=_BYTES[part.type],
        initiator=initiator,
    )


def handwritten_pages() -> list[Page]:
    """Return the page of the CS244 report, followed by the pages in SITES."""
    return [cs244_2015(), *(site_page(site) for site in SITES)]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: PYTHONPATH=tools python -m packaged_pages.handwritten OUT", file=sys.stderr)
        return 2
    for page in handwritten_pages():
        write_page(page, Path(arguments[0]) / f"{page.name}.page.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
