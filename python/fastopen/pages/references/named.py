"""Find the references in a document or stylesheet by parsing it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastopen.pages.model import ResourceType


@dataclass(frozen=True, slots=True)
class Named:
    """A reference as written in a text. A parser knows of it after `at` bytes of the text. `type` is the type
    of resource that the markup implies, if any. `link` is True if the reference leads to another page. Of all
    references with the same `picture`, a browser loads one; None: there is no choice."""

    url: str
    at: int
    type: ResourceType | None = None
    link: bool = False
    picture: int | None = None


@dataclass(frozen=True)
class Names:
    """The references in a text, in order, and the base URL for them that a document declares, if any."""

    found: Sequence[Named] = ()
    base: str | None = None


def names_in(text: bytes, kind: ResourceType, charset: str | None = None) -> Names:
    """Return the references in a `document` or `stylesheet`; empty for other kinds."""
    # Importing the parsers takes a tenth of a second, and most inputs do not need them.
    if kind == "document":
        from fastopen.pages.references.document import names_in_document

        return names_in_document(text, charset)
    if kind == "stylesheet":
        from fastopen.pages.references.stylesheet import names_in_stylesheet

        decoded = text.decode(charset or "utf-8", "replace")
        return Names([Named(url, len(text), of) for url, of in names_in_stylesheet(decoded)])
    return Names()
