"""Files that users name: what goes wrong with them is an InputError that names the file."""

from __future__ import annotations

from pathlib import Path

from fastopen.atomic import write_atomic
from fastopen.errors import InputError, unreadable, unwritable


def read_text(path: Path, form: str) -> str:
    """A text in UTF-8; `form` says what else it should be. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", str(path), form) from None


def write_file(path: Path, content: str | bytes) -> None:
    """As `write_atomic`. Raises InputError where the file cannot be written."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise unwritable(path, error) from None
