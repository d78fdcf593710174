"""Import WARC archives (ISO 28500), which browsers, crawlers and wget write. warcio reads the records.

See https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

import gzip
import io
import logging
import mmap
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import DecompressingBufferedReader
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParser

from fastopen.common.errors import InputError
from fastopen.common.files import temporary_file
from fastopen.common.grouping import grouped
from fastopen.pages import budget
from fastopen.pages import url as urls
from fastopen.pages.budget import MAX_PIECE_BYTES, copy_within, mebibytes
from fastopen.pages.files import GZIP, Progress, silent, stem_of, unpacked_start
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.importers.messages import http_exchange, without_chunks
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.untimed import pages_of
from fastopen.pages.model import HttpVersion
from fastopen.pages.recording import BodyStore, ImportedPage, StoredBody

_RECORD: Final = re.compile(rb"WARC/(?:0\.1[78]|1\.[01])\r?\n")
_MEMBER: Final = re.compile(rb"\x1f\x8b\x08")
# Drop warcio's warnings about spaces in URLs: standard error may show a progress bar.
logging.getLogger("warcio").addHandler(logging.NullHandler())
# Maps names of protocols, as in WARC-Protocol (ALPN names) or in status lines, to versions of HTTP.
_VERSIONS: Final[dict[str, HttpVersion]] = {
    "http/1.0": "1.0",
    "h2": "2",
    "h3": "3",
    "http/2": "2",
    "http/2.0": "2",
    "http/3": "3",
}
_KINDS: Final = ("request", "response", "resource", "revisit", "continuation")
_SOFTWARE: Final = re.compile(r"^software:(.*)$", re.MULTILINE | re.IGNORECASE)
# A field by Webrecorder (Conifer), whose value is a JSON object with a list of pages.
_METADATA: Final = re.compile(r"^json-metadata:\s*(\{.*)$", re.MULTILINE | re.IGNORECASE)
# Responses begin with this, except those of HTTP/0.9. Other names, such as `h2` and SHOUTcast's ICY, occur.
_STATUS_LINE: Final = re.compile(rb"HTTP/|[\w./-]+ [1-5]\d\d\b", re.IGNORECASE)
_PARSER: Final = StatusAndHeadersParser([], verify=False)
# Errors that warcio raises for damage. The last four come from code of warcio that expects certain fields.
_DAMAGE: Final = (
    ArchiveLoadFailed, zlib.error, ValueError, EOFError, OSError,
    AttributeError, KeyError, TypeError, OverflowError,
)  # fmt: skip
_BLOCK: Final = 2**16
# Number of bytes of a damaged record that are searched for its URL.
_HEAD_BYTES: Final = 1024
_TARGET: Final = re.compile(rb"^WARC-Target-URI:\s*<?([^\s>]+)", re.IGNORECASE | re.MULTILINE)


@dataclass
class _Record:
    kind: str
    fields: StatusAndHeaders
    """The header fields of the record itself."""
    body: bytes
    """The record's block, or after `parse` the body of its HTTP message, or b"" after a BodyStore took it."""
    cut: bool = False
    """True if the end of the body is missing."""
    head: StatusAndHeaders | None = None
    """The head of the HTTP message in the record; None if there is none."""
    order: int = 0

    @property
    def place(self) -> tuple[float, int]:
        """The place of the record in time, as a key for sorting. Many writers leave out parts of a second."""
        return coerce.moment_ms(self.get("WARC-Date")) or 0.0, self.order

    def get(self, name: str) -> str:
        return self.fields.get_header(name) or ""

    @property
    def url(self) -> str:
        # Some writers put the URI into angle brackets, as in an older version of the specification.
        return self.get("WARC-Target-URI").strip("<>")

    @property
    def head_bytes(self) -> int | None:
        return None if self.head is None else self.head.total_len

    @property
    def headers(self) -> Pairs:
        return () if self.head is None else self.head.headers

    def parse(self, notes: Notes) -> None:
        """Split the block into the head and the body of its HTTP message, without chunked framing. Skip
        interim responses, such as 100 and 103, before the final response (RFC 9110 section 15.2)."""
        if self.kind == "resource" or not self.body:
            return
        block, interim = _Block(self.body), True
        while interim and (self.kind == "request" or _STATUS_LINE.match(self.body, block.tell())):
            self.head = _PARSER.parse(block)
            interim = self.kind != "request" and self.head.get_statuscode().startswith("1")
        self.body = block.read()
        if self.head is not None and "chunked" in (self.head.get_header("Transfer-Encoding") or "").lower():
            self.body, whole = without_chunks(self.body)
            self.cut |= not whole
            notes.add("chunked")


