"""Import WACZ: a ZIP of WARC files with a list of the recorded pages (https://specs.webrecorder.net/wacz/)."""

import io
import struct
import zipfile
import zlib
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError
from fastopen.common.files import temporary_file
from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.budget import copy_within, read_whole
from fastopen.pages.files import Progress, silent, stem_of
from fastopen.pages.importers import coerce
from fastopen.pages.importers.exchange import Exchange, bodies_of
from fastopen.pages.importers.har.recording import read_har
from fastopen.pages.importers.warc import Archive
from fastopen.pages.model import Resource
from fastopen.pages.recording import ImportedPage

# zipfile raises ValueError and struct.error for names, dates and extra fields that it cannot decode.
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)
# A page list of 50,000 pages has some 10 MB.
MAX_LIST_BYTES: Final = 16 * 2**20
# A HAR without bodies, which `fastopen record` adds to the archive.
_HAR: Final = "recording.har"
MAX_HAR_BYTES: Final = 64 * 2**20
_REMEDY: Final = "download or export it again"


def import_pages(path: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a WACZ, or of a HAR in a ZIP. If `fastopen record` added a HAR to the WACZ, return
    the HAR's pages, which have times. Otherwise use the WACZ's page list. Raises InputError for damage."""
    archive = Archive()
    try:
        with zipfile.ZipFile(path) as container:
            names = [n for n in container.namelist() if n.startswith("archive/") and ".warc" in n]
            # Browsertrix zips the WACZs of a crawl. Playwright zips a HAR together with files of its bodies.
            inner = [n for n in container.namelist() if n.lower().endswith((".har", ".wacz"))]
            if not names and len(inner) == 1 and inner[0].lower().endswith(".har"):
                return _har(container, inner[0], str(path), lenient)
            if not names:
                if inner:
                    remedy = "unpack it and pass these files"
                    raise InputError(f"the ZIP holds {len(inner)} HAR or WACZ files", str(path), remedy)
                message = "the ZIP holds no recording (archive/*.warc.gz or a HAR)"
                raise InputError(message, str(path), _REMEDY)
            roots = _listed(container, "pages/pages.jsonl") or _listed(container, "pages/extraPages.jsonl")
            for name in names:
                _read(archive, container, name, f"{path}: {name}", lenient, progress)
            name = stem_of(str(path), (".wacz", ".zip"))
            if _HAR in container.namelist():
                return _timed(container, archive.exchanges(), name, str(path), lenient)
    except _DAMAGE as error:
        fault = "" if isinstance(error, zipfile.BadZipFile) else f": {error}"
        raise InputError(f"not a readable ZIP file{fault}", str(path), _REMEDY) from None
    return archive.pages(name, str(path), roots)


def _har(container: zipfile.ZipFile, member: str, place: str, lenient: bool) -> list[ImportedPage]:
    text = read_whole(container.open(member), f"{place}: {member}", MAX_HAR_BYTES).decode("utf-8", "replace")
    found = read_har(io.StringIO(text).read, place, lenient=lenient)
    if isinstance(found, dict):
        raise InputError("not a HAR", f"{place}: {member}", _REMEDY)
    return found


def _timed(
    container: zipfile.ZipFile, exchanges: Sequence[Exchange], name: str, place: str, lenient: bool
) -> list[ImportedPage]:
    """Return the pages of the HAR in a WACZ, with bodies and body sizes from its WARC files (`exchanges`)."""
    waiting: dict[tuple[str, str], deque[Exchange]] = defaultdict(deque)
    for exchange in exchanges:
        waiting[exchange.method, exchange.url].append(exchange)
    found = _har(container, _HAR, place, lenient)
    pages = []
    for number, imported in enumerate(found, start=1):
        answers: dict[int, Exchange] = {}
        resources: list[Resource] = []
        for index, resource in enumerate(imported.page.resources):
            same = waiting[resource.method, resource.url]
            size, at_bytes = resource.body_bytes, resource.initiator_at_bytes
            if same and same[0].status == resource.status:
                answers[index] = same.popleft()
                size = answers[index].body_bytes
            if at_bytes is not None and resource.initiator is not None:
                at_bytes = min(at_bytes, resources[resource.initiator].body_bytes)
            resources.append(resource.model_copy(update={"body_bytes": size, "initiator_at_bytes": at_bytes}))
        label = name if len(found) == 1 else f"{name}#{number}"
        page = imported.page.model_copy(update={"name": label, "resources": tuple(resources)})
        picture = f"screenshots/{number}.png"
        screenshot = read_whole(container.open(picture), place) if picture in container.namelist() else None
        pages.append(replace(imported, page=page, bodies=bodies_of(answers), screenshot=screenshot))
    return pages


def _read(
    archive: Archive, container: zipfile.ZipFile, name: str, place: str, lenient: bool, progress: Progress
) -> None:
    """Add the records of one WARC to `archive`, through a temporary file, which allows random access."""
    budget.work(budget.ENTRY_STEPS)
    with temporary_file() as file:
        try:
            with container.open(name) as packed:
                copy_within(packed, file)
        except _DAMAGE as error:
            if not lenient:
                raise InputError(f"damaged ZIP: {error}", place, _REMEDY) from None
            archive.notes.add("cut_record")
        if file.tell():
            file.flush()
            archive.read(file, place, lenient, progress)


def _listed(container: zipfile.ZipFile, name: str) -> list[str]:
    """Return the URLs in the page list `name` of a WACZ. Ignore lines that cannot be read."""
    try:
        with container.open(name) as file:
            data = read_whole(file, f"{container.filename}: {name}", MAX_LIST_BYTES)
    except (KeyError, *_DAMAGE):
        return []
    lines = map(coerce.decoded, io.StringIO(data.decode("utf-8-sig", "replace")))
    found = (urls.cleaned(coerce.text(coerce.mapping(line).get("url"))) for line in lines)
    return [url for url in found if url is not None]
