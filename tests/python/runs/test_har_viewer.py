"""An exported HAR in a real viewer: Chromium's DevTools, which Chromium serves on its debugging port."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Error, sync_playwright

from fastopen.contract.client_kinds import CHROMIUM as CHROMIUM_TYPE
from fastopen.runs import RunStore
from fastopen.runs.export import export
from made_up_run import fill, made_up_page, made_up_plan

CHROMIUM = next(filter(None, map(shutil.which, CHROMIUM_TYPE.executables)), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
PATIENCE_MS: Final = 180_000
# Calls the functions with which the network panel imports a file. Returns the fields of each request that the
# panel's table and waterfall show.
IMPORT: Final = """async har => {
    const {HARFormat, Importer} = await import('/devtools/models/har/har.js');
    await import('/devtools/panels/network/network.js');
    const requests = Importer.Importer.requestsFromHARLog(new HARFormat.HARRoot(har).log);
    return requests.map(one => ({
        url: one.url(), status: one.statusCode, mime: one.mimeType, size: one.resourceSize,
        took_ms: 1000 * (one.endTime - one.startTime),
        connect_ms: one.timing.connectEnd - one.timing.connectStart,
    }));
}"""


@pytest.fixture(name="har", scope="module")
def _har(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    plan = made_up_plan([made_up_page("page", 9)], (100,), repeats=1)
    folder = tmp_path_factory.mktemp("har")
    with RunStore.create(None, plan, {"kernel": "6.18.0", "started": "2026-01-01"}) as store:
        fill(store, plan)
        export(store, folder, "har")
    found: dict[str, Any] = json.loads(next(iter(sorted(folder.glob("*tcp.har")))).read_text())
    return found


def opened(har: dict[str, Any], profile: Path) -> list[dict[str, Any]]:
    """Open a HAR in DevTools. Return the requests that it shows."""
    arguments = ["--remote-debugging-port=0", "--remote-allow-origins=*"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=arguments, timeout=PATIENCE_MS
        )
        context.set_default_timeout(PATIENCE_MS)
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/devtools/devtools_app.html")
        try:
            found: list[dict[str, Any]] = page.evaluate(IMPORT, har)
        except Error as error:
            if "dynamically imported module" not in str(error):
                raise
            pytest.skip("this Chromium keeps its HAR viewer elsewhere")
        finally:
            context.close()
        return found


def test_chromiums_own_viewer_opens_a_load(har: dict[str, Any], tmp_path: Path) -> None:
    # DevTools sorts requests by start time, so both lists are sorted by URL here.
    entries = sorted(har["log"]["entries"], key=lambda entry: str(entry["request"]["url"]))
    shown = sorted(opened(har, tmp_path / "profile"), key=lambda one: str(one["url"]))
    assert [one["url"] for one in shown] == [entry["request"]["url"] for entry in entries]
    assert [one["status"] for one in shown] == [entry["response"]["status"] for entry in entries]
    assert [one["mime"] for one in shown] == [entry["response"]["content"]["mimeType"] for entry in entries]
    assert [one["size"] for one in shown] == [entry["response"]["content"]["size"] for entry in entries]
    assert [one["took_ms"] for one in shown] == pytest.approx([entry["time"] for entry in entries], abs=0.01)
    waited = [max(entry["timings"]["connect"], 0) for entry in entries]
    assert any(waited)
    assert [one["connect_ms"] for one in shown] == pytest.approx(waited, abs=0.01)
