"""Folders that are pages: mirrors, Mahimahi's recordings, or several recordings side by side."""

from __future__ import annotations

from pathlib import Path

from fastopen.common.errors import InputError, unreadable
from fastopen.pages.imported import ImportedPage
from fastopen.pages.progress import Progress, silent


class NoPageError(InputError):
    """The folder holds nothing that could be a page."""


def import_folder(folder: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """The pages of a folder, by what lies in it. Raises InputError, NoPageError where that is no page."""
    # Their libraries cost a quarter of a second to import, and most runs read none of these.
    from fastopen.pages.importers import mahimahi, mirror

    try:
        if mahimahi.is_recording(folder):
            return mahimahi.import_recording(folder, lenient=lenient, progress=progress)
        inner = sorted(p for p in folder.iterdir() if p.is_dir())
        recordings = [path for path in inner if mahimahi.is_recording(path)]
        if recordings and len(recordings) == len(inner):
            return [
                page
                for path in recordings
                for page in mahimahi.import_recording(path, lenient=lenient, progress=progress)
            ]
        if mirror.is_mirror(folder):
            return mirror.import_mirror(folder, lenient=lenient, progress=progress)
    except OSError as error:
        raise unreadable(error.filename or folder, error) from None
    raise NoPageError(
        "is a folder, but holds no HAR, WARC or WACZ, and is neither a mirror (a folder for each host) nor a"
        " Mahimahi recording",
        str(folder),
        "give the files in it",
    )
