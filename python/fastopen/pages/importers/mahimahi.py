"""Import recordings of Mahimahi's mm-webrecord: a folder with a file for each request and its response.

The file format is `protobufs/http_record.proto` in https://github.com/ravinet/mahimahi"""

import re
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from fastopen.common.errors import InputError
from fastopen.pages import budget
from fastopen.pages.budget import read_whole
from fastopen.pages.files import Progress, first_bytes, silent, stem_of
from fastopen.pages.importers import coerce
from fastopen.pages.importers.coerce import Pairs
from fastopen.pages.importers.exchange import Exchange
from fastopen.pages.importers.graph import widest_root
from fastopen.pages.importers.messages import head_bytes, http_exchange, without_chunks
from fastopen.pages.importers.notes import Notes
from fastopen.pages.importers.untimed import pages_of
from fastopen.pages.recording import BodyStore, ImportedPage

# A file begins with the server's address and port, which mm-webrecord always writes.
_BEGINNING: Final = re.compile(rb"\n[\x02-\x40][0-9a-fA-F.:%]{2,64}\x10")
_HTTPS: Final = 2
# Declares strings as bytes, and enumerations as numbers, which have the same encoding but accept any value.
_SCHEMA: Final = """
name: "fastopen/http_record.proto" package: "MahimahiProtobufs" syntax: "proto2"
message_type {
  name: "HTTPHeader"
  field { name: "key" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "value" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL }
}
message_type {
  name: "HTTPMessage"
  field { name: "first_line" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "header" number: 2 type: TYPE_MESSAGE type_name: "HTTPHeader" label: LABEL_REPEATED }
  field { name: "body" number: 3 type: TYPE_BYTES label: LABEL_OPTIONAL }
}
message_type {
  name: "RequestResponse"
  field { name: "ip" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "port" number: 2 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "scheme" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "request" number: 4 type: TYPE_MESSAGE type_name: "HTTPMessage" label: LABEL_OPTIONAL }
  field { name: "response" number: 5 type: TYPE_MESSAGE type_name: "HTTPMessage" label: LABEL_OPTIONAL }
}
"""
_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.Add(text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()))
_TYPE: Final = _POOL.FindMessageTypeByName("MahimahiProtobufs.RequestResponse")
_MESSAGE: Final = message_factory.GetMessageClass(_TYPE)


def holds(folder: Path) -> bool:
    """Return True if the folder, or each of its subfolders, is a recording made by mm-webrecord."""
    return _is_recording(folder) or bool(_recordings(folder))


def import_pages(folder: Path, *, lenient: bool = False, progress: Progress = silent) -> list[ImportedPage]:
    """Return the pages of a folder's recordings. Raises InputError for a damaged file unless `lenient`."""
    inner = [folder] if _is_recording(folder) else _recordings(folder)
    return [page for one in inner for page in _import_recording(one, lenient, progress)]


def _recordings(folder: Path) -> list[Path]:
    inner = sorted(path for path in folder.iterdir() if path.is_dir())
    return inner if all(map(_is_recording, inner)) else []


def _is_recording(folder: Path) -> bool:
    return any(_BEGINNING.match(first_bytes(path)) for path in _files(folder)[:3])


def _import_recording(folder: Path, lenient: bool, progress: Progress) -> list[ImportedPage]:
    notes, store = Notes(), BodyStore()
    files = _files(folder)
    found = []
    for number, path in enumerate(files, start=1):
        budget.work(budget.ENTRY_STEPS)
        try:
            with path.open("rb") as file:
                message = _MESSAGE.FromString(read_whole(file, str(path)))
            if not message.request.first_line or not message.response.first_line:
                raise DecodeError("the request or the response is missing")
        except (OSError, DecodeError) as error:
            if not lenient:
                message = f"not a message of mm-webrecord: {error}"
                raise InputError(message, str(path), "record it again, or skip it with --lenient") from None
            notes.add("broken_records")
            continue
        exchange = _exchange(message, store, notes)
        if exchange is not None:
            found.append(exchange)
        progress(number, len(files))
    name, source = stem_of(str(folder.resolve()), ()), "recording of mm-webrecord"
    # The files have random names, so the order of the requests is unknown.
    return pages_of(found, name, source, notes, str(folder), find_roots=widest_root)


def _files(folder: Path) -> list[Path]:
    """Return the files with mm-webrecord's names (`save.*`), or else all files, as mm-webreplay does."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    return [path for path in files if path.name.startswith("save.")] or files


def _exchange(message: Any, store: BodyStore, notes: Notes) -> Exchange | None:
    """Convert a Protobuf message, a request with its response, into an exchange. If a page cannot contain it,
    count the reason in `notes` and return None."""
    asked, answered = message.request, message.response
    method, _, rest = _text(asked.first_line).partition(" ")
    target = rest.rpartition(" ")[0] or rest
    sent, got = _headers(asked), _headers(answered)
    status = _text(answered.first_line).split(" ", 2)[1:2]
    body, whole = answered.body, True
    if any(n.lower() == "transfer-encoding" and "chunked" in v.lower() for n, v in got):
        body, whole = without_chunks(body)
        notes.add("chunked")
    return http_exchange(
        target if "://" in target else _origin(message, sent) + target,
        method,
        int(status[0]) if status and status[0].isdecimal() else 0,
        sent,
        got,
        store.add(body) if body else None,
        notes,
        request_header_bytes=head_bytes(_text(asked.first_line), sent),
        request_body_bytes=len(asked.body),
        response_header_bytes=head_bytes(_text(answered.first_line), got),
        cut=not whole,
    )


def _origin(message: Any, sent: Pairs) -> str:
    scheme = "https" if message.scheme == _HTTPS else "http"
    lower = [(name.lower(), value) for name, value in sent]
    host = (coerce.header(lower, "host") or _text(message.ip)).strip()
    if message.port and ":" not in host.rpartition("]")[2]:
        host = f"{host}:{message.port}"
    return f"{scheme}://{host}"


def _headers(message: Any) -> list[tuple[str, str]]:
    return [(_text(header.key), _text(header.value)) for header in message.header]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip("\r\n")
