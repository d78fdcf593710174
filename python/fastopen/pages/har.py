"""HAR 1.2 recordings into pages."""

from __future__ import annotations

from fastopen.errors import InputError
from fastopen.pages.imported import ImportedPage


def import_har(data: object, place: str, *, lenient: bool = False) -> list[ImportedPage]:
    """Every page of a decoded HAR. Raises InputError."""
    del data, lenient
    raise InputError("HAR files cannot be read yet", place)
