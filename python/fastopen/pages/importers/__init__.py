"""Import pages from recordings. FILES and FOLDERS list the modules for all formats of recordings except HAR.

Each module has `import_pages(path, lenient=..., progress=...)`. Modules for folders also have
`holds(folder)`, which returns True if the folder has their format.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import InputError, unreadable
from fastopen.pages.files import Progress, first_bytes, silent, unpacked_start
from fastopen.pages.recording import ImportedPage

# For each format: the first bytes of its files, True if the files may be compressed with gzip, and its
# module. HARs have no fixed first bytes, see har/recording.py.
FILES: Final = ((b"PK\x03\x04", False, "wacz"), (b"WARC/", True, "warc"))
# Modules for folders, in the order in which their `holds` is tried.
FOLDERS: Final = ("mahimahi", "mirror")


class NoPageError(InputError):
    """Raised if a folder contains nothing that could be a page."""


def _format(name: str) -> Any:
    # Imported late: the formats' libraries take a quarter of a second, and most runs need none of them.
    return import_module(f"{__name__}.{name}")


def import_file(
    path: Path, *, lenient: bool = False, progress: Progress = silent
) -> list[ImportedPage] | None:
    """Return the pages of a WARC or WACZ file. Return None if the file has another format, such as HAR."""
    start = first_bytes(path)
    unpacked = unpacked_start(start, len(start)) or start
    for beginning, packed, name in FILES:
        if (unpacked if packed else start).startswith(beginning):
            found: list[ImportedPage] = _format(name).import_pages(path, lenient=lenient, progress=progress)
            return found
    return None


def import_folder(folder: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a recording in a folder. Raises NoPageError if it has no known format."""
    try:
        for known in map(_format, FOLDERS):
            if known.holds(folder):
                found: list[ImportedPage] = known.import_pages(folder, lenient=lenient, progress=progress)
                return found
    except OSError as error:
        raise unreadable(error.filename or folder, error) from None
    raise NoPageError(
        "the folder holds no HAR, WARC or WACZ file, website mirror or Mahimahi recording",
        str(folder),
        "give a recording, a folder of recordings, or a mirror with a folder for each host",
    )
