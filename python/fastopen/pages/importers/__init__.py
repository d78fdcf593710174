"""Import pages from recordings. FILES and FOLDERS list the modules for all formats except HAR.

Each module has `import_pages(path, lenient=..., progress=...)`. This raises InputError for damaged data, or
skips the data if `lenient`. Each module for folders also has `holds(folder)`, which returns True if the
folder has the module's format. A HAR cannot be recognised by its first bytes: see har/recording.py.

In all modules, `place` names the file, or its entry, in errors. `notes` counts left-out and guessed data.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import unreadable
from fastopen.pages.files import Progress, first_bytes, unpacked_start
from fastopen.pages.recording import ImportedPage

# For each format except HAR: the first bytes of its files, True if gzip may compress them, and its module.
FILES: Final = ((b"PK\x03\x04", False, "wacz"), (b"WARC/", True, "warc"))
# Modules for folders, in the order in which their `holds` is tried.
FOLDERS: Final = ("mahimahi", "mirror")


def _format(name: str) -> Any:
    # Importing the formats' libraries takes a quarter of a second, and most runs need none of them.
    return import_module(f"{__name__}.{name}")


def import_file(path: Path, *, lenient: bool, progress: Progress) -> list[ImportedPage] | None:
    """Return the pages of a WARC or WACZ file, or None if the file has another format, such as HAR."""
    start = first_bytes(path)
    unpacked = unpacked_start(start, len(start)) or start
    for beginning, packed, name in FILES:
        if (unpacked if packed else start).startswith(beginning):
            found: list[ImportedPage] = _format(name).import_pages(path, lenient=lenient, progress=progress)
            return found
    return None


def import_folder(folder: Path, *, lenient: bool, progress: Progress) -> list[ImportedPage] | None:
    """Return the pages of a recording in a folder, or None if the folder has no supported format."""
    try:
        for known in map(_format, FOLDERS):
            if known.holds(folder):
                found: list[ImportedPage] = known.import_pages(folder, lenient=lenient, progress=progress)
                return found
    except OSError as error:
        raise unreadable(error.filename or folder, error) from None
    return None
