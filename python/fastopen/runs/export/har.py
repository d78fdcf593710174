"""Convert one page load into an HTTP Archive (HAR 1.2), which browsers show in their network panels.

The names of fields that HAR does not define begin with an underscore, as the format requires: `_connection`
of an entry contains data about its connection, and `_fastopen` of the page contains data about the load."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.client import responses
from importlib import metadata
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from fastopen.experiments import Cell, Experiment, as_recorded
from fastopen.pages import Page
from fastopen.pages.model import Resource
from fastopen.runs.rows import LoadRow

PAGE: Final = "page_1"
HEADERS: Final = "Headers had headersSize bytes; only the listed ones are known."


def har_document(
    experiment: Experiment,
    cell: Cell,
    page: Page,
    row: LoadRow,
    record: Mapping[str, Any],
    addresses: Mapping[str, str],
) -> dict[str, Any]:
    """Return one page load as an HTTP Archive (HAR), without requests that never began. `cell` gives its
    settings, `row` its main results, and `record` all results. `addresses` maps hosts to IP addresses."""
    setup = experiment.setups[cell.setup]
    network = experiment.networks[cell.network]
    origins = as_recorded(setup, page, network)
    connections = {one["id"]: one for one in record["connections"]}
    # Runs of fastopen versions that did not record name lookups lack the key.
    lookups = {
        one["host"]: (one["asked_ns"], one["answered_ns"])
        for one in record.get("lookups", ())
        if one["answered_ns"] is not None
    }
    entries = []
    for request in record["requests"]:
        if _started_ns(request) is not None:
            connection = connections.get(request["connection"], {})
            http = origins.http_at(page.resources[request["resource"]].url, setup.tls)
            timings = _timings(request, connection.get("tls"), lookups.get(connection.get("host")))
            entry = _entry(page, request, timings, record["started_unix_ms"], http)
            entries.append(entry | _connection(connection, addresses))
    arm = cell.arm.transport if cell.arm.cookies is None else f"{cell.arm.transport} {cell.arm.cookies}"
    title = f"{page.name}, RTT {network.rtt_us / 1000:g} ms, {arm}"
    about = {
        "startedDateTime": _date(record["started_unix_ms"], 0),
        "id": PAGE,
        "title": title,
        "pageTimings": {"onContentLoad": -1, "onLoad": _ms(row.plt_ns) if row.plt_ns is not None else -1},
        "_fastopen": {
            "experiment": experiment.name,
            "job": row.job,
            "load": row.load,
            "attempt": row.attempt,
            "page": page.name,
            "engine": cell.engine,
            "network": network.model_dump(mode="json"),
            **{key: record[key] for key in ("transport", "cookies", "cookies_before", "valid", "invalid")},
            **{key: record[key] for key in ("client_address", "counters", "link")},
        },
    }
    creator = {"name": "fastopen", "version": metadata.version("fastopen")}
    log = {"version": "1.2", "creator": creator, "pages": [about], "entries": entries, "comment": HEADERS}
    return {"log": log}


def _entry(
    page: Page, request: Mapping[str, Any], timings: Mapping[str, float], started_unix_ms: int, http: str
) -> dict[str, Any]:
    resource = page.resources[request["resource"]]
    return {
        "pageref": PAGE,
        "startedDateTime": _date(started_unix_ms, _started_ns(request)),
        # `connect` includes `ssl`.
        "time": round(sum(value for key, value in timings.items() if value >= 0 and key != "ssl"), 6),
        "request": _request(resource, http),
        "response": _response(resource, request, http),
        "cache": {},
        "timings": timings,
        # The load event does not wait for `fetch()`. No other field of a HAR shows this.
        "_resourceType": "fetch" if resource.phase == "async" else resource.type,
        "_initiator": _initiator(page, resource),
        **({"_fromCache": "disk"} if request.get("cache") == "fresh" else {}),
    }


def _started_ns(request: Mapping[str, Any]) -> Any:
    """Return the first known time of a request in ns: queued, connecting or sent. None if it never began."""
    known = (request[key] for key in ("queued_ns", "connect_start_ns", "sent_ns"))
    return next((at for at in known if at is not None), None)


def _timings(
    request: Mapping[str, Any], tls: Mapping[str, Any] | None, looked_up: tuple[int, int] | None
) -> dict[str, float]:
    """Return the `timings` of a HAR entry in ms. Without `ssl`, which is part of `connect`, they add up to
    the time from queueing to the end. -1 means that a timing does not apply (HAR 1.2). `tls` is the record of
    the connection's TLS handshake, and `looked_up` the start and end of its name lookup in ns."""
    queued, end = _started_ns(request), request["end_ns"]
    opened, connected = request["connect_start_ns"], request["connected_ns"]
    # The wait for a connection that was opened earlier, for another request, counts as `blocked`.
    if opened is not None and opened < queued:
        opened = connected = None
    sent, first = request["sent_ns"], request["first_byte_ns"]
    timings = {"blocked": 0.0, "dns": -1.0, "connect": -1.0, "ssl": -1.0}
    timings |= {"send": 0.0, "wait": 0.0, "receive": 0.0}
    started = sent if opened is None else opened
    if started is not None:
        timings["blocked"] = _ms(started - queued)
    if looked_up is not None and opened is not None and queued < looked_up[1] <= opened:
        timings["dns"] = _ms(looked_up[1] - max(looked_up[0], queued))
        timings["blocked"] = _ms(opened - queued) - timings["dns"]
    if opened is not None and connected is not None:
        # A request in the SYN or in early data is sent during the handshake. `wait` includes the rest.
        ready = connected if tls is None else max(connected, tls["secured_ns"])
        ready = ready if sent is None else max(min(ready, sent), connected)
        timings["connect"] = _ms(ready - opened)
        timings["ssl"] = -1.0 if tls is None else _ms(ready - connected)
        timings["send"] = _ms(sent - ready) if sent is not None else 0.0
    if sent is not None and first is not None:
        timings["wait"] = _ms(first - sent)
    if first is not None and end is not None:
        timings["receive"] = _ms(end - first)
    return timings


