"""Importing real recordings by many programs (../shared/inputs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastopen.pages import load_pages
from places import SHARED

FOLDER = SHARED / "inputs"
HARS = sorted((FOLDER / "har").glob("*.har*")) if (FOLDER / "har").is_dir() else []


@pytest.mark.parametrize("har", HARS or [None], ids=lambda har: har.name if har else "none")
def test_every_real_har_becomes_pages(har: Path | None) -> None:
    if har is None:
        pytest.skip("no recordings (../shared/inputs/har)")
    for imported in load_pages([har]):
        page = imported.page
        assert len(page.resources) > 1
        assert page.body_bytes() > 10_000
        assert page.resources[0].type == "document"
        assert max(r.response_header_bytes for r in page.resources) < 20_000
        # No browser processes for more than half a minute before the load event.
        assert all(r.processing_us < 30_000_000 for r in page.resources if r.phase == "load")


def test_the_list_of_the_paper_finds_the_packaged_pages() -> None:
    if not (FOLDER / "paper.pages").is_file():
        pytest.skip("the list of the paper's pages is not there (../shared/inputs/paper.pages)")
    names = [imported.page.name for imported in load_pages([FOLDER / "paper.pages"])]
    assert names == ["amazon", "nytimes", "wsj", "wikipedia-tcp"]
