"""The recording of a malicious server ends with an error that gives the reason."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastopen.apps.record import browser
from fastopen.apps.record.browser import LoadError, Recorder
from fastopen.common.errors import MachineError
from fastopen.contract.client_kinds import CHROMIUM
from hostile_server import Hostile
from local_server import served

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, CHROMIUM.executables)), reason="no Chromium here: apt-get install chromium"
)


@pytest.fixture(name="short_folder")
def _short_folder() -> Iterator[Path]:
    """Yield a temporary folder with a short path. Chromium makes a Unix socket in it, whose path may have at
    most 107 characters; pytest's folders are too deep.
    """
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
        "spin": "its script blocked the page for 1 s",
    }
    with served(Hostile) as port, Recorder() as recorder:
        for name, reason in reasons.items():
            timeout_s = 1 if name == "drip" else 30
            with pytest.raises(LoadError, match=reason):
                recorder.record(f"http://127.0.0.1:{port}/{name}", timeout_s=timeout_s, settle_s=1)
        loaded = recorder.record(f"http://127.0.0.1:{port}/frames", timeout_s=30, settle_s=1)
    asked = {exchange.request_event["request"]["url"] for exchange in loaded.log.exchanges}
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
