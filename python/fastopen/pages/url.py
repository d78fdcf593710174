"""Check that URLs have the format that pages require, and convert other URLs into this format."""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from pydantic import ValidationError
from pydantic_core import Url

# All characters that the URL standard leaves unescaped in a path or query, and `%`, which starts an escape.
_KEPT: Final = "!$%&'()*+,-./:;=?@[]^_|~{}"
# A name that DNS and TLS accept: labels of up to 63 characters without hyphens at their ends.
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"(?:(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])\Z")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Browsers treat `%2e` as a dot in the segments `.` and `..` of a path.
_DOT: Final = re.compile(r"%2e", re.IGNORECASE)
_DOTS: Final = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
_TARGET: Final = re.compile(r"/[!$-;=?-_a-~]*\Z")
# Size of each cache: recordings repeat URLs (referers, call stacks), and a run reads its pages again.
_REMEMBERED: Final = 8192
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@lru_cache(_REMEMBERED)
def problem_of(url: str) -> str | None:
    """Return the reason why `url` is not allowed in a page; None if it is allowed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"not a URL: {error}"
    if parts.scheme not in DEFAULT_PORTS or not url.startswith(f"{parts.scheme}://"):
        return "not an absolute http or https URL"
    if "#" in url:
        return "has a fragment"
    if "@" in parts.netloc:
        return "has a user name"
    if port == 0:
        return "port 0 is not a port"
    host = _host_of_netloc(parts.netloc)
    if parts.netloc not in (host, f"{host}:{port}"):
        return "port is not a plain number"
    if host != host.lower():
        return "host is not in lower case"
    if not _HOST.match(host) or _canonical(host) != host:
        return "host is not a valid name or address"
    if not _TARGET.match(url[len(parts.scheme) + 3 + len(parts.netloc) :]):
        return "path is missing or has characters that must be percent-encoded"
    return None


@lru_cache(_REMEMBERED)
def host_of(url: str) -> str:
    """Return the host of a valid page URL, without port; IPv6 addresses keep their brackets."""
    return _host_of_netloc(urlsplit(url).netloc)


@lru_cache(_REMEMBERED)
def is_address(host: str) -> bool:
    """Return True if a host is an IP address; an IPv6 address may have brackets."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def origin_of(url: str) -> tuple[str, str, int]:
    """Return (scheme, host, port) of a valid page URL. Without a port, use the default of the scheme."""
    parts = urlsplit(url)
    return parts.scheme, _host_of_netloc(parts.netloc), parts.port or DEFAULT_PORTS[parts.scheme]


def with_scheme(url: str, scheme: str) -> str:
    """Return the valid page URL `url` with another scheme, but the same port."""
    before, host, port = origin_of(url)
    if before == scheme:
        return url
    place = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{place}{target_of(url)}"


def target_of(url: str) -> str:
    """Return the path and query of a valid page URL, which are the target in the request line."""
    parts = urlsplit(url)
    return url[len(parts.scheme) + 3 + len(parts.netloc) :] or "/"


@lru_cache(_REMEMBERED)
def cleaned(raw: str, base: str | None = None) -> str | None:
    """Convert `raw`, which may be relative to `base`, to a page URL: remove fragment, user name and default
    port, put the host in lower case, and percent-encode. Return None if it is not a valid http(s) URL."""
    text = raw.strip().replace("\t", "").replace("\n", "").replace("\r", "")
    try:
        parts = urlsplit(urljoin(base, text) if base else text)
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        return None
    host = _canonical(_host_of_netloc(parts.netloc).lower())
    if not host or port == 0:
        return None
    netloc = host if port in (None, DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    path = _escaped(_without_dots(parts.path.replace("\\", "/"))) or "/"
    query = "?" + _escaped(parts.query) if parts.query else ""
    url = f"{scheme}://{netloc}{path if path.startswith('/') else '/' + path}{query}"
    return url if problem_of(url) is None else None


def _without_dots(path: str) -> str:
    """Resolve the segments `.` and `..` of a path, which urljoin keeps in URLs with a host."""
    if not _DOTS.search(path):
        return path
    kept: list[str] = []
    for segment in path.split("/"):
        dots = _DOT.sub(".", segment)
        if dots == ".." and len(kept) > 1:
            kept.pop()
        elif dots not in (".", ".."):
            kept.append(segment)
    return "/".join([*kept, ""] if dots in (".", "..") else kept)


def scheme_of(raw: str) -> str:
    """Return the scheme of any URL, in lower case; empty if the URL has no scheme."""
    match = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", raw)
    return match.group(1).lower() if match else ""


def _host_of_netloc(netloc: str) -> str:
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


def _canonical(host: str) -> str | None:
    """Convert a host into the URL standard's form (https://url.spec.whatwg.org/#host-parsing), with Punycode
    for international names. Remove a final dot, which certificates do not contain. Return None for an invalid
    host, such as one with invalid Punycode."""
    try:
        url = Url(f"http://{host}/")
    except ValidationError:
        return None
    return (url.host or "").removesuffix(".") if url.path == "/" else None


def _escaped(text: str) -> str:
    """Percent-encode the characters that a request line must not contain. Lone surrogates become U+FFFD."""
    return quote(_LONE_SURROGATE.sub("\ufffd", text), safe=_KEPT)
