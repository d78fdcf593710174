"""Load pages by file or folder of any supported format, by URL in a library, or by a packaged page's name."""

import difflib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from fastopen.common.errors import InputError, any_of, collected, did_you_mean, raise_all
from fastopen.common.phrases import some
from fastopen.common.resources import packaged_folder
from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.budget import MAX_UNPACKED_BYTES, begin_file, budget_for
from fastopen.pages.files import FileProgress, Progress, TextFile, first_bytes, part_of, silent
from fastopen.pages.importers import import_file, import_folder, mirror
from fastopen.pages.importers.notes import DAMAGE, SENTENCES
from fastopen.pages.model import Page, parse_page, read_page
from fastopen.pages.recording import ImportedPage

Paths = Sequence[Path | str]
PAGE_SUFFIX = ".page.json"
HAR_SUFFIXES = (".har", ".har.gz")
# Enough for a list of 100,000 URLs.
MAX_LIST_CHARACTERS = 16 * 2**20
# Common Log Format and similar formats: `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" ...`.
_ACCESS_LOG = re.compile(r"[^\s]{1,255} [^\s]{1,255} [^\s]{1,255} \[\d\d/\w{3}/\d{4}:")
# JSON in a function call, in a file that pages load as a script: `onInputData({"log": ...`.
_JSONP = re.compile(r"\s*[\w$.]{1,99}\s*\(\s*[{\[]")
# Maps the first bytes of compressed files (not gzip) to remedies. A `.warc.zst` may begin with a dictionary.
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "run zstd -d {}",
    b"\x5d\x2a\x4d\x18": "decompress it with its dictionary, or use a .warc.gz",
    b"BZh": "run bunzip2 {}",
    b"\xfd7zXZ": "run xz -d {}",
}
# A line that shows that a file is a damaged WARC, and a line in the header of an MHTML file.
_WARC_LINE = re.compile(rb"^WARC(/\d\.\d\r?$|-Type:)", re.MULTILINE)
_MHTML_LINE = re.compile(rb"^Content-Type:\s*multipart/related", re.MULTILINE | re.IGNORECASE)
# The error about a list names at most this many URLs without a page.
NAMED = 10
RECORDING_SUFFIXES = (*HAR_SUFFIXES, ".wacz", ".warc", ".warc.gz")


class LeftOutWarning(UserWarning):
    """A warning that an input was left out, because it was unreadable, had no page or was given twice."""


def packaged_pages() -> dict[str, Path]:
    """Map the name of each page that comes with fastopen to its file. The names are sorted."""
    folder = packaged_folder("pages")
    files = sorted(folder.glob(f"*{PAGE_SUFFIX}")) if folder else []
    return {file.name.removesuffix(PAGE_SUFFIX): file for file in files}


def load_pages(
    paths: Iterable[Path | str],
    library: Paths = (),
    *,
    lenient: bool = False,
    max_unpacked: int = MAX_UNPACKED_BYTES,
    progress: FileProgress | None = None,
) -> list[ImportedPage]:
    """Return all pages that `paths` name, in this order. Raises InputError if any is missing or damaged.

    Each of `paths` is a file or folder in any supported format, a URL, or the name of a packaged page, which
    comes with fastopen. URLs are looked up in the folders of `library`, then among the packaged pages. The
    URLs in a list are first looked up in the list's folder. `max_unpacked` limits each argument's unpacked
    bytes. `progress` is called with the argument, the amount read so far, and the total. With `lenient`, skip
    damaged parts and, with a LeftOutWarning, unreadable files in folders and listed URLs without a page."""
    found: list[ImportedPage] = []
    paths = list(paths)
    raise_all([error for path in paths if (error := missing(path)) is not None])
    for number, path in enumerate(paths):
        watch = silent if progress is None else part_of(partial(progress, str(path)), number, len(paths))
        with budget_for(str(path), max_unpacked):
            found += _load(path, library, lenient, watch)
    return found


def missing(argument: Path | str) -> InputError | None:
    """Return an error if the argument names no file, folder, URL or packaged page, otherwise None."""
    name, packaged = str(argument), packaged_pages()
    url = urls.scheme_of(name) in urls.DEFAULT_PORTS and "://" in name
    with suppress(OSError, ValueError):  # raised for names that no file can have
        if url or name in packaged or Path(argument).exists():
            return None
    remedy = did_you_mean(name, packaged, "fastopen page list lists the packaged pages", "the packaged page ")
    return InputError("no such file and no packaged page of that name", name, remedy)


def damage_notes(page: Page) -> list[str]:
    """Return the page's notes about damaged parts of its file that were left out."""
    beginnings = tuple(SENTENCES[key].partition("{n}")[0] for key in DAMAGE)
    return [note for note in page.notes if note.startswith(beginnings)]


