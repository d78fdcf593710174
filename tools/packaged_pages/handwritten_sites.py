"""Describe the sites of three student reports: number of resources, types, third parties.

Each site lists the report's facts and the assumptions separately; both become notes of its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastopen.pages.model import ResourceType

MEISSNER: Final = "E. Meissner, Analysis of TCP Fast Open (Georgia Tech CS6250 report)"
PALGUYEV: Final = "S. Palguyev, Project 3 (Georgia Tech report on TCP Fast Open)"
MYURLS: Final = "Georgia Tech student report on myURLS.pages (TCP Fast Open)"


@dataclass(frozen=True)
class Part:
    """`count` resources of one type on one host, all initiated by the first resource of part number `by`."""

    type: ResourceType
    count: int
    host: str
    by: int = 0


@dataclass(frozen=True)
class Site:
    """A page, described by its parts. The first part is the document."""

    name: str
    path: str
    source: str
    quote: str
    """The report's facts about the page."""
    assumed: str
    """The assumptions that replace facts missing in the report."""
    parts: tuple[Part, ...]


def _advertisers(first: int, count: int) -> tuple[Part, ...]:
    """Return scripts of third parties that each initiate two images. `first` is the first part's number."""
    parts: list[Part] = []
    for number in range(count):
        host = f"ads{number + 1}.example"
        script = first + 2 * number
        parts += [Part("script", 1, host), Part("image", 2, host, by=script)]
    return tuple(parts)


_POST: Final = "www.washingtonpost.com"
_ADMISSION: Final = "www.admission.gatech.edu"
_MIT: Final = "www.web.mit.edu"
_UCLA: Final = "www.ucla.edu"
_GNU: Final = "www.gnu.org"
_OMSCS: Final = "www.omscs.gatech.edu"
_BRYCE: Final = "www.brycemontano.com"
_TAL: Final = "www.talrealty.com"

SITES: Final = (
    Site(
        "washingtonpost",
        "/",
        MEISSNER,
        "several advertisements of third parties and plenty of images; its figure counts about 60 requests",
        "the split by type, seven advertisers of a script and two images each, one host for the images",
        (
            Part("document", 1, _POST),
            Part("stylesheet", 4, _POST),
            Part("script", 10, _POST),
            Part("image", 24, "images.washingtonpost.example"),
            *_advertisers(4, 7),
        ),
    ),
    Site(
        "admission-gatech",
        "/",
        MEISSNER,
        "about 30 requests, no advertisements; only content servers for images should lie elsewhere",
        "the split by type, two content servers with two images each",
        (
            Part("document", 1, _ADMISSION),
            Part("stylesheet", 4, _ADMISSION),
            Part("script", 8, _ADMISSION),
            Part("image", 10, _ADMISSION),
            Part("image", 2, "images1.example"),
            Part("image", 2, "images2.example"),
            Part("font", 3, _ADMISSION, by=1),
        ),
    ),
    Site(
        "web-mit",
        "/",
        f"{MEISSNER}; {PALGUYEV}",
        "six requests, no TLS, no advertisements; few but complex graphics",
        "the split by type, one host",
        (
            Part("document", 1, _MIT),
            Part("stylesheet", 1, _MIT),
            Part("script", 1, _MIT),
            Part("image", 3, _MIT),
        ),
    ),
    Site(
        "ucla",
        "/",
        PALGUYEV,
        "heavy in content and navigation; its figure counts more than 25 requests",
        "30 requests, the split by type, fonts from another host",
        (
            Part("document", 1, _UCLA),
            Part("stylesheet", 4, _UCLA),
            Part("script", 8, _UCLA),
            Part("image", 15, _UCLA),
            Part("font", 2, "fonts.example", by=1),
        ),
    ),
    Site(
        "gnu",
        "/",
        PALGUYEV,
        "mostly text with some images",
        "two stylesheets and eight images, all on one host",
        (Part("document", 1, _GNU), Part("stylesheet", 2, _GNU), Part("image", 8, _GNU)),
    ),
    Site(
        "omscs",
        "/cs-6460-educational-technology",
        MYURLS,
        "stylesheets from bootstrapcdn.com, a script of Google Analytics that sends data back, "
        "many images and scripts of its own",
        "two stylesheets, 12 scripts and 20 images",
        (
            Part("document", 1, _OMSCS),
            Part("stylesheet", 2, "bootstrapcdn.com"),
            Part("script", 12, _OMSCS),
            Part("image", 20, _OMSCS),
            Part("script", 1, "www.google-analytics.com"),
            Part("xhr", 1, "www.google-analytics.com", by=4),
        ),
    ),
    Site(
        "brycemontano",
        "/",
        MYURLS,
        "a script and a stylesheet from another domain, some fonts, little else; extremely small",
        "two fonts, beside the stylesheet",
        (
            Part("document", 1, _BRYCE),
            Part("stylesheet", 1, "cdn.example"),
            Part("script", 1, "cdn.example"),
            Part("font", 2, "cdn.example", by=1),
        ),
    ),
    Site(
        "talrealty",
        "/",
        MYURLS,
        "most content is its own; some fonts and jQuery come from other domains; fewer assets than omscs",
        "3 stylesheets, 6 scripts and 12 images of its own, two fonts with a stylesheet, one jQuery",
        (
            Part("document", 1, _TAL),
            Part("stylesheet", 3, _TAL),
            Part("script", 6, _TAL),
            Part("image", 12, _TAL),
            Part("script", 1, "jquery.example"),
            Part("stylesheet", 1, "fonts.example"),
            Part("font", 2, "fonts.example", by=5),
        ),
    ),
)
