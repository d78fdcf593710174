"""What the browser took a resource for: as recorded, else out of headers, MIME type and name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fastopen.pages import url as urls
from fastopen.pages.importers import fields
from fastopen.pages.model import ResourceType

# Chrome DevTools' and the DevTools protocol's resource types (WebPageTest writes them with capitals).
_RECORDED: Final[dict[str, ResourceType]] = {
    "document": "document", "subdocument": "document", "iframe": "document",
    "stylesheet": "stylesheet", "script": "script", "image": "image", "font": "font",
    "xhr": "xhr", "fetch": "xhr", "preflight": "xhr", "eventsource": "xhr",
    "media": "media", "texttrack": "media", "manifest": "other", "ping": "other", "beacon": "other",
    "cspviolationreport": "other", "csp-violation-report": "other", "signedexchange": "other",
    "signed-exchange": "other", "prefetch": "other",
}  # fmt: skip
# Of these, no element or frame asks for. A load event waits for elements and frames alone (HTML, "delay the
# load event"), not for XMLHttpRequest, fetch(), beacons and what browsers ask for by themselves.
_ASKED_FOR_BY_NO_ELEMENT: Final = frozenset([
    "xhr", "fetch", "preflight", "eventsource", "ping", "beacon", "cspviolationreport",
    "csp-violation-report", "manifest", "prefetch", "signedexchange", "signed-exchange",
])  # fmt: skip
# Fetch metadata, https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header
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
# Of requests and responses of certificate checks (RFC 6960 appendix C, RFC 2585 section 4, RFC 5280).
_CERTIFICATE_CHECKS: Final = frozenset([
    "application/ocsp-request", "application/ocsp-response", "application/pkix-crl",
    "application/x-pkcs7-crl", "application/pkix-cert", "application/x-x509-ca-cert",
])  # fmt: skip
_TOKEN: Final = re.compile(r"[\x20-\x7e]{1,120}\Z")
_ESSENCE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\Z")


def mime_of(response: Mapping[str, Any]) -> str:
    """A Content-Type that may be sent: the recorded one, or application/octet-stream."""
    declared = fields.text(fields.mapping(response.get("content")).get("mimeType"))
    if _may_be_sent(declared):
        return declared
    listed = fields.header(fields.headers(response.get("headers")), "content-type") or ""
    return listed if _may_be_sent(listed) else "application/octet-stream"


def _may_be_sent(mime: str) -> bool:
    return bool(_TOKEN.match(mime) and _ESSENCE.match(_essence(mime)))


def is_certificate_check(entry: Mapping[str, Any]) -> bool:
    """Whether the browser asked for it to verify a certificate: OCSP, a CRL or an issuer's certificate."""
    request, response = (fields.mapping(entry.get(side)) for side in ("request", "response"))
    declared = (
        fields.text(fields.mapping(request.get("postData")).get("mimeType")),
        fields.text(fields.mapping(response.get("content")).get("mimeType")),
        *(fields.header(fields.headers(side.get("headers")), "content-type") for side in (request, response)),
    )
    return any(_essence(value or "") in _CERTIFICATE_CHECKS for value in declared)


def is_frame(entry: Mapping[str, Any]) -> bool:
    """Return True for the document of a frame, if the recorder or the request names it so."""
    recorded, destination = _recorded(entry), _destination(entry)
    return recorded in ("subdocument", "iframe") or destination in ("iframe", "frame")


def is_event_stream(entry: Mapping[str, Any]) -> bool:
    """Return True for a stream of server-sent events, which stays open and which no load event waits for."""
    response = fields.mapping(entry.get("response"))
    declared = _essence(fields.text(fields.mapping(response.get("content")).get("mimeType")))
    return declared == "text/event-stream" or _recorded(entry) == "eventsource"


def type_of(entry: Mapping[str, Any], url: str, mime: str) -> ResourceType:
    """The type of an entry; `other` where nothing tells it."""
    recorded, destination = _recorded(entry), _destination(entry)
    if recorded is not None:
        return _RECORDED[recorded]
    if destination is not None:
        return _DESTINATIONS[destination]
    sent = fields.headers(fields.mapping(entry.get("request")).get("headers"))
    if (fields.header(sent, "x-requested-with") or "").lower() == "xmlhttprequest":
        return "xhr"
    return _by_mime(mime) or _by_accept(sent) or _by_suffix(url) or _vague(mime)


def delays_load_event(entry: Mapping[str, Any], of_type: ResourceType) -> bool:
    """Whether an element or a frame asked for it; `of_type` is what `type_of` took it for."""
    recorded, destination = _recorded(entry), _destination(entry)
    if recorded is not None:
        return recorded not in _ASKED_FOR_BY_NO_ELEMENT
    if destination is not None:
        return destination not in _DESTINATIONS_OF_NO_ELEMENT
    return of_type != "xhr"


def _recorded(entry: Mapping[str, Any]) -> str | None:
    names = (fields.text(entry.get(key)).lower() for key in ("_resourceType", "_request_type"))
    return next((name for name in names if name in _RECORDED), None)


def _destination(entry: Mapping[str, Any]) -> str | None:
    sent = fields.headers(fields.mapping(entry.get("request")).get("headers"))
    name = (fields.header(sent, "sec-fetch-dest") or "").strip().lower()
    return name if name in _DESTINATIONS else None


def _by_mime(mime: str) -> ResourceType | None:
    """What the MIME type says alone; None where it says little (servers send anything as text/html)."""
    essence = _essence(mime)
    major, _, minor = essence.partition("/")
    if essence == "text/css":
        return "stylesheet"
    if "javascript" in minor or "ecmascript" in minor or essence == "text/js":
        return "script"
    if major == "font" or minor.startswith(("font-", "x-font")) or minor == "vnd.ms-fontobject":
        return "font"
    if major == "image":
        return "image"
    if major in ("audio", "video"):
        return "media"
    return None


def _by_accept(sent: list[tuple[str, str]]) -> ResourceType | None:
    """Browsers ask for documents, stylesheets and images with Accept headers of their own."""
    accept = (fields.header(sent, "accept") or "").strip().lower()
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
    essence = _essence(mime)
    if essence in ("text/html", "application/xhtml+xml"):
        return "document"
    if essence.endswith(("json", "/xml", "+xml")):
        return "xhr"
    return "other"


def _essence(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()