def _request(resource: Resource, http: str) -> dict[str, Any]:
    url = urlsplit(resource.url)
    return {
        "method": resource.method,
        "url": resource.url,
        "httpVersion": f"HTTP/{http}",
        "cookies": [],
        "headers": [_header("Host", url.netloc)],
        "queryString": [_header(name, value) for name, value in parse_qsl(url.query, keep_blank_values=True)],
        "headersSize": resource.request_header_bytes,
        "bodySize": resource.request_body_bytes,
    }


def _response(resource: Resource, request: Mapping[str, Any], http: str) -> dict[str, Any]:
    """Return the `response` of a HAR entry. As in browsers' HARs, its status is 0 if no response arrived."""
    status = request["status"] or 0
    answered = request["status"] is not None
    redirect = (resource.redirect_to or "") if 300 <= status < 400 else ""
    headers = [_header("Content-Type", resource.mime), _header("Content-Length", str(resource.body_bytes))]
    headers += [_header("Location", redirect)] if redirect else []
    response: dict[str, Any] = {
        "status": status,
        "statusText": responses.get(status, ""),
        "httpVersion": f"HTTP/{http}" if answered else "unknown",
        "cookies": [],
        "headers": headers if answered else [],
        "content": {"size": request["body_bytes"], "mimeType": resource.mime if answered else "x-unknown"},
        "redirectURL": redirect,
        "headersSize": request["header_bytes"] if answered else -1,
        "bodySize": request["body_bytes"] if answered else -1,
    }
    return response if request["error"] is None else {**response, "_error": request["error"]}


def _connection(connection: Mapping[str, Any], addresses: Mapping[str, str]) -> dict[str, Any]:
    if not connection:
        return {}
    address = connection.get("address") or addresses.get(connection["host"])
    where = {} if address is None else {"serverIPAddress": address}
    # HAR 1.2 defines `connection` as a unique string. Like browsers, write a number into it.
    return {**where, "connection": str(connection["id"]), "_connection": dict(connection)}


def _initiator(page: Page, resource: Resource) -> dict[str, str]:
    """Return the `_initiator` of a HAR entry in Chromium's form: the cause of the request for `resource`."""
    if resource.initiator is None:
        return {"type": "other"}
    asker = page.resources[resource.initiator]
    kind = "script" if asker.type == "script" else "parser"
    return {"type": kind, "url": asker.url}


def _header(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def _date(unix_ms: int, offset_ns: int) -> str:
    moment = datetime.fromtimestamp(unix_ms / 1000, UTC) + timedelta(microseconds=offset_ns / 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _ms(value_ns: int) -> float:
    return round(value_ns / 1e6, 6)