def _load(argument: Path | str, library: Paths, lenient: bool, progress: Progress) -> list[ImportedPage]:
    path = Path(argument)
    if path.is_dir():
        recordings = sorted(one for one in path.iterdir() if one.name.lower().endswith(RECORDING_SUFFIXES))
        if recordings:
            return _load_recordings(recordings, library, lenient, progress)
        imported = import_folder(path, lenient=lenient, progress=progress)
        if imported is not None:
            return imported
        # The user may mean a packaged page, but the working directory has a folder of the same name, because
        # fastopen stores the runs of a packaged page there.
        if str(argument) not in packaged_pages():
            message = "the folder holds no HAR, WARC or WACZ file, website mirror or Mahimahi recording"
            remedy = "give a recording, a folder of recordings, or a mirror with a folder for each host"
            raise InputError(message, str(path), remedy)
    elif path.exists():
        return _load_file(path, library, lenient, progress)
    name = str(argument)
    if urls.scheme_of(name) in urls.DEFAULT_PORTS and "://" in name:
        return [Library(library, lenient=lenient).find(name, name)]
    if (packaged := packaged_pages().get(name)) is not None:
        return [ImportedPage(read_page(packaged))]
    raise missing(argument) or InputError("was removed while fastopen ran", name)


def _load_recordings(
    files: Sequence[Path], library: Paths, lenient: bool, progress: Progress
) -> list[ImportedPage]:
    """Return the pages of all files. With `lenient`, skip unreadable files, unless all are unreadable."""
    found: list[ImportedPage] = []
    errors: list[InputError] = []
    for number, file in enumerate(files):
        try:
            found += _load_file(file, library, lenient, part_of(progress, number, len(files)))
        except InputError as error:
            if lenient:
                errors.append(error)
                continue
            if len(files) == 1:
                raise
            skip = "" if "--lenient" in error.remedy else "skip damaged files with --lenient"
            remedy = ", or ".join(filter(None, (error.remedy, skip)))
            raise InputError(error.message, error.place, remedy) from None
    if errors and not found:
        raise errors[0]
    _warn_of(errors)
    return found


def _warn_of(left_out: Iterable[InputError]) -> None:
    for error in left_out:
        warnings.warn(f"left out: {error}", LeftOutWarning, stacklevel=5)


def _load_file(path: Path, library: Paths | None, lenient: bool, progress: Progress) -> list[ImportedPage]:
    """Return the pages of a file. If it is a list of URLs, look up their pages in `library`. If `library` is
    None, a list raises InputError, because it could contain itself. With `lenient`, skip damaged parts."""
    begin_file()
    records = import_file(path, lenient=lenient, progress=progress)
    if records is not None:
        return records
    _reject_start(first_bytes(path), path)
    with TextFile(path, lenient=lenient, progress=progress) as file:
        if file.first() in ("{", "["):
            # Imported here because the importers have many modules, which runs of packaged pages do not need.
            from fastopen.pages.importers.har.recording import read_har

            found = read_har(file.read, str(path), lenient=lenient)
            return found if isinstance(found, list) else [ImportedPage(parse_page(found, str(path)))]
        text = file.rest(MAX_LIST_CHARACTERS)
    _reject_foreign(text, path)
    if library is None:
        raise InputError("is a list of URLs, not a page", str(path))
    return _load_list(text, path, library, lenient)


def _reject_start(start: bytes, path: Path) -> None:
    for magic, remedy in _COMPRESSED.items():
        if start.startswith(magic):
            raise InputError("is compressed, but not with gzip", str(path), remedy.format(path.name))
    if start.lstrip()[:1] in (b"{", b"[", b"<"):
        return
    if _WARC_LINE.search(start):
        raise InputError("is a WARC with a damaged first record", str(path), "download or record it again")
    if _MHTML_LINE.search(start):
        remedy = "save it as a HAR in the browser's network tab, or record it with fastopen record URL"
        raise InputError("is MHTML, which has no requests", str(path), remedy)


def _reject_foreign(text: str, path: Path) -> None:
    if path.suffix == ".toml" or "fastopen-experiment/" in text:
        raise InputError("is an experiment, not a page", str(path), f"run fastopen reproduce {path}")
    if _ACCESS_LOG.match(text):
        remedy = "save the page as a HAR in a browser, or record it with fastopen record URL"
        raise InputError("is a server's access log, not a page", str(path), remedy)
    if _JSONP.match(text):
        raise InputError("is JSONP, not JSON", str(path), "remove the function call around the HAR")
    if text.startswith("filedesc://"):
        message = "is an ARC, the format before WARC"
        raise InputError(message, str(path), f"convert it: warcio recompress {path.name} FILE.warc.gz")
    markup = text.lstrip().startswith("<")
    if markup or "\x00" in text:
        kind = "looks like HTML or XML" if markup else "is a binary file"
        remedy = "give a HAR, WARC, WACZ, page file or list of URLs, or a mirror's folder"
        raise InputError(f"{kind}, not a page", str(path), remedy)


