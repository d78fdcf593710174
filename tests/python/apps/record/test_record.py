"""Recordings of local sites by `fastopen record`: 30 hosts, redirects, compression, errors, HTTPS."""

import base64
import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fastopen.apps.record.events import Log
from fastopen.apps.record.har import Loaded, har_of, round_trips_ms
from fastopen.apps.record.wacz import wire_exchanges
from fastopen.contract.client_kinds import CHROMIUM
from fastopen.pages import load_pages
from fastopen.pages.recording import RecordedBodies
from local_server import Handler, served

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
HOSTS = 30
# A picture of one pixel. Browsers do not keep responses that are not a valid picture.
PICTURE = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)
# A page whose handler of the load event requests a picture and then computes for 150 ms.
HANDLER = b"""<link rel=icon href=data:,><img src=/first.gif><script>onload = () => {
new Image().src = "/late.gif"; const began = performance.now(); while (performance.now() - began < 150);
}</script>"""
needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, CHROMIUM.executables)), reason="no Chromium here: apt-get install chromium"
)


class Site(Handler):
    """A handler that serves the same site on every host. Its page has a picture on each other host."""

    heads: ClassVar[dict[str, dict[str, str]]] = {}
    """Header fields of the last request for each URL."""

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        path = self.path.partition("?")[0]
        self.heads[f"http://{self.headers['Host']}{self.path}"] = dict(self.headers.items())
        if path == "/":
            to = [("Location", "/index.html"), ("Set-Cookie", "one=1"), ("Set-Cookie", "two=2")]
            self._answer(302, b"", "text/html", *to)
        elif path == "/index.html":
            pictures = "".join(f'<img src="//h{n}.test/{n}.gif">' for n in range(1, HOSTS))
            page = f'<link rel="stylesheet" href="/a.css">{pictures}<script src="/b.js"></script><div></div>'
            self._answer(200, gzip.compress(page.encode()), "text/html", ("Content-Encoding", "gzip"))
        elif path == "/a.css":
            self._answer(200, b"div { background: url(/background.gif); height: 9px }", "text/css")
        elif path == "/b.js":
            self._answer(200, b"fetch('/missing')", "text/javascript")
        elif path == "/late.gif":
            # Respond only after the handler has ended, so that the load event cannot include this request.
            time.sleep(1)
            self._answer(200, PICTURE, "image/gif")
        elif path.endswith(".gif"):
            self._answer(200, PICTURE, "image/gif")
        elif path == "/handler.html":
            self._answer(200, HANDLER, "text/html")
        elif path == "/never.html":
            self._answer(200, b'<img src="/hang">', "text/html")
        elif path == "/hang":
            self.server.closing.wait()
        else:
            self._answer(404, b"nothing here", "text/plain")

    def _answer(self, status: int, body: bytes, mime: str, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*fields, ("Content-Type", mime), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def record(port: int, output: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    rules = f"--browser-argument=--host-resolver-rules=MAP *.test 127.0.0.1:{port}"
    command = [*FASTOPEN, "record", "-o", str(output), rules, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(name="recorded", scope="module")
def _recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("recorded")
    listed = folder / "two.pages"
    listed.write_text("# both pages\nhttp://h0.test/\n\nhttp://h0.test/a.css\n")
    with served(Site) as port:
        done = record(port, folder / "my.har", listed)
    assert done.returncode == 0, done.stderr
    assert "1 of 2: http://h0.test/" in done.stderr
    return folder / "my.har", json.loads((folder / "my.har").read_text())["log"]


@pytest.mark.e2e
@needs_chromium
class TestLivePages:
    def entries(self, log: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {e["request"]["url"]: e for e in log["entries"] if e["pageref"] == "page_1"}

    def test_every_host_and_every_request_is_there(self, recorded: tuple[Path, dict[str, Any]]) -> None:
        entries = self.entries(recorded[1])
        expected = {f"http://h{n}.test/{n}.gif" for n in range(1, HOSTS)}
        expected |= {
            f"http://h0.test/{name}" for name in ("", "index.html", "a.css", "b.js", "background.gif")
        }
        assert expected | {"http://h0.test/missing"} <= set(entries)

    def test_redirects_errors_and_compression_are_as_they_were(
        self, recorded: tuple[Path, dict[str, Any]]
    ) -> None:
        entries = self.entries(recorded[1])
        root, missing = entries["http://h0.test/"], entries["http://h0.test/missing"]
        assert (root["response"]["status"], root["response"]["redirectURL"]) == (302, "/index.html")
        assert (missing["response"]["status"], missing["response"]["content"]["text"]) == (
            404,
            "nothing here",
        )
        document = entries["http://h0.test/index.html"]["response"]
        assert document["content"]["text"].startswith("<link")
        assert 0 < document["bodySize"] < document["content"]["size"]

    def test_heads_are_as_the_servers_saw_them(self, recorded: tuple[Path, dict[str, Any]]) -> None:
        entries = self.entries(recorded[1])
        for url in ("http://h0.test/", "http://h0.test/b.js", "http://h1.test/1.gif"):
            sent = {f["name"]: f["value"] for f in entries[url]["request"]["headers"]}
            assert sent == Site.heads[url]
        assert Site.heads["http://h0.test/b.js"]["Cookie"] == "one=1; two=2"
        got = [(f["name"], f["value"]) for f in entries["http://h0.test/"]["response"]["headers"]]
        assert {("Set-Cookie", "one=1"), ("Set-Cookie", "two=2")} <= {*got}

    def test_initiators_addresses_and_round_trips_are_kept(
        self, recorded: tuple[Path, dict[str, Any]]
    ) -> None:
        entries = self.entries(recorded[1])
        assert entries["http://h0.test/background.gif"]["_initiator"]["url"] == "http://h0.test/a.css"
        assert entries["http://h1.test/1.gif"]["serverIPAddress"] == "127.0.0.1"
        trips = recorded[1]["pages"][0]["_roundTrips"]
        assert trips.keys() == {f"h{n}.test" for n in range(HOSTS)}
        assert all(0 < trip < 5000 for trip in trips.values())

    def test_the_importer_takes_it_with_its_load_event_and_bodies(
        self, recorded: tuple[Path, dict[str, Any]]
    ) -> None:
        first, second = load_pages([recorded[0]])
        assert len(first.page.hosts()) == HOSTS
        assert first.recorded_plt_us is not None
        assert first.page.resources[0].redirect_to == "http://h0.test/index.html"
        assert PICTURE in [first.bodies[index] for index in first.bodies]
        assert second.page.url == "http://h0.test/a.css"

    def test_what_a_handler_of_the_load_event_asks_for_comes_after_it(self, tmp_path: Path) -> None:
        with served(Site) as port:
            done = record(port, tmp_path / "my.har", "http://h0.test/handler.html")
        assert done.returncode == 0, done.stderr
        (found,) = load_pages([tmp_path / "my.har"])
        phases = {resource.url: resource.phase for resource in found.page.resources}
        assert phases == {
            "http://h0.test/handler.html": "load",
            "http://h0.test/first.gif": "load",
            "http://h0.test/late.gif": "after",
        }
        # `onLoad` in the HAR is the time when the handler has ended.
        assert found.page.load_event_processing_us >= 140_000

    def test_a_page_that_cannot_be_loaded_is_named_and_the_others_are_kept(self, tmp_path: Path) -> None:
        with served(Site) as port:
            done = record(
                port,
                tmp_path / "some.har",
                *(
                    "--timeout",
                    3,
                    "http://unknown.invalid/",
                    "http://h0.test/never.html",
                    "http://h0.test/b.js",
                ),
            )
        assert done.returncode == 1
        assert "left out: http://unknown.invalid/: net::ERR_NAME_NOT_RESOLVED" in done.stderr
        assert (
            "left out: http://h0.test/never.html: no load event within 3 s (1 requests open)" in done.stderr
        )
        assert len(json.loads((tmp_path / "some.har").read_text())["log"]["pages"]) == 1

    def test_https_is_recorded_with_its_handshake(self, tmp_path: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl for a certificate")
        both = tmp_path / "both.pem"
        files = ["-keyout", str(both), "-out", str(tmp_path / "cert")]
        wanted = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=h0.test"]
        subprocess.run(["openssl", "req", "-x509", *wanted, *files], check=True, capture_output=True)
        both.write_text(both.read_text() + (tmp_path / "cert").read_text())
        with served(Site, both) as port:
            refused = record(port, tmp_path / "no.har", "https://h0.test/a.css")
            done = record(port, tmp_path / "yes.har", "--insecure", "https://h0.test/a.css")
        assert refused.returncode == 1
        assert "net::ERR_CERT_AUTHORITY_INVALID" in refused.stderr
        assert not (tmp_path / "no.har").exists()
        assert done.returncode == 0, done.stderr
        (entry,) = [
            e
            for e in json.loads((tmp_path / "yes.har").read_text())["log"]["entries"]
            if e["request"]["url"].endswith("a.css")
        ]
        assert 0 < entry["timings"]["ssl"] <= entry["timings"]["connect"]


@pytest.mark.e2e
@needs_chromium
def test_a_wacz_has_bodies_as_they_crossed_the_wire_and_replays_in_full(tmp_path: Path) -> None:
    with served(Site) as port:
        done = record(port, tmp_path / "my.wacz", "http://h0.test/")
    assert done.returncode == 0, done.stderr
    (imported,) = load_pages([tmp_path / "my.wacz"])
    resources = {one.url: index for index, one in enumerate(imported.page.resources)}
    document = resources["http://h0.test/index.html"]
    assert gzip.decompress(imported.bodies[document]).startswith(b"<link")
    assert isinstance(imported.bodies, RecordedBodies)
    assert b"\r\nContent-Encoding: gzip\r\n" in imported.bodies.heads[document]
    assert b"\r\nLocation: /index.html\r\n" in imported.bodies.heads[resources["http://h0.test/"]]
    assert imported.page.resources[resources["http://h0.test/missing"]].status == 404
    assert imported.recorded_plt_us is not None
    pictures = tmp_path / "pictures"
    command = [
        "validate",
        "bodies",
        tmp_path / "my.wacz",
        "--engine",
        "host",
        "--screenshots",
        pictures,
        "--json",
    ]
    shown = subprocess.run(
        [*FASTOPEN, *map(str, command)], capture_output=True, text=True, check=False, timeout=300
    )
    (load,) = json.loads(shown.stdout)["loads"]
    assert (load["asked"], load["missing"]) == (load["recorded"], []), shown.stdout
    assert load["recorded_plt_ms"] > 0
    assert {path.name for path in pictures.iterdir()} == {"my.recorded.png", "my.replayed.png"}


class TestTheFile:
    def test_the_browsers_log_tells_bodies_before_decoding_and_only_of_the_page(self, tmp_path: Path) -> None:
        names = (
            "URL_REQUEST_START_JOB",
            "URL_REQUEST_FILTERS_SET",
            "URL_REQUEST_JOB_BYTES_READ",
            "URL_REQUEST_JOB_FILTERED_BYTES_READ",
            "HTTP_TRANSACTION_READ_RESPONSE_HEADERS",
        )
        numbers = {name: number for number, name in enumerate(names)}

        def event(source: int, name: str, **params: object) -> str:
            origin = {"id": source, "type": 1}
            one = {"source": origin, "type": numbers[name], "phase": 1, "time": "5", "params": params}
            return json.dumps(one)

        def read(source: int, name: str, body: bytes) -> str:
            return event(source, name, bytes=base64.b64encode(body).decode())

        answer = ["HTTP/1.1 200 OK", "Set-Cookie: a=b", "Set-Cookie: c=d"]
        events = [
            event(1, names[0], url="http://a.test/#x", method="GET"),
            event(2, names[0], url="http://browser.test/own", method="GET"),
            event(1, names[4], headers=answer),
            event(1, names[1]),
            read(1, names[2], b"packed"),
            read(1, names[3], b"plain"),
            event(2, names[4], headers=answer),
        ]
        log = tmp_path / "net.json"
        constants = {"logEventTypes": numbers, "timeTickOffset": 1000}
        lines = [json.dumps({"constants": constants})[:-1], '"events": [', *events]
        log.write_text(",\n".join(lines).replace("[,", "[") + "],\n" + '"polledData": {}}\n')
        (one,) = wire_exchanges(log, {"http://a.test/"})
        assert (one.url, one.status, bytes(one.body)) == ("http://a.test/", "200 OK", b"packed")
        assert one.response_headers == [("Set-Cookie", "a=b"), ("Set-Cookie", "c=d")]
        assert one.moment_s == 1.005

    def test_times_are_put_together_from_the_browsers_clock(self) -> None:
        log = Log()
        request = {"url": "http://a.test/", "method": "GET", "headers": {}}
        timing = {
            "requestTime": 100.01,
            "dnsStart": 1,
            "dnsEnd": 4,
            "connectStart": 4,
            "connectEnd": 24,
            "sslStart": -1,
            "sslEnd": -1,
            "sendStart": 24,
            "sendEnd": 25,
            "receiveHeadersEnd": 75,
        }
        response = {"status": 200, "protocol": "http/1.1", "timing": timing, "encodedDataLength": 90}
        log.on_event("Network.requestWillBeSent", asked("1", request, 100.0))
        log.on_event("Network.responseReceived", {"requestId": "1", "response": response})
        log.on_event(
            "Network.loadingFinished", {"requestId": "1", "timestamp": 100.1, "encodedDataLength": 1090}
        )
        log.on_event("Page.loadEventFired", {"timestamp": 100.2})
        document = har_of([Loaded("http://a.test/", "A", log)], "1")["log"]
        (entry,) = document["entries"]
        parts = entry["timings"]
        assert [parts[name] for name in ("blocked", "dns", "connect", "ssl")] == [11, 3, 20, -1]
        assert [parts[name] for name in ("send", "wait", "receive")] == [1, 50, 15]
        assert entry["time"] == 100
        assert (entry["response"]["headersSize"], entry["response"]["bodySize"]) == (90, 1000)
        assert document["pages"][0]["pageTimings"]["onLoad"] == 200
        assert document["pages"][0]["_roundTrips"] == {"a.test": 20}

    def test_a_redirect_ends_where_the_next_request_begins(self) -> None:
        log = Log()
        request = {"url": "http://a.test/", "method": "GET", "headers": {}}
        answer = {"status": 301, "headers": {"Location": "/b"}, "protocol": "http/1.1"}
        log.on_event("Network.requestWillBeSent", asked("1", request, 100.0))
        log.on_event(
            "Network.requestWillBeSent",
            asked("1", request | {"url": "http://a.test/b"}, 100.05) | {"redirectResponse": answer},
        )
        first, second = log.exchanges
        assert (first.redirected, first.ended, second.ended, log.open_requests()) == (True, 100.05, None, 1)

    def test_heads_are_those_that_crossed_the_wire(self) -> None:
        log = Log()
        page_saw = {"url": "http://a.test/", "method": "GET", "headers": {"User-Agent": "x"}}
        moved = {"status": 301, "headers": {"Location": "/b"}, "protocol": "http/1.1"}
        answer = {"status": 200, "headers": {"Server": "s"}, "protocol": "http/1.1"}

        def sent(**fields: str) -> None:
            log.on_event("Network.requestWillBeSentExtraInfo", {"requestId": "1", "headers": fields})

        def came(**fields: str) -> None:
            log.on_event("Network.responseReceivedExtraInfo", {"requestId": "1", "headers": fields})

        # The event of the network stack may precede that of the page.
        sent(Host="a.test", Cookie="a=1")
        log.on_event("Network.requestWillBeSent", asked("1", page_saw, 100.0))
        came(Location="/b", Cookies="c=1\nd=2")
        to_b = {"redirectResponse": moved, "redirectHasExtraInfo": True}
        log.on_event("Network.requestWillBeSent", asked("1", page_saw, 100.1) | to_b)
        log.on_event("Network.responseReceived", {"requestId": "1", "response": answer, "hasExtraInfo": True})
        sent(Host="b.test")
        log.on_event("Network.requestWillBeSent", asked("2", page_saw, 100.2))
        log.on_event(
            "Network.responseReceived", {"requestId": "2", "response": answer, "hasExtraInfo": False}
        )
        log.assign_header_fields()
        entries = har_of([Loaded("http://a.test/", "A", log)], "1")["log"]["entries"]

        def fields(of: str) -> list[list[tuple[str, str]]]:
            return [[(f["name"], f["value"]) for f in entry[of]["headers"]] for entry in entries]

        assert fields("request") == [
            [("Host", "a.test"), ("Cookie", "a=1")],
            [("Host", "b.test")],
            [("User-Agent", "x")],
        ]
        assert fields("response") == [
            [("Location", "/b"), ("Cookies", "c=1"), ("Cookies", "d=2")],
            [("Server", "s")],
            [("Server", "s")],
        ]

    def test_the_round_trip_is_the_shortest_handshake_without_tls(self) -> None:
        def entry(
            connect: float, tls: float, version: str = "HTTP/2.0", host: str = "a.test"
        ) -> dict[str, Any]:
            response, timings = {"httpVersion": version}, {"connect": connect, "ssl": tls}
            return {"request": {"url": f"https://{host}/"}, "response": response, "timings": timings}

        quic = entry(30, 30, "h3", "b.test")
        tcp = [entry(90, 60), entry(80, 55), entry(-1, -1)]
        assert round_trips_ms([*tcp, quic]) == {"a.test": 25, "b.test": 30}

    @pytest.mark.parametrize("url", ["ftp://a.test/", "http://", "http://a.test:99999/", "a b"])
    def test_what_is_no_url_is_refused_before_a_browser_starts(self, url: str, tmp_path: Path) -> None:
        done = record(1, tmp_path / "x.har", url)
        assert done.returncode == 2
        assert "is not a file or web URL" in done.stderr
        assert not (tmp_path / "x.har").exists()

    def test_a_recording_that_is_there_is_not_overwritten_without_a_word(self, tmp_path: Path) -> None:
        kept = tmp_path / "x.har"
        kept.write_text("mine")
        done = record(1, kept, "http://a.test/")
        assert (done.returncode, kept.read_text()) == (2, "mine")
        assert f"error: {kept}: exists already; use --force to replace it, or another file" in done.stderr


def asked(identity: str, request: dict[str, Any], timestamp: float) -> dict[str, Any]:
    return {"requestId": identity, "request": request, "timestamp": timestamp, "wallTime": 1.7e9 + timestamp}
