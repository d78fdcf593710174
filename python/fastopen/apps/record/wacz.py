"""Write a recording as WACZ (https://specs.webrecorder.net/wacz/1.1.1/), with the bodies as received.

The bodies come from Chromium's network log (--log-net-log), because the DevTools protocol reports only
decoded bodies. A WACZ contains an archive that other tools can replay. It also contains screenshots, and a
HAR with times and initiators but without bodies."""

import base64
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from fastopen.apps.record.har import Loaded, har_of

_BEGIN: Final = 1
_REQUEST_HEADERS: Final = (
    "HTTP_TRANSACTION_SEND_REQUEST_HEADERS",
    "HTTP_TRANSACTION_HTTP2_SEND_REQUEST_HEADERS",
    "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS",
)

Headers = list[tuple[str, str]]
HAR: Final = "recording.har"
_ARCHIVE: Final = "data.warc.gz"
# Header fields about framing. The archive has other values, since its bodies have no chunks or frames.
_FRAMING: Final = ("transfer-encoding", "content-length")


@dataclass
class WireExchange:
    """A request and its response. The request was sent `moment_s` seconds after the epoch. `body` has no
    chunk or frame headers. It is still compressed if `coded` is True."""

    url: str
    method: str
    moment_s: float
    request_headers: Headers = field(default_factory=list)
    status: str = ""
    response_headers: Headers = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    coded: bool = False
    """True if the browser decodes the body, as for gzip, and so logs it both before and after decoding."""


def wire_exchanges(log: Path, urls: Collection[str]) -> Iterator[WireExchange]:
    """Yield the answered requests for `urls` in Chromium's network log, in the order they were sent."""
    current: dict[int, WireExchange] = {}
    found: list[WireExchange] = []
    with log.open(encoding="utf-8", errors="replace") as file:
        constants = json.loads(next(file).rstrip().rstrip(",") + "}")["constants"]
        names = {number: name for name, number in constants["logEventTypes"].items()}
        for line in file:
            try:
                event = json.loads(line[: line.rindex("}") + 1])
            except ValueError:
                continue
            if not isinstance(event, dict) or "source" not in event:
                continue
            name, params = names.get(event["type"], ""), event.get("params") or {}
            source = event["source"]["id"]
            if name == "URL_REQUEST_START_JOB" and event["phase"] == _BEGIN:
                moment_s = (int(event["time"]) + int(constants["timeTickOffset"])) / 1000
                current[source] = WireExchange(params["url"].partition("#")[0], params["method"], moment_s)
                found.append(current[source])
            elif source in current:
                _add_event(current[source], name, params)
    yield from (one for one in found if one.status and one.url in urls)


def _add_event(exchange: WireExchange, name: str, params: Any) -> None:
    if name in _REQUEST_HEADERS:
        exchange.request_headers = _fields(params["headers"])
    elif name == "HTTP_TRANSACTION_READ_RESPONSE_HEADERS":
        status, *headers = params["headers"]
        exchange.status, exchange.response_headers = status.partition(" ")[2], _fields(headers)
        exchange.body.clear()
    elif name == "URL_REQUEST_FILTERS_SET":
        exchange.coded = True
    elif name == ("URL_REQUEST_JOB_BYTES_READ" if exchange.coded else "URL_REQUEST_JOB_FILTERED_BYTES_READ"):
        exchange.body += base64.b64decode(params.get("bytes", ""))


def _fields(lines: list[str]) -> Headers:
    split = (line.partition(": ") for line in lines if not line.startswith(":"))
    return [(name, value) for name, _, value in split if name]


