"""Index a corpus, a large collection of pages: list each page's properties, using several processes."""

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastopen.common.errors import InputError, MachineError, unreadable
from fastopen.pages.describe import summary, third_parties
from fastopen.pages.library import PAGE_SUFFIX, RECORDING_SUFFIXES, load_pages
from fastopen.pages.model import Page

if TYPE_CHECKING:
    from concurrent.futures import Future

COLUMNS: Final = (
    *("file", "page", "url", "requests", "hosts", "origins", "connections", "depth", "redirects"),
    *("third_parties", "bytes_up", "bytes_down", "body_bytes", "server_think_us", "processing_us"),
    *("processing_us_longest_chain", "load_event_processing_us", "initiators", "digest"),
)
# Maximum number of files per process that are submitted but whose results are not yet yielded. Results are
# yielded in order, so the processes need more files to read while an earlier file is still being read.
AHEAD: Final = 4


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
    # Imported here because runs import this module without indexing anything.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    waiting = iter(files)
    running: deque[tuple[Path, Future[IndexedFile]]] = deque()
    with ProcessPoolExecutor(
        processes, mp_context=get_context("forkserver"), initializer=_ignore_interrupts
    ) as pool:
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


def _ignore_interrupts() -> None:
    """Ignore SIGINT (Ctrl-C) in a process that reads files, because the parent process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
