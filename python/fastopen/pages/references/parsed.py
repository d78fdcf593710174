"""Find the references to other resources in HTML and CSS by parsing the text.

The HTML parser gets the text in small pieces, as in a browser. This shows after how many bytes of the text a
browser knows of each reference.
"""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import tinycss2
from lxml import etree

from fastopen.pages import budget
from fastopen.pages.model import ResourceType

# Number of bytes of HTML that are parsed at once: the resolution of positions, less than a TCP segment.
_STEP_BYTES: Final = 128
# Elements whose content makes no requests in a browser that runs scripts.
_SILENT: Final = frozenset(["noscript", "template"])
_PRELOADED: Final[dict[str, ResourceType]] = {
    "style": "stylesheet", "script": "script", "image": "image", "font": "font", "fetch": "xhr",
    "audio": "media", "video": "media", "track": "media", "document": "document", "worker": "script",
}  # fmt: skip
_SOURCES: Final[dict[str, tuple[tuple[str, ResourceType | None], ...]]] = {
    "script": (("src", "script"), ("href", "script"), ("xlink:href", "script")),
    "image": (("href", "image"), ("xlink:href", "image"), ("src", "image")),
    "use": (("href", "image"), ("xlink:href", "image")),
    "embed": (("src", None),),
    "object": (("data", None),),
    "audio": (("src", "media"),),
    "video": (("src", "media"), ("poster", "image")),
    "source": (("src", "media"),),
    "track": (("src", "media"),),
    **dict.fromkeys(("img", "input"), (("src", "image"),)),
    **dict.fromkeys(("iframe", "frame"), (("src", "document"),)),
    **dict.fromkeys(("body", "table", "td", "th"), (("background", "image"),)),
}
# Attributes that list several images, of which a browser loads one.
_CHOICES: Final = frozenset(["srcset", "imagesrcset"])
_LINKS: Final = ("a", "area")
_CANDIDATE: Final = re.compile(r"[\s,]*+(\S+)")
_REFRESH: Final = re.compile(r"\s*(\d*+)[\d.]*+\s*[;,\s]\s*(?:url\s*=\s*)?['\"]?([^'\"]+)", re.IGNORECASE)
# A refresh within this time is a redirect: Chromium then replaces the document in the session history.
_REDIRECT_S: Final = 1
_MAY_NAME: Final = re.compile(r"url\(|@import|image-set\(|\\", re.IGNORECASE)
# tinycss2 raises an error for longer integers (sys.get_int_max_str_digits).
_LONG_NUMBER: Final = re.compile(r"[0-9]{4300,}")
_MAX_DEPTH: Final = 50
# Parsed CSS takes up a hundred times the memory of its text, so text after this many characters is ignored.
MAX_BYTES: Final = 2 * 2**20
_BYTES_A_STEP: Final = 2
_AT_RULES: Final[dict[str, ResourceType]] = {"import": "stylesheet", "font-face": "font"}
_SETS: Final = ("image-set", "-webkit-image-set")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a URL, as written in a text. A browser knows of it after `at` bytes of the text. `type`
    is the type of resource that the markup implies, such as `image`. `link` is True if browsers do not load
    the URL for this page: a hyperlink, or a script for browsers without modules. `redirect` is True if the
    document redirects to the URL (`<meta http-equiv="refresh">`). References with the same `picture` are
    alternatives, for example in a `srcset`. A browser loads only one of them."""

    url: str
    at: int
    type: ResourceType | None = None
    link: bool = False
    redirect: bool = False
    picture: int | None = None


@dataclass(frozen=True)
class References:
    """The references in a text, in order, and the base URL that a document declares with `<base>`, if any."""

    found: Sequence[Reference] = ()
    base: str | None = None


def references_in(text: bytes, kind: ResourceType, charset: str | None = None) -> References:
    """Return the references in a stylesheet, or in a document, except in comments, `noscript` and `template`
    elements. Return none for any other `kind` of text."""
    if kind == "stylesheet":
        decoded = text.decode(charset or "utf-8", "replace")
        return References([Reference(url, len(text), of) for url, of in stylesheet_references(decoded)])
    if kind != "document":
        return References()
    collector = _Collector()
    parser = etree.HTMLParser(target=collector, encoding=_parser_charset(charset), huge_tree=True)
    try:
        for start in range(0, len(text), _STEP_BYTES):
            collector.at = min(start + _STEP_BYTES, len(text))
            parser.feed(text[start : start + _STEP_BYTES])
        parser.close()
    except (etree.LxmlError, ValueError, UnicodeError):
        pass  # keep the references found so far: browsers do not give up on a broken document either
    return References(collector.found, collector.base)


def _parser_charset(charset: str | None) -> str | None:
    """Return libxml2's name of the charset, or None to let the parser detect the charset."""
    names = [charset] if charset else []
    with suppress(LookupError, ValueError):
        names += [codecs.lookup(charset or "").name]  # Python knows more aliases than libxml2
    for name in names:
        with suppress(LookupError):
            etree.HTMLParser(encoding=name)
            return name
    return None


def _candidates(srcset: str) -> Iterator[str]:
    """Yield the URLs in the value of a `srcset` attribute, without descriptors such as `2x`.
    See https://html.spec.whatwg.org/multipage/images.html#parsing-a-srcset-attribute"""
    at = 0
    while word := _CANDIDATE.match(srcset, at):
        url = word[1].rstrip(",")
        at = word.end()
        if url == word[1]:
            comma = srcset.find(",", at)
            at = comma if comma >= 0 else len(srcset)
        yield url