def wacz_of(pages: Sequence[Loaded], exchanges: Iterable[WireExchange], browser: str) -> bytes:
    """Return a WACZ (zipped web archive) of pages and their traffic. `browser` is the browser's version."""
    archive, index = _warc(exchanges)
    har = har_of(pages, browser)
    listed = [
        {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"},
        *(
            {"id": one["id"], "url": page.url, "ts": one["startedDateTime"], "title": page.title}
            for page, one in zip(pages, har["log"]["pages"], strict=True)
        ),
    ]
    files = {
        f"archive/{_ARCHIVE}": archive,
        "indexes/index.cdx.gz": gzip.compress("".join(sorted(index)).encode(), mtime=0),
        "pages/pages.jsonl": "".join(f"{json.dumps(one)}\n" for one in listed).encode(),
        HAR: json.dumps(har).encode(),
        **{f"screenshots/{n}.png": one.screenshot for n, one in enumerate(pages, 1) if one.screenshot},
    }
    resources = [
        {
            "name": path.rpartition("/")[2],
            "path": path,
            "hash": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "bytes": len(data),
        }
        for path, data in files.items()
    ]
    package = {
        "profile": "data-package",
        "wacz_version": "1.1.1",
        "software": f"fastopen {metadata.version('fastopen')}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "resources": resources,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as whole:
        # Store compressed files as they are: readers of the archive seek in them by offset.
        for path, data in {**files, "datapackage.json": json.dumps(package, indent=2).encode()}.items():
            small = zipfile.ZIP_STORED if path.endswith((".gz", ".png")) else zipfile.ZIP_DEFLATED
            whole.writestr(path, data, small)
    return packed.getvalue()


def _warc(exchanges: Iterable[WireExchange]) -> tuple[bytes, list[str]]:
    """Return a WARC archive of the traffic, and the lines of its CDXJ index, one for each response."""
    file, index = io.BytesIO(), []
    writer = WARCWriter(file, gzip=True, warc_version="1.1")
    software = {"software": f"fastopen {metadata.version('fastopen')}", "format": "WARC File Format 1.1"}
    writer.write_record(writer.create_warcinfo_record(_ARCHIVE, software))
    for one in exchanges:
        date = datetime.fromtimestamp(one.moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        parts = urlsplit(one.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        has_host = any(name.lower() == "host" for name, _ in one.request_headers)
        sent = [*([] if has_host else [("Host", parts.netloc)]), *one.request_headers]
        got = [pair for pair in one.response_headers if pair[0].lower() not in _FRAMING]
        got = [*got, ("Content-Length", str(len(one.body)))]
        response = writer.create_warc_record(
            one.url,
            "response",
            payload=io.BytesIO(one.body),
            http_headers=StatusAndHeaders(one.status, got, "HTTP/1.1"),
            warc_headers_dict={"WARC-Date": date},
        )
        offset = file.tell()
        writer.write_record(response)
        length = file.tell() - offset
        answer = response.rec_headers.get_header("WARC-Record-ID")
        request = writer.create_warc_record(
            one.url,
            "request",
            http_headers=StatusAndHeaders(f"{one.method} {target} HTTP/1.1", sent, is_http_request=True),
            warc_headers_dict={"WARC-Date": date, "WARC-Concurrent-To": answer},
        )
        writer.write_record(request)
        index.append(_cdxj(one, response, offset, length))
    return file.getvalue(), index


def _cdxj(exchange: WireExchange, response: Any, offset: int, length: int) -> str:
    """Return a line of the index (CDXJ). Its key is the URL with the labels of the host reversed."""
    parts = urlsplit(exchange.url)
    host = ",".join(reversed((parts.hostname or "").split("."))) + (f":{parts.port}" if parts.port else "")
    key = f"{host}){parts.path or '/'}{'?' if parts.query else ''}{parts.query}".lower()
    stamp = datetime.fromtimestamp(exchange.moment_s, UTC).strftime("%Y%m%d%H%M%S")
    mime = next((value for name, value in exchange.response_headers if name.lower() == "content-type"), "")
    fields = {
        "url": exchange.url,
        "mime": mime.partition(";")[0].strip(),
        "status": exchange.status[:3],
        "digest": response.rec_headers.get_header("WARC-Payload-Digest"),
        "length": str(length),
        "offset": str(offset),
        "filename": _ARCHIVE,
    }
    return f"{key} {stamp} {json.dumps(fields)}\n"
