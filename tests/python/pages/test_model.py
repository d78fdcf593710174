"""The page model: valid pages, errors for invalid ones, and its file format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import packaged_pages, page_json, read_page, write_page
from fastopen.pages.model import parse_page


def page(**changes: Any) -> dict[str, Any]:
    """Return a page of a document and an image, as decoded JSON, with these changes."""
    resources = [
        {"url": "http://a.test/", "type": "document", "body_bytes": 1000, "initiator": None},
        {"url": "http://b.test/i.png", "type": "image", "body_bytes": 70, "initiator": 0},
    ]
    return {
        "format": "fastopen-page/1",
        "name": "two",
        "url": "http://a.test/",
        "source": "a test",
        "initiators": "declared",
        "resources": resources,
    } | changes


def with_resource(index: int, **changes: Any) -> dict[str, Any]:
    data = page()
    data["resources"][index] |= changes
    return data


def test_a_minimal_page_gets_the_defaults_of_the_contract() -> None:
    image = parse_page(page(), "p").resources[1]
    assert (image.method, image.status, image.phase) == ("GET", 200, "load")
    assert (image.request_header_bytes, image.response_header_bytes) == (400, 300)
    assert image.mime == "application/octet-stream"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (with_resource(1, initiator=1), "resources[1].initiator: 1 is not before 1"),
        (with_resource(1, initiator=None), "resources[1].initiator: only resources[0] may have none"),
        (with_resource(0, initiator=0), "resources[0].initiator: the root document has none (null)"),
        (with_resource(1, initiator_at_bytes=1001), "resources[1].initiator_at_bytes: 1001 is more than"),
        (with_resource(1, status=204), "resources[1].body_bytes: a GET answered with 204 has no body"),
        (with_resource(1, redirect_to="/x"), "resources[1].redirect_to: status 200 does not redirect"),
        (with_resource(0, phase="after"), "resources[0].phase: the root document is in phase load"),
        (with_resource(1, url="ftp://a.test/"), "resources[1].url: 'ftp://a.test/': not an absolute http"),
        (with_resource(1, url="http://A.test/"), "resources[1].url: 'http://A.test/': host is not in lower"),
        (with_resource(1, url="http://a.test/#x"), "has a fragment"),
        (with_resource(1, url="http://127.1/"), "host is not a valid name or address"),
        (with_resource(1, url="http://[0:0::1]/"), "host is not a valid name or address"),
        (with_resource(1, url="http://a.test:x/"), "not a URL"),
        (with_resource(1, url="http://a.test:0/"), "port 0"),
        (with_resource(1, url="http://u@a.test/"), "has a user name"),
        (with_resource(1, url="http://a.test"), "path is missing"),
        (with_resource(1, url="http://a.test/a b"), "percent-encoded"),
        (with_resource(1, body_bytes=-1), "resources[1].body_bytes: -1 is too small"),
        (with_resource(1, body_bytes=1.5), "resources[1].body_bytes: 1.5 is not"),
        (with_resource(1, body_bytes="70"), "resources[1].body_bytes: '70' is not"),
        (with_resource(1, body_bytes=True), "resources[1].body_bytes: True is not"),
        (with_resource(1, size=1), "resources[1].size: unknown key"),
        (page(resources=[]), "resources: is empty"),
        (page(format="fastopen-page/2"), "format: 'fastopen-page/2' is newer"),
        (page(format=""), "format: '': must be"),
        ([], "not a page"),
    ],
)
def test_what_is_wrong_with_a_page_is_said_with_its_place(data: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_page(data, "my.page.json")
    assert str(caught.value).startswith("my.page.json: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_malformed_json_is_named_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "broken.page.json"
    file.write_text('{\n  "format": nope\n}')
    with pytest.raises(InputError, match=r"broken\.page\.json: line 2 column 13: malformed JSON"):
        read_page(file)


def test_json_nested_too_deep_is_an_input_error(tmp_path: Path) -> None:
    file = tmp_path / "deep.page.json"
    file.write_text("[" * 200_000)
    with pytest.raises(InputError, match="malformed JSON"):
        read_page(file)


def test_a_resource_that_is_loaded_cannot_hang_on_one_that_may_not_be() -> None:
    data = page()
    data["resources"][1]["phase"] = "after"
    data["resources"].append({"url": "http://b.test/2", "type": "image", "body_bytes": 1, "initiator": 1})
    with pytest.raises(InputError, match=r"resources\[2\]\.phase: load, but its initiator is in phase after"):
        parse_page(data, "p")


def test_a_written_page_reads_back_the_same_and_leaves_nothing_else(tmp_path: Path) -> None:
    original = parse_page(page(notes=["naïve “quotes” stay readable"]), "p")
    write_page(original, tmp_path / "two.page.json")
    assert read_page(tmp_path / "two.page.json") == original
    assert [file.name for file in tmp_path.iterdir()] == ["two.page.json"]
    text = page_json(original)
    assert text.count('"url": "http://b.test/i.png"') == 1
    assert next(line for line in text.splitlines() if "i.png" in line).endswith("}")
    assert json.loads(text)["resources"][1]["request_header_bytes"] == 400


def test_the_digest_is_of_the_facts_and_not_of_where_bodies_lie() -> None:
    one = parse_page(page(), "p")
    packed = parse_page(with_resource(1, body_offset=4096), "p")
    other = parse_page(with_resource(1, body_bytes=71), "p")
    noted = parse_page(page(notes=["initiators recorded: 1"]), "p")
    assert one.digest() == packed.digest() == noted.digest() != other.digest()


def test_other_explanations_are_written_where_there_are_any_and_have_to_fit() -> None:
    plain = parse_page(page(), "p")
    assert "explanations" not in plain.model_dump(mode="json")
    other = {"server_think_us": [9, 0], "initiator_at_bytes": [None, 500]}
    explained = parse_page({**page(), "explanations": [other]}, "p")
    assert explained.digest() != plain.digest()
    assert parse_page(json.loads(page_json(explained)), "p") == explained
    assert explained.with_explanation(explained.explanations[0]).resources[0].server_think_us == 9
    for wrong in ({**other, "server_think_us": []}, {**other, "initiator_at_bytes": [None, 1001]}):
        with pytest.raises(InputError, match=r"explanations\[0\]"):
            parse_page({**page(), "explanations": [wrong]}, "p")


def test_origins_count_scheme_and_port_in_order_of_first_use() -> None:
    data = with_resource(1, url="https://b.test:8443/i.png")
    assert parse_page(data, "p").origins() == (("http", "a.test", 80), ("https", "b.test", 8443))


@pytest.mark.parametrize("name", packaged_pages())
def test_packaged_pages_are_written_as_this_program_writes_them(name: str) -> None:
    file = packaged_pages()[name]
    assert page_json(read_page(file)) == file.read_text(encoding="utf-8")