class _Collector:
    """Collects references to other resources. lxml calls its methods for the tags and texts of a document."""

    def __init__(self) -> None:
        self.at = 0
        self.found: list[Reference] = []
        self.base: str | None = None
        self._silent = 0
        self._style: list[str] | None = None
        self._pictures = 0
        self._in_picture = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        budget.work()
        if tag in _SILENT:
            self._silent += 1
        if self._silent:
            return
        if tag == "base" and self.base is None:
            self.base = attributes.get("href")
        if tag == "style":
            self._style = []
        has_choices = self._in_picture or not _CHOICES.isdisjoint(attributes)
        if tag == "picture" or (has_choices and not self._in_picture):
            self._pictures += 1
        self._in_picture |= tag == "picture"
        for one in self._of_tag(tag, attributes):
            is_choice = has_choices and one.type == "image"
            self.found.append(replace(one, picture=self._pictures) if is_choice else one)

    def end(self, tag: str) -> None:
        if tag in _SILENT and self._silent:
            self._silent -= 1
        if tag == "style" and self._style is not None:
            self.found.extend(self._in_css("".join(self._style)))
            self._style = None
        if tag == "picture":
            self._in_picture = False

    def data(self, text: str) -> None:
        if self._style is not None:
            self._style.append(text)

    def close(self) -> None:
        """Do nothing at the end of the document. lxml requires this method."""

    def _in_css(self, text: str) -> Iterator[Reference]:
        return (Reference(url, self.at, kind) for url, kind in stylesheet_references(text))

    def _of_tag(self, tag: str, attributes: Mapping[str, str]) -> Iterator[Reference]:
        if tag == "link":
            yield from self._of_link(attributes)
        elif tag in _LINKS:
            yield from self._one(attributes.get("href"), None, link=True)
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            refresh = _REFRESH.match(attributes.get("content", ""))
            redirect = refresh is not None and int(refresh[1][:9] or 0) <= _REDIRECT_S
            for one in self._one(refresh and refresh[2], "document", link=not redirect):
                yield replace(one, redirect=redirect)
        unused = tag == "script" and "nomodule" in attributes
        for attribute, kind in _SOURCES.get(tag, ()):
            yield from self._one(attributes.get(attribute), kind, link=unused)
        for attribute in sorted(_CHOICES.intersection(attributes)):
            for candidate in _candidates(attributes[attribute]):
                yield from self._one(candidate, "image")
        yield from self._in_css(attributes.get("style", ""))

    def _of_link(self, attributes: Mapping[str, str]) -> Iterator[Reference]:
        relations = attributes.get("rel", "").lower().split()
        kind: ResourceType | None = None
        if "stylesheet" in relations:
            if "alternate" in relations:
                return
            kind = "stylesheet"
        elif "modulepreload" in relations:
            kind = "script"
        elif "preload" in relations:
            kind = _PRELOADED.get(attributes.get("as", "").lower(), "other")
        elif any(relation.endswith(("icon", "icon-precomposed")) for relation in relations):
            kind = "image"
        elif "manifest" in relations:
            kind = "other"
        if kind is not None:
            yield from self._one(attributes.get("href"), kind)

    def _one(self, url: str | None, kind: ResourceType | None, *, link: bool = False) -> Iterator[Reference]:
        if url is not None and url.strip() and not url.lstrip().lower().startswith(("data:", "javascript:")):
            budget.work()
            yield Reference(url.strip(), self.at, kind, link)


def stylesheet_references(text: str) -> list[tuple[str, ResourceType]]:
    """Return a pair for each reference in a stylesheet: the URL as written, and the resource's type."""
    if not _MAY_NAME.search(text):
        return []
    text = _LONG_NUMBER.sub("0", text[:MAX_BYTES])
    budget.work(len(text) // _BYTES_A_STEP)
    return [one for one in _walk(tinycss2.parse_component_value_list(text, True), "image", 0) if one[0]]


def _walk(nodes: Sequence[Any], kind: ResourceType, depth: int) -> Iterator[tuple[str, ResourceType]]:
    """Yield (URL, type) for each reference in parsed CSS. The type is `kind` unless an at-rule sets it."""
    here = kind
    for node in nodes:
        if node.type == "at-keyword":
            here = _AT_RULES.get(node.lower_value, kind)
        elif node.type == "url" or (node.type == "string" and here == "stylesheet"):
            yield node.value, here
        elif node.type == "function":
            yield from _in_function(node, here, depth)
        elif node.type == "{} block":
            if depth < _MAX_DEPTH:
                yield from _walk(node.content, here, depth + 1)
            here = kind
        elif node.type == "literal" and node.value == ";":
            here = kind


def _in_function(node: Any, kind: ResourceType, depth: int) -> Iterator[tuple[str, ResourceType]]:
    if node.lower_name == "url" or node.lower_name in _SETS:
        yield from ((one.value, kind) for one in node.arguments if one.type == "string")
    if depth < _MAX_DEPTH:
        # @import has layers and conditions in addition to its URL. Strings within these are not URLs.
        inner = "image" if kind == "stylesheet" else kind
        yield from _walk(node.arguments, inner, depth + 1)
