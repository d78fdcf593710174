"""Servers that somebody made to harm: what `record` and `probe` take of them is bounded."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastopen.clients import CHROMIUM
from fastopen.errors import MachineError
from fastopen.probe import CONNECTIONS_MAX, Target, probe
from fastopen.record import browser
from fastopen.record.browser import LoadError, Recorder
from local_server import Handler, served

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, CHROMIUM.executables)), reason="no Chromium here: apt-get install chromium"
)
PIECE = b"<p>" * 2**16
PAGES = {
    "/spin": b"<script>onload = () => setTimeout(() => { for (;;); }, 0)</script>",
    "/frames": b"<iframe src=/attachment></iframe><iframe src='file:///etc/passwd'></iframe>"
    b"<script>alert(1)</script>",
    "/requests": b"<script>for (let i = 0; i < 500; i++) new Image().src = '/' + i</script>",
}
HEADS = {
    "/body": b"Content-Type: text/html",
    "/drip": b"Content-Type: text/html",
    "/attachment": b"Content-Type: application/zip\r\nContent-Disposition: attachment; filename=evil",
}
REDIRECTS = {"/file": "file:///etc/passwd", "/ring": "/ring"}


class Hostile(Handler):
    """Sends without end where the path says so, until the test is over or nobody takes it."""

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        over = self.server.closing
        try:
            if self.path in PAGES or self.path in REDIRECTS:
                body = PAGES.get(self.path, b"")
                self.send_response(200 if body else 302)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                if not body:
                    self.send_header("Location", REDIRECTS[self.path])
                self.end_headers()
                self.wfile.write(body)
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + HEADS.get(self.path, b""))
            self.wfile.write(b"\r\n\r\n" if self.path in HEADS else b"")
            while not over.is_set():
                self.wfile.write({"/headers": b"X-A: a\r\n", "/drip": b"a"}.get(self.path, PIECE))
                over.wait(0.05 if self.path == "/drip" else 0)
        except OSError:
            self.close_connection = True


@pytest.fixture(name="short_folder")
def _short_folder() -> Iterator[Path]:
    """Chromium makes a Unix socket in it, whose path has 107 characters at most: pytest's own is too deep."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.e2e
@needs_chromium
def test_a_recording_of_a_hostile_server_ends_with_the_reason(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short_folder))
    monkeypatch.setattr(browser, "MAX_RECEIVED_BYTES", 2**20)
    monkeypatch.setattr(browser, "MAX_REQUESTS", 100)
    monkeypatch.setattr(browser, "TURN_MS", 1000)
    reasons = {
        "headers": "ERR_RESPONSE_HEADERS_TOO_BIG",
        "body": "it sent more than 1 MiB",
        "drip": "no load event within 1 s",
        "file": "ERR_UNSAFE_REDIRECT",
        "ring": "ERR_TOO_MANY_REDIRECTS",
        "requests": "it made more than 100 requests",
        "spin": "its script did not give way for 1 s",
    }
    with served(Hostile) as port, Recorder() as recorder:
        for name, reason in reasons.items():
            timeout_s = 1 if name == "drip" else 30
            with pytest.raises(LoadError, match=reason):
                recorder.record(f"http://127.0.0.1:{port}/{name}", timeout_s=timeout_s, settle_s=1)
        loaded = recorder.record(f"http://127.0.0.1:{port}/frames", timeout_s=30, settle_s=1)
    asked = {exchange.asked["request"]["url"] for exchange in loaded.log.exchanges}
    assert not [url for url in asked if url.startswith("file:")]
    kept = [path for path in short_folder.rglob("playwright-artifacts-*/*") if path.is_file()]
    assert not [path for path in kept if path.stat().st_size], "a download was kept"


@pytest.mark.e2e
@needs_chromium
def test_a_browser_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("a" * 80)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    with pytest.raises(MachineError, match="does not start: Socket path too long"):
        Recorder()


@pytest.mark.parametrize("path", ["/headers", "/body", "/drip", "/attachment"])
def test_a_probe_takes_little_of_a_server_that_never_ends(path: str) -> None:
    from fastopen.probe import trials

    greeting = f"GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
    with served(Hostile) as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "greeting", lambda _: greeting)
        found = probe(Target("127.0.0.1", port, "http"), timeout_s=5, pause=lambda _: None)
    assert found.reachable
    assert len(found.trials) <= CONNECTIONS_MAX
