"""References of a document or stylesheet by its structure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastopen.pages.model import ResourceType


@dataclass(frozen=True, slots=True)
class Named:
    """A reference as it is written. `at` is after how many bytes of the text a parser knows of it.

    `type` is what the browser will take it for, None where that is not said. People alone follow a `link`.
    Of those with the same `picture` a browser takes one; None: it is no choice of a picture.
    """

    url: str
    at: int
    type: ResourceType | None = None
    link: bool = False
    picture: int | None = None


@dataclass(frozen=True)
class Names:
    """All references of a text in its order, and the base that a document declares for them."""

    found: Sequence[Named] = ()
    base: str | None = None


def names_in(text: bytes, kind: ResourceType, charset: str | None = None) -> Names:
    """Return the references of a `document` or `stylesheet`; empty for other kinds."""
    # The parsers cost a tenth of a second to import, and most inputs never need them.
    if kind == "document":
        from fastopen.pages.references.document import names_in_document

        return names_in_document(text, charset)
    if kind == "stylesheet":
        from fastopen.pages.references.stylesheet import names_in_stylesheet

        decoded = text.decode(charset or "utf-8", "replace")
        return Names([Named(url, len(text), of) for url, of in names_in_stylesheet(decoded)])
    return Names()
