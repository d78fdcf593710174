"""Recordings into pages. A format is a module here and a row of FILES or FOLDERS.

The module has `import_pages(path, lenient=..., progress=...)`; one for folders also has `holds(folder)`.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import InputError, unreadable
from fastopen.pages.files import GZIP, first_bytes, unpacked_start
from fastopen.pages.imported import ImportedPage
from fastopen.pages.progress import Progress, silent

# How a file begins, and if it may be gzip. A text file may be a HAR: har/recording.py reads it.
FILES: Final = ((b"PK\x03\x04", False, "wacz"), (b"WARC/", True, "warc"))
# Asked in this order if they know a folder.
FOLDERS: Final = ("mahimahi", "mirror")


class NoPageError(InputError):
    """The folder holds nothing that could be a page."""


def _format(name: str) -> Any:
    # Their libraries cost a quarter of a second to import, and most runs read none of these.
    return import_module(f"{__name__}.{name}")


def import_file(
    path: Path, *, lenient: bool = False, progress: Progress = silent
) -> list[ImportedPage] | None:
    """Return the pages of a file that holds records instead of one text; None for everything else."""
    start = first_bytes(path)
    unpacked = unpacked_start(start, len(start)) if start.startswith(GZIP) else start
    for beginning, packed, name in FILES:
        if (unpacked if packed else start).startswith(beginning):
            found: list[ImportedPage] = _format(name).import_pages(path, lenient=lenient, progress=progress)
            return found
    return None


def import_folder(folder: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a folder. Raises InputError; NoPageError if no format knows the folder."""
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
