"""List the properties of the pages in a corpus, a large collection of pages, with several processes. Select
pages by a condition on these properties or at random."""

import csv
import hashlib
import os
import signal
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fastopen.common.errors import InputError, MachineError, unreadable
from fastopen.common.grid import unescape_formula
from fastopen.common.grouping import grouped
from fastopen.pages.budget import MAX_UNPACKED_BYTES
from fastopen.pages.conditions import Condition, Kind
from fastopen.pages.describe import summary, third_parties
from fastopen.pages.files import FileProgress, Progress, first_bytes, part_of, silent
from fastopen.pages.library import PAGE_SUFFIX, RECORDING_SUFFIXES, LeftOutWarning, Paths, load_pages
from fastopen.pages.model import Page
from fastopen.pages.recording import ImportedPage

COLUMNS: Final = (
    *("file", "page", "url", "requests", "hosts", "origins", "connections", "depth", "redirects"),
    *("third_parties", "bytes_up", "bytes_down", "body_bytes", "server_think_us", "processing_us"),
    *("processing_us_longest_chain", "load_event_processing_us", "initiators", "digest"),
)
# Maximum number of files per process that are submitted but whose results are not yet yielded. Results are
# yielded in order, so the processes need more files to read while an earlier file is still being read.
AHEAD: Final = 4
TEXTS: Final = ("file", "page", "url", "initiators", "digest")
KINDS: Final[dict[str, Kind]] = {name: "text" if name in TEXTS else "number" for name in COLUMNS}
_HEADER: Final = ",".join(COLUMNS[:3]).encode()


@dataclass(frozen=True)
class IndexedFile:
    """A file of a corpus, with the properties of its pages, or the error if it could not be read."""

    file: Path
    rows: tuple[dict[str, Any], ...] = ()
    """For each page, a mapping from the names in COLUMNS to the values of its properties."""
    error: str = ""
    """The text of the error; empty if the file could be read."""


