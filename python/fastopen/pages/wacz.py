"""WACZ: a ZIP of WARC files and a list of the pages that were recorded (https://specs.webrecorder.net/wacz/)."""

from __future__ import annotations

import json
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Final

from fastopen.errors import InputError
from fastopen.pages import url as urls
from fastopen.pages.budget import copy_within, read_whole
from fastopen.pages.files import stem_of
from fastopen.pages.imported import ImportedPage
from fastopen.pages.progress import Progress, silent
from fastopen.pages.warc import Archive

ZIP: Final = b"PK\x03\x04"
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)
# A list of 50,000 pages has some 10 MB.
MAX_LIST_BYTES: Final = 16 * 2**20
_REMEDY: Final = "fetch or export it again"


def import_wacz(path: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Every page that `pages/pages.jsonl` lists and the archives hold. Raises InputError."""
    archive = Archive()
    try:
        with zipfile.ZipFile(path) as whole:
            names = [n for n in whole.namelist() if n.startswith("archive/") and ".warc" in n]
            if not names:
                raise InputError("is a ZIP without archive/*.warc.gz: no WACZ", str(path))
            roots = _listed(whole)
            for name in names:
                _read(archive, whole, name, f"{path}: {name}", lenient, progress)
    except _DAMAGE as error:
        raise InputError(f"damaged ZIP: {error}", str(path), _REMEDY) from None
    return archive.pages(stem_of(str(path), (".wacz", ".zip")), str(path), roots)


def _read(
    archive: Archive, whole: zipfile.ZipFile, name: str, place: str, lenient: bool, progress: Progress
) -> None:
    """Takes in one WARC of the ZIP, out of an unnamed file: records are looked for by their place."""
    with tempfile.TemporaryFile(prefix="fastopen-import-") as file:
        try:
            with whole.open(name) as packed:
                copy_within(packed, file)
        except _DAMAGE as error:
            if not lenient:
                raise InputError(f"damaged ZIP: {error}", place, _REMEDY) from None
            archive.notes.add("cut")
        if file.tell():
            file.flush()
            archive.read(file, place, lenient, progress)


def _listed(whole: zipfile.ZipFile) -> list[str]:
    """The URLs of the pages, in their order; lines that cannot be read list nothing."""
    try:
        with whole.open("pages/pages.jsonl") as file:
            text = read_whole(file, f"{whole.filename}: pages/pages.jsonl", MAX_LIST_BYTES).decode(
                "utf-8", "replace"
            )
    except (KeyError, *_DAMAGE):
        return []
    found = []
    for line in text.splitlines():
        try:
            page = json.loads(line)
        except (ValueError, RecursionError):
            continue
        url = page.get("url") if isinstance(page, dict) else None
        cleaned = urls.cleaned(url) if isinstance(url, str) else None
        if cleaned is not None:
            found.append(cleaned)
    return found
