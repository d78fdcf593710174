"""Responses recorded over http and from cdn1, which a browser also gets over https and from cdn2 and cdn3."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import fastopen
from pages.importers.test_warc import archive
from pages.sites import Answer

GIF = bytes.fromhex("474946383961010001008000000000000000ffffff2c00000000010001000002024401003b")
# When recorded, the script chose host cdn1. Here it chooses others, one of which was recorded and one not.
ROOT = b"""<html><img src="http://plain.test/i.gif"><script>
for (const n of [2, 3]) document.write(`<img src="https://cdn${n}.c.test/j${n}.gif?x=1">`)
</script></html>"""


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_mixed_content_and_siblings_are_answered_with_what_was_recorded(tmp_path: Path) -> None:
    root, path = "https://a.test/", tmp_path / "x.warc.gz"
    answers = [
        Answer(root, ROOT, "text/html", referer=None),
        Answer("http://plain.test/i.gif", GIF, "image/gif", referer=root),
        Answer("https://cdn1.c.test/j2.gif?x=1", GIF, "image/gif", referer=root),
        Answer("https://cdn1.c.test/j3.gif?x=1", GIF, "image/gif", referer=root),
        Answer("https://cdn2.c.test/other.gif", GIF, "image/gif", referer=root),
    ]
    path.write_bytes(archive(answers))
    done = fastopen("validate", "bodies", path, "--json", "-q")
    (found,) = json.loads(done.stdout)["loads"]
    assert set(found["missing"]) == {"GET https://cdn2.c.test/other.gif"}, done.stderr
    assert found["invalid"] == []
    assert (found["recorded"], found["asked"]) == (5, 4)
