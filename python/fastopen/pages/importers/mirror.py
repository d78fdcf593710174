"""Import mirrors that `wget -p -H` made: folders named after hosts, with files named after path and query."""

from __future__ import annotations

import hashlib
import mimetypes
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from fastopen.common.errors import unreadable
from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.budget import read_whole
from fastopen.pages.files import GZIP, Progress, silent, stem_of
from fastopen.pages.importers import kinds
from fastopen.pages.importers.exchange import Exchange, head_of
from fastopen.pages.importers.graph import page_documents
from fastopen.pages.importers.messages import packed
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.untimed import pages_of
from fastopen.pages.recording import BodyStore, ImportedPage

_INDEX: Final = "index.html"
_HASHED: Final = re.compile(r"[0-9a-f]{32}\Z")
_TEXT: Final = re.compile(r"^text/|javascript|json|xml")
_SCHEMES: Final = ("http", "https")
# Servers do not compress smaller texts, which fit into one segment anyway.
_LEAST_PACKED: Final = 1024
# The first bytes of files whose names do not show the MIME type, and their MIME types.
_MAGIC: Final = (
    (b"GIF8", "image/gif"), (b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"wOFF", "font/woff"), (b"wOF2", "font/woff2"), (b"\x00\x01\x00\x00", "font/ttf"),
    (b"CWS", "application/x-shockwave-flash"), (b"FWS", "application/x-shockwave-flash"),
)  # fmt: skip
# The pattern of a comment can match in only one way, so that matching takes linear time for every file.
_MARKUP: Final = re.compile(
    rb"\s*(?:<!--(?:[^-]|-(?!->))*-->\s*)*<(?:!doctype html|html|head|body|script|div)", re.IGNORECASE
)
_SCRIPT: Final = re.compile(
    rb"(?:/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*\n|\s)*(?:\(|!|var |function|if ?\(|[\w.$]+ ?[=(])"
)


def holds(folder: Path) -> bool:
    """Return True if the folder may be a mirror: if it has a folder named like a host, or an `index.htm*`."""
    documents = (p for p in folder.iterdir() if p.is_file() and p.name.lower().startswith("index.htm"))
    return any(_host_folders(folder, folder.resolve())) or any(documents)