def _load_list(text: str, path: Path, library: Paths, lenient: bool) -> list[ImportedPage]:
    shelf = Library([path.parent, *library], lenient=lenient)
    entries = list(entries_of_list(text, path))
    if not entries:
        raise InputError("has no URL", str(path), "write one URL on each line")
    found: list[ImportedPage] = []
    problems: list[InputError] = []
    for entry, place in entries:
        with collected(problems):
            found.append(shelf.find(entry, place))
    if not problems or (lenient and found):
        _warn_of(problems)
        return found
    if len(problems) == 1 or not any("://" in entry for entry, _ in entries):  # perhaps not a list of URLs
        raise problems[0]
    urls_of = {place: entry for entry, place in entries}
    named = [f"{urls_of[one.place]} ({one.place.rpartition(': ')[2]})" for one in problems]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    message = f"{len(named)} of {len(entries)} URLs have no page: {', '.join(named[:NAMED])}{more}"
    raise InputError(message, str(path), problems[0].remedy)


def entries_of_list(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield each URL of a list, and its place, such as `a.pages: line 3`. Skip empty lines and comments."""
    # After a URL with a scheme, ignore the rest of the line: lists for sitespeed.io have a name there.
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        budget.work(budget.LINE_STEPS)
        if line.strip() and not line.strip().startswith("#"):
            first = line.split()[0]
            yield first if "://" in first else line.strip(), f"{path}: line {number}"


class Library:
    """Finds a page by its URL: in folders of page files, HARs and mirrors, then among the packaged pages."""

    def __init__(self, folders: Paths, *, lenient: bool = False) -> None:
        packaged = packaged_folder("pages")
        self._folders = [Path(folder) for folder in folders] + ([packaged] if packaged else [])
        self._lenient = lenient
        self._known: dict[str, ImportedPage] = {}
        self._unreadable: list[InputError] = []
        # Maps each folder read so far that may be a mirror to a function that finds the page of a URL in it.
        self._mirrors: dict[Path, Callable[[str], ImportedPage | None]] = {}
        self._files = self._walk()

    def find(self, url: str, place: str) -> ImportedPage:
        """Return the page with this URL. Raises InputError, which suggests similar URLs, if there is none.
        `place` is the URL itself, or the file and line that contain it, to name in errors."""
        keys = _keys(url)
        if not keys:
            raise InputError(f"{url!r} is not an http or https URL", place, "write https://HOST/")
        sources = chain([*self._mirrors], self._files)
        while True:
            for key in keys:
                if key in self._known:
                    return self._known[key]
            source = next(sources, None)
            if source is None:
                raise self._not_found(url, keys, place)
            with collected(self._unreadable):
                if source.is_dir():
                    self._look_into(source, keys)
                else:
                    for imported in _load_file(source, None, self._lenient, silent):
                        for key in _keys(imported.page.url):
                            self._known.setdefault(key, imported)

    def _walk(self) -> Iterator[Path]:
        seen = set()
        for folder in self._folders:
            if not folder.is_dir():
                raise InputError("no such folder", str(folder), "give a folder of pages or HARs")
            names = sorted(p for p in folder.iterdir() if p.is_file())
            pages = [p for p in names if p.name.endswith(PAGE_SUFFIX)]
            for path in pages + [p for p in names if p.name.lower().endswith(HAR_SUFFIXES)]:
                if path.resolve() not in seen:
                    seen.add(path.resolve())
                    yield path
            if any(p.is_dir() for p in folder.iterdir()):
                yield folder

    def _look_into(self, folder: Path, keys: Sequence[str]) -> None:
        begin_file()
        if folder not in self._mirrors:
            self._mirrors[folder] = lambda _: None  # so that an unreadable mirror is not read again
            if mirror.holds(folder):
                self._mirrors[folder] = mirror.finder(folder, lenient=self._lenient)
        for key in keys:
            found = self._mirrors[folder](key)
            if found is not None:
                self._known.setdefault(key, found)

    def _not_found(self, url: str, keys: Sequence[str], place: str) -> InputError:
        known = list(self._known)
        bare = (urlsplit(keys[0]).hostname or "").removeprefix("www.")
        near = [k for k in known if (urlsplit(k).hostname or "").removeprefix("www.") == bare]
        near += [k for k in difflib.get_close_matches(keys[0], known, n=3, cutoff=0.75) if k not in near]
        remedy = "record the page, or name its folder with --library"
        if near:
            remedy = f"did you mean {any_of(near[:3])}? Otherwise {remedy}"
        own = [one for one in self._folders if one != packaged_folder("pages")]
        folders = ["this folder" if one == Path() else str(one) for one in own]
        where = f" in {any_of(folders)}" if folders else ""
        if self._unreadable:
            files = some([Path(one.place.partition(": ")[0]).name for one in self._unreadable])
            message = f"left out: {files} (fastopen page show FILE prints the reason)"
            warnings.warn(message, LeftOutWarning, stacklevel=2)
            self._unreadable.clear()
        return InputError(f"no recording of {url}{where}", place, remedy)


def _keys(url: str) -> list[str]:
    text = url.strip()
    # Browsers read 1 as the IPv4 address 0.0.0.1. In a list of pages, a number is a mistake.
    if text.replace(".", "", 1).isdecimal():
        return []
    named = "://" in text
    keys = [urls.cleaned(text if named else f"{scheme}://{text}") for scheme in ("http", "https")]
    return [key.rstrip("/") for key in dict.fromkeys(keys) if key is not None]
