"""Descriptions of pages."""

from __future__ import annotations

import json

from fastopen.pages import Page, load_pages
from fastopen.pages.describe import summary
from fastopen.pages.model import parse_page


def example() -> Page:
    return load_pages(["example"])[0].page


def test_the_summary_counts_what_is_there() -> None:
    facts = summary(example())
    assert [facts[key] for key in ("requests", "hosts", "redirects", "depth")] == [8, 3, 1, 4]
    assert facts["bytes_down"] == sum(host["bytes_down"] for host in facts["by_host"])
    assert facts["types"]["document"] == 2
    assert facts["largest"][0]["url"] == "http://www.example.com/hero.jpg"
    assert facts["processing_us_longest_chain"] == 20_500


def test_connections_are_no_more_than_a_browser_opens_and_than_there_are_requests() -> None:
    root = {"url": "http://a.test/", "type": "document", "body_bytes": 1, "initiator": None}
    more = [root | {"url": f"http://a.test/{i}", "initiator": 0} for i in range(9)]
    other = root | {"url": "https://a.test/", "initiator": 0}
    head = {"format": "fastopen-page/1", "name": "n", "url": "http://a.test/", "source": "a test"}
    data = head | {"initiators": "declared", "resources": [root, *more, other]}
    assert summary(parse_page(data, "p"))["connections"] == 7


def test_the_summary_is_plain_data_too() -> None:
    assert json.loads(json.dumps(summary(example()))) == summary(example())
