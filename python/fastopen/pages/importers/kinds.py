"""Find the type of a resource, such as `image`, from the recording or from headers, MIME type and URL."""

import re
from typing import Final

from fastopen.pages import url as urls
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.model import ResourceType

# Resource types of Chrome DevTools and of the DevTools protocol, in lower case (WebPageTest writes capitals).
RECORDED: Final[dict[str, ResourceType]] = {
    "document": "document", "subdocument": "document", "iframe": "document",
    "stylesheet": "stylesheet", "script": "script", "image": "image", "font": "font",
    "xhr": "xhr", "fetch": "xhr", "preflight": "xhr", "eventsource": "xhr",
    "media": "media", "texttrack": "media", "manifest": "other", "ping": "other", "beacon": "other",
    "cspviolationreport": "other", "csp-violation-report": "other", "signedexchange": "other",
    "signed-exchange": "other", "prefetch": "other",
}  # fmt: skip
# Values of Sec-Fetch-Dest: https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header
_DESTINATIONS: Final[dict[str, ResourceType]] = {
    "document": "document", "iframe": "document", "frame": "document", "style": "stylesheet",
    "script": "script", "worker": "script", "sharedworker": "script", "serviceworker": "script",
    "image": "image", "font": "font", "empty": "xhr", "audio": "media", "video": "media", "track": "media",
    "manifest": "other", "report": "other", "object": "other", "embed": "other",
}  # fmt: skip
# Destinations of requests that neither an element nor a frame makes.
_DESTINATIONS_WITHOUT_ELEMENT: Final = frozenset([
    "empty", "manifest", "report", "worker", "sharedworker", "serviceworker",
])  # fmt: skip
# Headers by which browsers mark prefetches: https://wicg.github.io/nav-speculation/prefetch.html
_PURPOSES: Final = ("sec-purpose", "purpose", "x-moz")
_SUFFIXES: Final[dict[str, ResourceType]] = {
    "css": "stylesheet", "js": "script", "mjs": "script", "woff": "font", "woff2": "font", "ttf": "font",
    "otf": "font", "eot": "font", "png": "image", "jpg": "image", "jpeg": "image", "gif": "image",
    "webp": "image", "avif": "image", "svg": "image", "ico": "image", "bmp": "image", "mp4": "media",
    "webm": "media", "mp3": "media", "m4s": "media", "ts": "media", "ogg": "media", "flv": "media",
    "json": "xhr", "html": "document", "htm": "document", "swf": "other",
}  # fmt: skip
_Patterns = tuple[tuple[re.Pattern[str], ResourceType], ...]
# MIME types that imply a type of resource. Servers use other MIME types, such as text/html, for any type.
_BY_MIME: Final[_Patterns] = (
    (re.compile(r"text/css\Z"), "stylesheet"),
    (re.compile(r"[^/]*/.*(javascript|ecmascript)|text/js\Z"), "script"),
    (re.compile(r"font/|[^/]*/(font-|x-font|vnd\.ms-fontobject\Z)"), "font"),
    (re.compile(r"image/"), "image"),
    (re.compile(r"(audio|video)/"), "media"),
)
# Accept headers that imply a type. Browsers have a special value for documents, stylesheets and images.
_BY_ACCEPT: Final[_Patterns] = (
    (re.compile(r"text/html|application/xhtml|application/xml,application/xhtml"), "document"),
    (re.compile(r"text/css"), "stylesheet"),
    (re.compile(r"image/"), "image"),
    (re.compile(r".*json"), "xhr"),
)
# MIME types that decide if neither the patterns above nor the name of the file shows the type.
_BY_VAGUE_MIME: Final[_Patterns] = (
    (re.compile(r"(text/html|application/xhtml\+xml)\Z"), "document"),
    (re.compile(r".*(json|/xml|\+xml)\Z"), "xhr"),
)
# Types of resources whose texts may contain URLs. Requests for these URLs may name the resource as Referer.
CODE: Final = ("document", "stylesheet", "script")
_TOKEN: Final = re.compile(r"[\x20-\x7e]{1,120}\Z")
_ESSENCE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\Z")


def mime_of(declared: str, got: Pairs) -> str:
    """Return the MIME type `declared` by the recorder for a response, or else the Content-Type in the
    response headers `got`. Invalid types are ignored. The default is application/octet-stream."""
    listed = coerce.header(got, "content-type") or ""
    valid = (mime for mime in (declared, listed) if _TOKEN.match(mime) and _ESSENCE.match(essence(mime)))
    return next(valid, "application/octet-stream")


def type_of(url: str, mime: str, sent: Pairs = (), recorded: str | None = None) -> ResourceType:
    """Return the type of a resource, such as `image`. `recorded` is the recorder's name for the type. If this
    is None, derive the type from the request headers `sent`, the MIME type and the URL."""
    named = RECORDED[recorded] if recorded is not None else _DESTINATIONS.get(destination_of(sent) or "")
    named = named or _guessed_type(url, mime, sent)
    # A document that the browser fetches ahead is a page of its own.
    return "other" if named == "document" and is_fetched_ahead(sent) else named


def _guessed_type(url: str, mime: str, sent: Pairs) -> ResourceType:
    if (coerce.header(sent, "x-requested-with") or "").lower() == "xmlhttprequest":
        return "xhr"
    accept = (coerce.header(sent, "accept") or "").strip().lower()
    name = urls.target_of(url).partition("?")[0].rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    return (
        _first_match(_BY_MIME, essence(mime))
        or _first_match(_BY_ACCEPT, accept)
        or _SUFFIXES.get(suffix)
        or _first_match(_BY_VAGUE_MIME, essence(mime))
        or "other"
    )


def _first_match(patterns: _Patterns, text: str) -> ResourceType | None:
    return next((kind for pattern, kind in patterns if pattern.match(text)), None)


def delays_load_event(
    of_type: ResourceType, method: str = "GET", sent: Pairs = (), recorded: str | None = None
) -> bool:
    """Return True if a page's load event waits for a request, because an element or a frame made the request.
    The load event does not wait for fetch() and beacons. `of_type` is the type of the resource, `recorded` is
    the recorder's name for this type, if known, and `sent` contains the request's headers."""
    if is_fetched_ahead(sent):
        return False
    if recorded is not None:
        return of_type not in ("xhr", "other")
    destination = destination_of(sent)
    if destination is not None:
        return destination not in _DESTINATIONS_WITHOUT_ELEMENT
    # Elements use only GET. Frames also send forms with POST, and like all navigations accept HTML.
    accepts_html = "text/html" in (coerce.header(sent, "accept") or "").lower()
    return of_type != "xhr" and (method == "GET" or accepts_html)


def is_event_stream(mime: str, recorded: str | None = None) -> bool:
    """Return True if the response is a stream of server-sent events, for which no load event waits."""
    return essence(mime) == "text/event-stream" or recorded == "eventsource"


def is_fetched_ahead(sent: Pairs) -> bool:
    """Return True if the browser made the request to prefetch or prerender a page for a later visit."""
    return any(name in _PURPOSES and value.lower().startswith("prefetch") for name, value in sent)


def destination_of(sent: Pairs) -> str | None:
    """Return the destination of a request (Sec-Fetch-Dest), such as `image`; None if missing or unknown."""
    name = (coerce.header(sent, "sec-fetch-dest") or "").strip().lower()
    return name if name in _DESTINATIONS else None


def essence(mime: str) -> str:
    """Return a MIME type without its parameters, in lower case."""
    return mime.partition(";")[0].strip().lower()