@dataclass
class Archive:
    """Collects the records of one or more WARC files, and makes exchanges and pages from them."""

    store: BodyStore = field(default_factory=BodyStore)
    notes: Notes = field(default_factory=Notes)
    software: str = ""
    date: str = ""
    _responses: list[tuple[_Record, StoredBody | None]] = field(default_factory=list)
    _requests: list[_Record] = field(default_factory=list)
    _originals: dict[object, tuple[_Record, StoredBody]] = field(default_factory=dict)
    _kinds: Counter[str] = field(default_factory=Counter)
    _listed: list[str] = field(default_factory=list)
    # Maps the ID of the first segment of a record to the record's segments by number.
    _segmented: dict[str, dict[int, tuple[_Record, StoredBody]]] = field(default_factory=dict)

    def read(self, file: IO[bytes], place: str, lenient: bool, progress: Progress = silent) -> None:
        """Add all records of a file. Raises InputError for a damaged record, or skips it if `lenient`."""
        with ExitStack() as stack:
            if _packed_as_one(file):
                packed, file = file, stack.enter_context(temporary_file())
                _unpack(packed, file, place, lenient, self.notes)
            for record in _records(file, place, lenient, self.notes, progress):
                self._take(record)

    def _take(self, record: _Record) -> None:
        if record.kind == "warcinfo":
            self._describe(record.body.decode("utf-8", "replace"))
            return
        self._kinds[record.kind] += 1
        record.order = self._kinds.total()
        if record.kind not in _KINDS:
            return
        number = coerce.size(record.get("WARC-Segment-Number")) or 0  # some writers write 0 for whole records
        if not number and record.kind != "continuation":
            self._add(record)
            return
        first = record.get("WARC-Segment-Origin-ID") or record.get("WARC-Record-ID")
        self._segmented.setdefault(first, {})[number] = record, self.store.add(record.body)
        record.body = b""

    def _describe(self, info: str) -> None:
        """Take the name of the software and the list of pages from the fields of a warcinfo record."""
        software, metadata = _SOFTWARE.search(info), _METADATA.search(info)
        self.software = self.software or (coerce.label(software[1].strip()) if software else "")
        pages = coerce.mapping(coerce.decoded(metadata[1]) if metadata else None).get("pages")
        for page in pages if isinstance(pages, list) else ():
            budget.work(budget.NAME_STEPS)
            url = urls.cleaned(coerce.text(coerce.mapping(page).get("url")))
            self._listed += [] if url is None else [url]

    def _add(self, record: _Record) -> None:
        self.date = self.date or record.get("WARC-Date")
        record.parse(self.notes)
        if record.kind == "request":
            self._requests.append(record)
            return
        stored = None
        if record.kind != "revisit" and record.body:
            stored = self.store.add(record.body)
            capture = record.url, record.get("WARC-Date")
            for key in (record.get("WARC-Payload-Digest"), record.get("WARC-Record-ID"), capture):
                if key:
                    self._originals.setdefault(key, (record, stored))
        record.body = b""
        self._responses.append((record, stored))

    def _join_segments(self) -> None:
        """Add the records that the writer split into segments (WARC 1.1, chapter 8)."""
        for segments in self._segmented.values():
            number, size = 1, 0
            parts: list[bytes] = []
            while number in segments and size <= MAX_PIECE_BYTES:
                last, stored = segments[number]
                parts.append(stored.read())
                number, size = number + 1, size + stored.length
            if not parts:
                self.notes.add("broken_records")
                continue
            record = segments[1][0]
            record.body = b"".join(parts)
            record.cut = coerce.size(last.get("WARC-Segment-Total-Length")) != size
            self._add(record)

    def exchanges(self) -> list[Exchange]:
        """Return an exchange for each response that can be part of a page, in order of WARC-Date."""
        self._join_segments()
        by_id = {key: one for one in self._requests if (key := one.get("WARC-Record-ID"))}
        by_response = {key: one for one in self._requests if (key := one.get("WARC-Concurrent-To"))}
        by_url = grouped((request.url, request) for request in reversed(self._requests))
        found = []
        for response, stored in sorted(self._responses, key=lambda pair: pair[0].place):
            asked = by_response.get(response.get("WARC-Record-ID"))
            asked = asked or by_id.get(response.get("WARC-Concurrent-To"))
            if asked is None and by_url.get(response.url):
                asked = by_url[response.url].pop()
            made = self._exchange(response, asked, stored)
            if made is not None:
                found.append(made)
        return found

    def _exchange(
        self, response: _Record, request: _Record | None, stored: StoredBody | None
    ) -> Exchange | None:
        lost, notes = None, Notes()
        if request is None:
            notes.add("no_request")
        status, got = _status(response)
        if response.kind == "revisit" and status != 304:
            capture = (response.get("WARC-Refers-To-Target-URI"), response.get("WARC-Refers-To-Date"))
            keys = (response.get("WARC-Payload-Digest"), response.get("WARC-Refers-To"), capture)
            known = next((self._originals[key] for key in keys if key in self._originals), None)
            notes.add("revisit" if known is not None else "revisit_lost")
            if known is not None:
                stored = known[1]
                if response.head is None:
                    status, got = _status(known[0])
            else:
                lost = coerce.size(coerce.header(coerce.lowered(got), "content-length")) or 0
        if response.head is None:
            notes.add("no_head")
        # In warcio, `protocol` is the first word of the first line, which in a request is the method.
        method = "" if request is None or request.head is None else str(request.head.protocol)
        made = http_exchange(
            _asked_url(response.url, request),
            method or "GET",
            status,
            () if request is None else request.headers,
            got,
            stored,
            self.notes,
            request_header_bytes=None if request is None else request.head_bytes,
            request_body_bytes=0 if request is None else len(request.body),
            response_header_bytes=response.head_bytes,
            lost_body_bytes=lost,
            cut=response.cut,
            recorded=response.get("WARC-Resource-Type"),
            page=response.get("WARC-Page-ID"),
            http=_http_version(response),
        )
        if made is not None:
            self.notes.update(notes)
        return made

    def pages(self, name: str, place: str, roots: Sequence[str] = ()) -> list[ImportedPage]:
        """Return the pages in all records. `roots` lists the URLs of the pages, if a file beside the records
        has them."""
        exchanges = self.exchanges()
        kinds = ", ".join(f"{n} {coerce.label(kind)}" for kind, n in self._kinds.most_common(5) if kind)
        if kinds and not exchanges:
            message = f"has no request that a page could start with, among these records: {kinds}"
            raise InputError(message, place, "pass a WARC that has the responses of a page")
        source = coerce.source_of("WARC", self.software, self.date)
        return pages_of(exchanges, name, source, self.notes, place, roots=roots or self._listed)


