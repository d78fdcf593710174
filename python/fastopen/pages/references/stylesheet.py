"""Find references in CSS: imports, fonts and images."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import tinycss2

from fastopen.pages import budget
from fastopen.pages.model import ResourceType

_MAY_NAME: Final = re.compile(r"url\(|@import|image-set\(|\\", re.IGNORECASE)
# tinycss2 raises an error for longer integers (sys.get_int_max_str_digits).
_LONG_NUMBER: Final = re.compile(r"[0-9]{4300,}")
_MAX_DEPTH: Final = 50
# Parsed values take a hundred times the memory of the text, so the text after this limit is ignored.
MAX_BYTES: Final = 2 * 2**20
_BYTES_A_STEP: Final = 2
# A URL as the stylesheet writes it, and the type of resource that it loads.
InStylesheet = tuple[str, ResourceType]


def names_in_stylesheet(text: str) -> list[InStylesheet]:
    if not _MAY_NAME.search(text):
        return []
    text = _LONG_NUMBER.sub("0", text[:MAX_BYTES])
    budget.work(len(text) // _BYTES_A_STEP)
    return [name for name in _walk(tinycss2.parse_component_value_list(text, True), "image", 0) if name[0]]


def _walk(nodes: Sequence[Any], kind: ResourceType, depth: int) -> Iterator[InStylesheet]:
    """Yield the URLs in `nodes` with their types: `kind`, except in at-rules that imply another type."""
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


_AT_RULES: Final[dict[str, ResourceType]] = {"import": "stylesheet", "font-face": "font"}
_SETS: Final = ("image-set", "-webkit-image-set")


def _in_function(node: Any, kind: ResourceType, depth: int) -> Iterator[InStylesheet]:
    if node.lower_name == "url" or node.lower_name in _SETS:
        yield from ((one.value, kind) for one in node.arguments if one.type == "string")
    if depth < _MAX_DEPTH:
        # @import takes layers and conditions in addition to its URL; strings in these are not URLs.
        inner = "image" if kind == "stylesheet" else kind
        yield from _walk(node.arguments, inner, depth + 1)