def corpus_files(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the path of each recording and page file in the folders and their subfolders, sorted by name in
    each folder. Raises InputError if a folder is missing or cannot be read."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError("no such folder", str(folder), "give a folder of recordings or pages")
        for place, names, files in os.walk(folder, onerror=_raise):
            names.sort()
            for name in sorted(files):
                if name.lower().endswith((*RECORDING_SUFFIXES, PAGE_SUFFIX)):
                    yield Path(place, name)


def _raise(error: OSError) -> None:
    raise unreadable(error.filename, error)


def index_pages(
    files: Iterable[Path], *, lenient: bool, max_unpacked: int, processes: int
) -> Iterator[IndexedFile]:
    """Yield the properties of the pages in each file, in the order of the files. `processes` is the number of
    processes to use. See `load_pages` for the other options. Raises MachineError if a process dies."""
    if processes == 1:  # starting another process takes longer than reading a few files
        yield from (index_file(file, lenient, max_unpacked) for file in files)
        return
    waiting = iter(files)
    running: deque[tuple[Path, Future[IndexedFile]]] = deque()
    # The parent process handles SIGINT (Ctrl-C), so the other processes ignore it.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, get_context("forkserver"), signal.signal, ignored) as pool:
        try:
            while True:
                for file in islice(waiting, AHEAD * processes - len(running)):
                    running.append((file, pool.submit(index_file, file, lenient, max_unpacked)))
                if not running:
                    return
                file, future = running.popleft()
                yield future.result()
        except BrokenProcessPool:
            message = f"a process died reading {file} or one of the {len(running)} files after it"
            raise MachineError(message, "it may lack memory: use fewer processes, such as --jobs 1") from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def index_file(file: Path, lenient: bool, max_unpacked: int) -> IndexedFile:
    """Read a file, and return the properties of its pages, or the error as text."""
    try:
        pages = load_pages([file], lenient=lenient, max_unpacked=max_unpacked)
    except InputError as error:
        return IndexedFile(file, error=str(error))
    return IndexedFile(file, tuple(page_properties(imported.page, file) for imported in pages))


def page_properties(page: Page, file: Path) -> dict[str, Any]:
    """Return the properties of a page of `file`: a dictionary with the names in COLUMNS as keys."""
    properties = summary(page)
    properties.update(file=str(file), page=properties["name"], third_parties=len(third_parties(page)))
    return {name: properties[name] for name in COLUMNS}


class Choice(BaseModel):
    """A selection of pages: all pages that meet the condition `where`, or a random sample of them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    where: str = ""
    """A condition on the properties of a page (pages/conditions.py); empty: all pages."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """The number of pages to draw from those that meet the condition; None: all pages that meet it."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """The seed of the sample. The same seed draws the same pages."""

    @field_validator("where")
    @classmethod
    def _check_where(cls, text: str) -> str:
        if text.strip():
            try:
                Condition(text, KINDS)
            except InputError as error:
                raise ValueError(f"{error.message}; {error.remedy}") from None
        return text.strip()


@dataclass(frozen=True)
class Candidate:
    """A page that may be selected. `properties` maps the names of its properties, such as `hosts`, to their
    values. `page` is the page itself if it was loaded to find these values, otherwise None."""

    properties: dict[str, Any]
    file: Path
    """The file to read the page from if `page` is None."""
    page: ImportedPage | None = field(default=None, compare=False)

    def rank(self, seed: int) -> tuple[bytes, str, str]:
        """Return the page's sort key for a random sample. The pages with the smallest keys form the sample.
        So a larger sample with the same seed contains all pages of a smaller sample."""
        mixed = hashlib.sha256(f"{seed} {self.properties['digest']}".encode()).digest()
        return (mixed, str(self.properties["file"]), str(self.properties["page"]))


def is_index(path: Path) -> bool:
    """Return True if the file is a readable index of pages, as `fastopen page index` writes it."""
    return os.path.isfile(path) and first_bytes(path).startswith(_HEADER)


def load_chosen(
    inputs: Paths,
    choice: Choice | None,
    library: Paths = (),
    *,
    lenient: bool = False,
    max_unpacked: int = MAX_UNPACKED_BYTES,
    progress: FileProgress | None = None,
    processes: int | None = None,
) -> list[ImportedPage]:
    """Load pages, in the order of the inputs. `choice` selects some of them by a condition or at random.

    If there is no `choice`, and no input is an index (a CSV file that lists pages with their properties),
    load all pages as `load_pages` does. Otherwise an input may also be a folder with recordings at any depth.
    Unreadable files in this folder are left out with a LeftOutWarning. URLs are looked up in the folders of
    `library`. Repeated inputs are left out. Raises InputError if the file of a selected page is unreadable,
    or has changed since it was indexed. With `lenient`, such a file is left out instead. `max_unpacked`
    limits the decompressed bytes of an input. `processes` files are read at once; None: one file per CPU."""
    reading: dict[str, Any] = {"lenient": lenient, "max_unpacked": max_unpacked}
    inputs = _once(inputs)
    if choice is None and not any(is_index(Path(one)) for one in inputs):
        return load_pages(inputs, library, **reading, progress=progress)
    choice = choice or Choice()
    meets = Condition(choice.where, KINDS) if choice.where else None
    found: list[Candidate] = []
    total = 0
    for number, one in enumerate(inputs):
        watch = silent if progress is None else part_of(partial(progress, str(one)), number, len(inputs))
        for candidate in _candidates(Path(one), library, watch, processes, reading):
            total += 1
            if meets is None or meets(candidate.properties):
                found.append(candidate)
    if not found:
        if not total:
            raise InputError("the inputs contain no page")
        first = inputs[0]
        shown = f"see {first}" if is_index(Path(first)) else f"run fastopen page show {first}"
        raise InputError(f"{choice.where!r} matches no page", "--where", f"{shown} for its values")
    if choice.sample is not None and choice.sample < len(found):
        ranks = sorted(range(len(found)), key=lambda number: found[number].rank(choice.seed))
        found = [found[number] for number in sorted(ranks[: choice.sample])]
    return _loaded(found, progress, reading)


def _once(inputs: Paths) -> list[Path | str]:
    """Return the inputs. Leave out, with a LeftOutWarning, any file or folder that an earlier input names."""
    found: dict[str, Path | str] = {}
    for one in inputs:
        key = os.path.realpath(one) if os.path.exists(one) else str(one)
        if key in found:
            warnings.warn(f"left out: {one}: given twice", LeftOutWarning, stacklevel=3)
        found.setdefault(key, one)
    return list(found.values())


def _candidates(
    given: Path, library: Paths, progress: Progress, processes: int | None, reading: dict[str, Any]
) -> Iterator[Candidate]:
    """Yield all pages of `given`: an index (a CSV file of pages), a folder with recordings at any depth, or
    another input of `load_pages`. `library` and the options in `reading` are those of `load_pages`."""
    if is_index(given):
        yield from read_index(given)
        return
    files = list(corpus_files([given])) if given.is_dir() else []
    if not files:
        loaded = load_pages([given], library, **reading, progress=lambda _, *amounts: progress(*amounts))
        yield from (Candidate(page_properties(imported.page, given), given, imported) for imported in loaded)
        return
    cores = processes or len(os.sched_getaffinity(0))
    for number, one in enumerate(index_pages(files, **reading, processes=min(cores, len(files)))):
        progress(number, len(files))
        if one.error:
            warnings.warn(f"left out: {one.error}", LeftOutWarning, stacklevel=3)
        yield from (Candidate(properties, one.file) for properties in one.rows)


def read_index(path: Path) -> Iterator[Candidate]:
    """Yield the properties and file of each page in an index. A file with a relative path is looked up in the
    working directory, then in the folder of the index. Raises InputError if the index is not valid."""
    try:
        with path.open(encoding="utf-8", newline="") as text:
            rows = csv.DictReader(text)
            lacking = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if lacking:
                remedy = "write it again with fastopen page index"
                raise InputError(f"lacks the column {lacking[0]}", str(path), remedy)
            for row in rows:
                properties = _typed(row, f"{path}: line {rows.line_num}")
                file = Path(properties["file"])
                yield Candidate(properties, file if file.exists() else path.parent / file)
    except OSError as error:
        raise unreadable(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not an index: {error}", str(path), "write one with fastopen page index") from None


def _typed(row: dict[str, Any], place: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, kind in KINDS.items():
        written = row[name]
        try:
            properties[name] = unescape_formula(written) if kind == "text" else int(written)
        except (TypeError, ValueError, AttributeError):
            shown = "missing" if written is None else repr(written)
            raise InputError(f"{name} is {shown}", place, "write it again with fastopen page index") from None
    return properties


def _loaded(
    chosen: Sequence[Candidate], progress: FileProgress | None, reading: dict[str, Any]
) -> list[ImportedPage]:
    """Return the chosen pages. Read each file only once. `reading` contains options for `load_pages`."""
    wanted = grouped((one.file, one.properties["digest"]) for one in chosen if one.page is None)
    pages: dict[tuple[Path, str], ImportedPage] = {}
    for number, (file, digests) in enumerate(wanted.items()):
        if progress is not None:
            progress(str(file), number, len(wanted))
        try:
            by_digest = {one.page.digest(): one for one in load_pages([file], **reading)}
            if not by_digest.keys() >= set(digests):
                remedy = "run fastopen page index again, or skip the file with --lenient"
                raise InputError("has changed since it was indexed", str(file), remedy)
            pages |= {(file, digest): by_digest[digest] for digest in digests}
        except InputError as error:
            if not reading["lenient"]:
                raise
            warnings.warn(f"left out: {error}", LeftOutWarning, stacklevel=3)
    found = [one.page or pages.get((one.file, one.properties["digest"])) for one in chosen]
    if not any(found):
        raise InputError("no selected page can be read", str(next(iter(wanted))))
    return [page for page in found if page is not None]