def import_pages(path: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a WARC file, compressed or not. Raises InputError for damage unless `lenient`."""
    archive = Archive()
    with path.open("rb") as file:
        archive.read(file, str(path), lenient, progress)
    return archive.pages(stem_of(str(path), (".gz", ".warc")), str(path))


def _packed_as_one(file: IO[bytes]) -> bool:
    """Return True if gzip compressed the file as a whole, not record by record as WARC recommends."""
    file.seek(0)
    start = file.read(_BLOCK)
    file.seek(0)
    return re.search(rb"\r\n\r\nWARC/1\.[01]\r\n", unpacked_start(start)) is not None


def _unpack(file: IO[bytes], plain: IO[bytes], place: str, lenient: bool, notes: Notes) -> None:
    try:
        with gzip.open(file) as packed:
            copy_within(packed, plain)
    except (EOFError, zlib.error, OSError) as error:
        if not lenient:
            raise InputError(f"damaged gzip: {error}", place, "fetch or export it again") from None
        notes.add("cut_record")


def _records(
    file: IO[bytes], place: str, lenient: bool, notes: Notes, progress: Progress
) -> Iterator[_Record]:
    """Yield the records, without blocks if their type is unknown. Raises InputError for a damaged record. If
    `lenient`, skip to the next record instead."""
    if not file.seek(0, io.SEEK_END):
        return  # mmap rejects empty files
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        start = 0
        while start < len(mapped):
            budget.work(budget.ENTRY_STEPS)
            mapped.seek(start)
            iterator = _Quiet(mapped)
            at, url = start, ""
            try:
                for raw in iterator:
                    budget.work(budget.ENTRY_STEPS)
                    at = iterator.offset
                    if iterator.err_count:
                        raise ValueError("the bytes before it are not a record")
                    url = raw.rec_headers.get_header("WARC-Target-URI") or ""
                    progress(at, len(mapped))
                    yield _read(raw)
                if mapped[iterator.offset :].strip():
                    raise EOFError("the file ends in the middle of it")
                progress(len(mapped), len(mapped))
                return
            except _DAMAGE as error:
                if iterator.offset > at:  # the damage is in the head of the record after `raw`
                    at, url = iterator.offset, _url_at(mapped, iterator.offset)
                if not lenient:
                    where = f"{place}: record at byte {at}" + (f" ({url})" if url else "")
                    remedy = "fetch the file again, or skip damaged records with --lenient"
                    raise InputError(f"damaged record: {_damage_in_words(error)}", where, remedy) from None
                notes.add("broken_records")
                start = _next_record(mapped, max(at, start) + 1)


def _damage_in_words(error: Exception) -> str:
    # These errors' own texts may contain bytes of the damaged record.
    if isinstance(error, (ArchiveLoadFailed, AttributeError, KeyError, TypeError, OverflowError)):
        return "it cannot be read as a WARC record"
    return str(error) or type(error).__name__


class _Quiet(ArchiveIterator):  # type: ignore[misc]  # warcio has no types
    """warcio's reader, without its printed messages about records that are longer than declared."""

    INC_RECORD = ""

    def __init__(self, file: mmap.mmap) -> None:
        super().__init__(file, no_record_parse=True, check_digests=False)
        self.reader = _Unpacked(file)


class _Unpacked(DecompressingBufferedReader):  # type: ignore[misc]  # warcio has no types
    """warcio's gzip reader. Raises InputError if the input unpacks to more bytes than permitted. Raises
    `zlib.error` for damaged data, where warcio would print a message and return no more data."""

    def readline(self, length: int | None = None) -> bytes:
        budget.work(budget.LINE_STEPS)
        return bytes(super().readline(length))

    def _decompress(self, data: bytes) -> bytes:
        try:
            if self.decompressor and (self.num_block_read or data.startswith(GZIP)):
                found = bytes(self.decompressor.decompress(data))
                budget.spend(len(found))
                return found
        except zlib.error as error:
            raise zlib.error(f"gzip: {str(error).partition(': ')[2] or error}") from None
        return bytes(super()._decompress(data))


class _Block(io.BytesIO):
    """The block of a record. Raises InputError if its HTTP heads have more lines than permitted."""

    def readline(self, size: int | None = -1, /) -> bytes:
        budget.work(budget.LINE_STEPS)
        return super().readline(size)


def _url_at(mapped: mmap.mmap, start: int) -> str:
    head = mapped[start : start + _HEAD_BYTES]
    found = _TARGET.search(unpacked_start(head, _HEAD_BYTES) if head.startswith(GZIP) else head)
    return found[1].decode("utf-8", "replace") if found else ""


def _next_record(mapped: mmap.mmap, start: int) -> int:
    if mapped[:2] != GZIP:
        found = _RECORD.search(mapped, start)
        return found.start() if found else len(mapped)
    for member in _MEMBER.finditer(mapped, start):
        budget.work(budget.GUESS_STEPS)
        if _RECORD.match(unpacked_start(mapped[member.start() : member.start() + _BLOCK], 64)):
            return member.start()
    return len(mapped)


def _read(raw: Any) -> _Record:
    headers, kind = raw.rec_headers, raw.rec_type or ""
    if kind not in _KINDS:
        return _Record(kind, headers, _body(raw) if kind == "warcinfo" else b"")
    body = _body(raw)
    length = headers.get_header("Content-Length")
    if length is None:
        raise ValueError("it has no Content-Length")
    missing = int(length) - len(body)
    if missing > 0:
        raise EOFError(f"the last {missing} bytes are missing")
    # Revisits have this field because they have no body (wget, Heritrix).
    return _Record(kind, headers, body, kind != "revisit" and bool(headers.get_header("WARC-Truncated")))


def _body(raw: Any) -> bytes:
    parts, size = [], 0
    while part := raw.raw_stream.read(_BLOCK):
        size += len(part)
        if size > MAX_PIECE_BYTES:
            raise ValueError(f"it holds more than {mebibytes(MAX_PIECE_BYTES)}")
        parts.append(part)
    return b"".join(parts)


def _status(response: _Record) -> tuple[int, Pairs]:
    if response.head is None:
        # HTTP/0.9 has neither status nor headers, and its responses are HTML.
        mime = response.get("Content-Type")
        mime = "text/html" if mime.startswith("application/http") else mime
        return (200 if response.kind != "revisit" else 0), [("Content-Type", mime)]
    code = response.head.get_statuscode()
    return (int(code) if code.isdigit() else 0), response.headers


def _asked_url(url: str, request: _Record | None) -> str:
    """Replace an IP address in the URL by the name in the request's Host header, if there is a name."""
    recorded = urls.cleaned(url)
    if request is None or request.head is None or recorded is None:
        return url
    if not urls.is_address(urls.host_of(recorded)):
        return url
    host = (request.head.get_header("Host") or "").strip()
    named = urlsplit(url)._replace(netloc=host).geturl()
    cleaned = urls.cleaned(named) if host else None
    return url if cleaned is None or urls.is_address(urls.host_of(cleaned)) else cleaned


def _http_version(response: _Record) -> HttpVersion | None:
    """Return a response's HTTP version; None if unknown or 1.1 (recorders write 1.1 for any version)."""
    fields = (value for name, value in response.fields.headers if name.lower() == "warc-protocol")
    line = "" if response.head is None else str(response.head.protocol)
    named = (_VERSIONS.get(protocol.strip().lower()) for protocol in ",".join([*fields, line]).split(","))
    return next((version for version in named if version is not None), None)
