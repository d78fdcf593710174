"""Find the types of resources, from the recording or from headers, MIME type and file name."""

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
# Types of requests that neither an element nor a frame makes. The load event waits only for elements and
# frames (HTML, "delay the load event"), not for XMLHttpRequest, fetch(), beacons and the browser's requests.
_ASKED_FOR_BY_NO_ELEMENT: Final = frozenset([
    "xhr", "fetch", "preflight", "eventsource", "ping", "beacon", "cspviolationreport",
    "csp-violation-report", "manifest", "prefetch", "signedexchange", "signed-exchange",
])  # fmt: skip
# Values of Sec-Fetch-Dest: https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header
_DESTINATIONS: Final[dict[str, ResourceType]] = {
    "document": "document", "iframe": "document", "frame": "document", "style": "stylesheet",
    "script": "script", "worker": "script", "sharedworker": "script", "serviceworker": "script",
    "image": "image", "font": "font", "empty": "xhr", "audio": "media", "video": "media", "track": "media",
    "manifest": "other", "report": "other", "object": "other", "embed": "other",
}  # fmt: skip
_DESTINATIONS_OF_NO_ELEMENT: Final = frozenset([
    "empty", "manifest", "report", "worker", "sharedworker", "serviceworker",
])  # fmt: skip
_SUFFIXES: Final[dict[str, ResourceType]] = {
    "css": "stylesheet", "js": "script", "mjs": "script", "woff": "font", "woff2": "font", "ttf": "font",
    "otf": "font", "eot": "font", "png": "image", "jpg": "image", "jpeg": "image", "gif": "image",
    "webp": "image", "avif": "image", "svg": "image", "ico": "image", "bmp": "image", "mp4": "media",
    "webm": "media", "mp3": "media", "m4s": "media", "ts": "media", "ogg": "media", "flv": "media",
    "json": "xhr", "html": "document", "htm": "document", "swf": "other",
}  # fmt: skip
_TOKEN: Final = re.compile(r"[\x20-\x7e]{1,120}\Z")
_ESSENCE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\Z")


def mime_of(declared: str, got: Pairs) -> str:
    """Return `declared` or else the response's Content-Type, if valid, or else application/octet-stream."""
    listed = coerce.header(got, "content-type") or ""
    return next((mime for mime in (declared, listed) if _may_be_sent(mime)), "application/octet-stream")


def _may_be_sent(mime: str) -> bool:
    return bool(_TOKEN.match(mime) and _ESSENCE.match(essence(mime)))


def type_of(url: str, mime: str, sent: Pairs = (), recorded: str | None = None) -> ResourceType:
    """Return the type of a resource from its `recorded` type, or from request headers, MIME type and URL."""
    if recorded is not None:
        return RECORDED[recorded]
    destination = destination_of(sent)
    if destination is not None:
        return _DESTINATIONS[destination]
    if (coerce.header(sent, "x-requested-with") or "").lower() == "xmlhttprequest":
        return "xhr"
    return _by_mime(mime) or _by_accept(sent) or _by_suffix(url) or _vague(mime)


def delays_load_event(of_type: ResourceType, sent: Pairs, recorded: str | None) -> bool:
    """Return True if an element or a frame requested a resource, so that the load event waits for it.
    `of_type` is the result of `type_of`."""
    if recorded is not None:
        return recorded not in _ASKED_FOR_BY_NO_ELEMENT
    destination = destination_of(sent)
    return of_type != "xhr" if destination is None else destination not in _DESTINATIONS_OF_NO_ELEMENT


def destination_of(sent: Pairs) -> str | None:
    """Return the destination of a request (Sec-Fetch-Dest); None if it is missing or unknown."""
    name = (coerce.header(sent, "sec-fetch-dest") or "").strip().lower()
    return name if name in _DESTINATIONS else None


def _by_mime(mime: str) -> ResourceType | None:
    """Return the type that the MIME type implies; None if servers use it for any type, such as text/html."""
    name = essence(mime)
    major, _, minor = name.partition("/")
    if name == "text/css":
        return "stylesheet"
    if "javascript" in minor or "ecmascript" in minor or name == "text/js":
        return "script"
    if major == "font" or minor.startswith(("font-", "x-font")) or minor == "vnd.ms-fontobject":
        return "font"
    if major == "image":
        return "image"
    if major in ("audio", "video"):
        return "media"
    return None


def _by_accept(sent: Pairs) -> ResourceType | None:
    """Return the type that the Accept header implies; None if it implies no type. Browsers send special
    Accept headers for documents, stylesheets and images."""
    accept = (coerce.header(sent, "accept") or "").strip().lower()
    if accept.startswith(("text/html", "application/xhtml", "application/xml,application/xhtml")):
        return "document"
    if accept.startswith("text/css"):
        return "stylesheet"
    if accept.startswith("image/"):
        return "image"
    if "json" in accept:
        return "xhr"
    return None


def _by_suffix(url: str) -> ResourceType | None:
    name = urls.target_of(url).partition("?")[0].rpartition("/")[2]
    return _SUFFIXES.get(name.rpartition(".")[2].lower()) if "." in name else None


def _vague(mime: str) -> ResourceType:
    name = essence(mime)
    if name in ("text/html", "application/xhtml+xml"):
        return "document"
    if name.endswith(("json", "/xml", "+xml")):
        return "xhr"
    return "other"


def essence(mime: str) -> str:
    """Return a MIME type without its parameters, in lower case."""
    return mime.partition(";")[0].strip().lower()