def import_pages(folder: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a mirror. A page begins with a document that leads to at least five other files and
    is not part of another page. If no document qualifies, there is one page, which begins with the document
    that leads to the most files. Raises InputError for an unreadable file, or skips it if `lenient`."""
    return _pages(_read(folder, lenient, progress), folder, ())


def finder(folder: Path, *, lenient: bool = False) -> Callable[[str], ImportedPage | None]:
    """Read a mirror, and return a function that maps a URL to its page, or to None if the mirror lacks the
    page. Raises InputError if a file cannot be read, or skips it if `lenient`."""
    mirror = _read(folder, lenient, silent)

    def find(url: str) -> ImportedPage | None:
        known = mirror.lookup(url)
        return _pages(mirror, folder, (known,))[0] if known is not None else None

    return find


def _read(folder: Path, lenient: bool, progress: Progress) -> _Mirror:
    mirror = _Mirror(Notes(), BodyStore())
    inside = folder.resolve()
    # Without host folders (`wget -nH`), use the name of the mirror's folder, if a host can have this name.
    own_name = inside.name if _is_host(inside.name) else "mirror.example"
    files = [
        (f"{scheme}://{host.name if host != folder else own_name}/", host, path, content)
        for scheme, host in _host_folders(folder, inside) or [("http", folder)]
        for path, content in _files(host, inside)
    ]
    for number, (origin, host, path, content) in enumerate(files, start=1):
        try:
            mirror.add(origin, host, path, content)
        except OSError as error:
            if not lenient:
                raise unreadable(path, error) from None
            mirror.notes.add("broken_records")
        progress(number, len(files))
    return mirror


def _pages(mirror: _Mirror, folder: Path, roots: tuple[str, ...]) -> list[ImportedPage]:
    return pages_of(
        mirror.exchanges,
        stem_of(str(folder.resolve()), ()),
        "mirror on disk, as wget keeps them",
        mirror.notes,
        str(folder),
        roots=roots,
        resolve=mirror.resolve,
        complete=False,
        find_roots=page_documents,
    )


def _files(host: Path, inside: Path) -> list[tuple[Path, Path]]:
    """Pair each file of a host with the file that has its original content. This is the file itself, unless
    wget changed its links and saved the original as `*.orig` (-K). Originals get no pairs of their own. Skip
    symbolic links to files outside of the mirror's folder `inside`."""
    every = set()
    for path in host.rglob("*"):
        budget.work(budget.NAME_STEPS)
        if path.is_file() and path.resolve().is_relative_to(inside):
            every.add(path)
    # If -E added the suffix of `a.html`, wget saves the original as `a.orig`, not as `a.html.orig`.
    saved = (path for path in every if path.suffix == ".orig")
    pairs = ((path.with_suffix(suffix), path) for path in saved for suffix in ("", ".html"))
    copies = {original: path for original, path in pairs if original in every}
    return [(path, copies.get(path, path)) for path in sorted(every.difference(copies.values()))]


def _host_folders(folder: Path, inside: Path) -> list[tuple[str, Path]]:
    """Return (scheme, folder) of each host in a mirror. Skip symbolic links to folders that are not in the
    mirror's folder `inside`. wget's `--protocol-directories` adds a folder for each scheme."""
    found = []
    for inner in sorted(p for p in folder.iterdir() if p.is_dir()):
        if inner.name in _SCHEMES and not inner.is_symlink():
            found += [(inner.name, host) for _, host in _host_folders(inner, inside)]
        elif _is_host(inner.name) and inner.resolve().is_relative_to(inside):
            found.append(("http", inner))
    return found


def _is_host(name: str) -> bool:
    # wget writes the port after a colon, or after a plus sign on file systems without colons.
    plain = name.replace("+", ":", 1)
    like_a_host = "." in plain.strip(".") or plain.startswith("localhost")
    return like_a_host and urls.cleaned(f"http://{plain}/") is not None


@dataclass
class _Mirror:
    """Converts files that wget downloaded into exchanges, and finds the files to which references lead."""

    notes: Notes
    store: BodyStore
    exchanges: list[Exchange] = field(default_factory=list)
    _by_name: dict[str, str] = field(default_factory=dict)
    _by_file: dict[str, str] = field(default_factory=dict)
    _file_of: dict[str, str] = field(default_factory=dict)

    def add(self, origin: str, host: Path, path: Path, content: Path) -> None:
        name = path.relative_to(host).as_posix()
        file = f"{host.name}/{name}"
        plain = name[: -len(_INDEX)] if name.rpartition("/")[2] == _INDEX else name
        plain = re.sub(rf"(^|/){re.escape(_INDEX)}(?=[?@])", r"\1", plain)
        # With --restrict-file-names=windows, wget writes @ for the question mark and + for the port's colon.
        target = plain if "?" in plain else plain.replace("@", "?", 1)
        url = urls.cleaned(origin.replace("+", ":", 1) + target.replace("#", "%23"))
        if url is None:
            self.notes.add("no_http")
            return
        budget.work(budget.ENTRY_STEPS)
        with content.open("rb") as opened:
            data = read_whole(opened, str(content))
        self.exchanges.append(self._exchange(url, data))
        self._file_of[url] = file
        self._by_file[file] = url
        for known in (origin + plain, origin + target, origin + name):
            self._by_name.setdefault(_key(known), url)

    def _exchange(self, url: str, data: bytes) -> Exchange:
        mime = _mime(url, data)
        stored = self.store.add(data) if data else None
        recorded, text, coding = stored, stored, ""
        of_type, notes = kinds.type_of(url, mime), Notes(local=1)
        if _TEXT.search(mime) and data.startswith(GZIP):
            # Before version 1.19.2, wget did not decompress a response for which it was told to ask.
            text, coding = None, "gzip"
        elif _TEXT.search(mime) and len(data) >= _LEAST_PACKED:
            recorded, coding = self.store.add(packed(data)), "gzip"
            notes.add("compressed")
        return Exchange(
            url=url,
            type=of_type,
            mime=mime,
            coding=coding,
            body_bytes=recorded.length if recorded is not None else 0,
            recorded=recorded,
            text=text,
            head=head_of(200, [("Content-Type", mime), ("Content-Encoding", coding)]),
            delays_load_event=kinds.delays_load_event(of_type),
            notes=notes,
        )

    def lookup(self, url: str) -> str | None:
        """Return the URL of the exchange to which `url` leads; None if the mirror lacks its file. wget may
        have added a suffix to the file's name, or replaced the name by the MD5 of path and query."""
        key = _key(url)
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        named = [self._by_name.get(f"{key}{suffix}") for suffix in ("", ".html", ".css", "/")]
        for path in (target, unquote(target)):
            hashed = hashlib.md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
            named.append(self._by_file.get(f"{parts.netloc}/{hashed}"))
        return next((url for url in named if url is not None), None)

    def resolve(self, exchange: Exchange, written: str, base: str) -> str | None:
        """Return the URL of the exchange to which a reference leads; None if the mirror lacks its file. The
        reference is a URL, or a relative path from one file to another, as `wget -k` writes it."""
        url = urls.cleaned(written, base=base)
        found = self.lookup(url) if url is not None else None
        if found is not None or "://" in written:
            return found
        here = posixpath.dirname(self._file_of[exchange.url])
        local = posixpath.normpath(posixpath.join(here, unquote(written.partition("#")[0])))
        return self._by_file.get(local)


def _key(url: str) -> str:
    """Return a URL without scheme and percent-encoding. References and file names often differ in these."""
    return unquote(url.partition("://")[2])


def _mime(url: str, data: bytes) -> str:
    guessed = mimetypes.guess_type(urlsplit(url).path, strict=False)[0]
    if guessed is not None and not _HASHED.search(url):
        return guessed
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    if _MARKUP.match(data[:4096]) or urls.target_of(url).partition("?")[0].endswith("/"):
        return "text/html"
    return "text/javascript" if _SCRIPT.match(data[:4096]) else "application/octet-stream"
