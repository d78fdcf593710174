"""The recorded pages that come with fastopen: importing their HARs gives the same bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastopen.experiments import load_experiment
from fastopen.pages import load_pages, packaged_pages, read_page
from packaged_pages.recorded import main, without_queries
from places import SHARED

HARS = SHARED / "inputs" / "har"
RECORDED = ("bbc-2015", "mytoys-2017", "wikipedia-2018", "thegreenwebfoundation-2020", "google-2026")


@pytest.mark.parametrize("name", RECORDED)
def test_the_packaged_page_is_made_of_its_recording(name: str, tmp_path: Path) -> None:
    found = sorted(HARS.glob(f"{name}.har*"))
    if not found:
        pytest.skip("the recordings are not there (../shared/inputs/har)")
    assert main([str(tmp_path), str(found[0])]) == 0
    packaged = Path(packaged_pages()[name])
    assert (tmp_path / packaged.name).read_bytes() == packaged.read_bytes()


@pytest.mark.parametrize("name", RECORDED)
def test_a_packaged_recording_has_no_query(name: str) -> None:
    page = read_page(packaged_pages()[name])
    urls = [page.url, *(url or "" for one in page.resources for url in (one.url, one.redirect_to))]
    assert not [url for url in urls if "?" in url or len(url) > 129]


def test_urls_that_differ_in_their_query_stay_apart_and_redirects_lead_where_they_led() -> None:
    page = load_pages(["example"])[0].page
    document, *others = page.resources
    first = "http://example.com/a?visitor=1"
    moved = document.model_copy(update={"status": 302, "redirect_to": first, "body_bytes": 0})
    urls = [first, "http://example.com/a?visitor=2"]
    asked = [
        one.model_copy(update={"url": url, "initiator": 0, "initiator_at_bytes": None})
        for one, url in zip(others, urls, strict=False)
    ]
    facts = without_queries(page.model_copy(update={"resources": (moved, *asked)})).resources
    assert facts[0].redirect_to == facts[1].url != facts[2].url


def test_the_matrix_of_first_flights_has_the_papers_pages_and_five_recorded_ones() -> None:
    experiment = load_experiment("first-flight-pages")
    assert [*experiment.pages] == ["amazon", "nytimes", "wsj", "wikipedia-tcp", *RECORDED]
    assert {network.rtt_us for network in experiment.networks} == {20_000, 100_000, 200_000}
    sessions = {(one.origins.http, one.tls.session) for one in experiment.setups if one.tls is not None}
    assert sessions == {(http, one) for http in ("1.1", "2", "3") for one in ("none", "resumed", "early")}
