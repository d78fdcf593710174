"""What is said of a page."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from fastopen.pages import Page, load_pages
from fastopen.pages.describe import render, summary
from fastopen.pages.model import parse_page


def example() -> Page:
    return load_pages(["example"])[0].page


def printed(page: Page, *, tree: bool = False, width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(render(page, tree=tree))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


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


def test_the_text_says_what_the_page_is_made_of() -> None:
    text = printed(example())
    assert "8 to 3 hosts, 1 redirect" in text
    assert "static.example.com         4  69 kB  1380 B            4" in text
    assert "note: a redirect, a document" in text
    assert "├──" not in text


def test_the_tree_shows_each_resource_below_its_initiator() -> None:
    text = printed(example(), tree=True)
    assert "│   └── 6 http://static.example.com/text.woff2  font, 22 kB, +4 ms, think 1 ms" in text
