"""Reading HARs in pieces: same result as if read whole, limited memory, errors that name damaged entries."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.pages import ImportedPage, budget, load_pages
from fastopen.pages.importers.har.stream import Scanner, read_json
from fastopen.pages.importers.notes import SENTENCES, Notes
from fastopen.pages.library import damage_notes
from pages.hars import entry, har, import_har, noted

ENTRIES = [entry(f"http://a.test/{index}", index * 10) for index in range(6)]


def text_of(**changes: Any) -> str:
    return json.dumps(har(*ENTRIES, **changes), indent=1)


def pieces(text: str, size: int) -> Scanner:
    """Return a scanner that reads the text in pieces of this size."""
    parts = iter([text[at : at + size] for at in range(0, len(text), size)])
    return Scanner(lambda _: next(parts, ""), "f")


def load(tmp_path: Path, text: str | bytes, *, lenient: bool = False) -> ImportedPage:
    file = tmp_path / "my.har"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    (page,) = load_pages([file], lenient=lenient)
    return page


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(VALUES, st.integers(1, 30), st.sampled_from([None, 1]), st.booleans())
def test_values_read_in_pieces_are_those_read_whole(
    value: Any, size: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    scanner = pieces(text, size)
    assert scanner.value() == value
    scanner.end()


@settings(max_examples=200)
@given(VALUES, st.integers(1, 30), st.data())
def test_an_error_has_the_line_and_column_that_json_gives(value: Any, size: int, data: st.DataObject) -> None:
    text = json.dumps({"a": value}, indent=1)
    at = data.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + data.draw(st.sampled_from(["}", "]", "!", ",", "\n", ""])) + text[at + 1 :]
    assert place_of_error(broken, size) == place_by_json(broken)


def place_of_error(text: str, size: int) -> str:
    """Return the place where a value is malformed; an empty text if it is valid, even if data follows it."""
    try:
        pieces(text, size).value()
    except InputError as error:
        return error.place
    return ""


def place_by_json(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return "" if error.msg == "Extra data" else f"f: line {error.lineno} column {error.colno}"
    return ""


def test_a_file_gives_the_page_that_its_decoded_json_gives(tmp_path: Path) -> None:
    text = text_of(on_load=400)
    (whole,) = import_har(json.loads(text), str(tmp_path / "my.har"))
    assert load(tmp_path, text) == whole


def test_entries_may_come_before_the_pages_they_belong_to(tmp_path: Path) -> None:
    log = har(*ENTRIES, on_load=400)["log"]
    turned = {"log": dict(reversed(log.items()))}
    assert (
        load(tmp_path, json.dumps(turned)).page.resources
        == load(tmp_path, text_of(on_load=400)).page.resources
    )


def test_a_damaged_entry_is_named_with_its_line(tmp_path: Path) -> None:
    text = text_of().replace('"url": "http://a.test/3"', '"url": http://a.test/3')
    line = text[: text.index('"url": http://a.test/3')].count("\n") + 1
    with pytest.raises(InputError, match=rf"my\.har: log\.entries\[3\]: line {line} column .*--lenient"):
        load(tmp_path, text)


@pytest.mark.parametrize("damage", [("3", '"url": http:'), ("3", '"url" "http:'), ("3", '"url": "http\n:')])
def test_read_leniently_only_the_damaged_entry_is_missing(tmp_path: Path, damage: tuple[str, str]) -> None:
    number, wrong = damage
    before, url, after = text_of().partition(f'"url": "http://a.test/{number}"')
    found = load(tmp_path, before + url.replace('"url": "http:', wrong) + after, lenient=True)
    assert [r.url[-1] for r in found.page.resources] == ["0", "1", "2", "4", "5"]
    assert noted(found.page)["broken"] == 1
    assert damage_notes(found.page) == [SENTENCES["broken"].format(n=1)]
    assert damage_notes(load(tmp_path, text_of()).page) == []


def test_a_missing_comma_between_entries_costs_no_entry_leniently(tmp_path: Path) -> None:
    parts = [json.dumps(one) for one in ENTRIES]
    text = '{"log": {"entries": [' + ",".join(parts[:3]) + " " + ",".join(parts[3:]) + "]}}"
    with pytest.raises(InputError, match=r"log\.entries\[2\]"):
        load(tmp_path, text)
    assert len(load(tmp_path, text, lenient=True).page.resources) == 6


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_ends_early_gives_what_it_has_leniently(tmp_path: Path, packed: bool) -> None:
    text = text_of()
    cut = text[: text.index("http://a.test/4") + 4].encode()
    data = gzip.compress(cut)[:-8] if packed else cut
    with pytest.raises(InputError, match="damaged gzip" if packed else r"log\.entries\[4\]"):
        load(tmp_path, data)
    found = load(tmp_path, data, lenient=True)
    assert [r.url[-1] for r in found.page.resources] == ["0", "1", "2", "3"]
    assert "cut" in noted(found.page)


def test_a_text_in_another_charset_is_served_in_it(tmp_path: Path) -> None:
    text = "<p>Grüße aus Köln</p>"
    size = len(text.encode("latin-1"))
    content = {"size": size, "mimeType": "text/html; charset=iso-8859-1", "text": text}
    made = har(entry("http://a.test/", response={"content": content, "bodySize": size}))
    assert load(tmp_path, json.dumps(made)).bodies[0] == text.encode("latin-1")


def test_a_compressed_text_is_left_to_the_world(tmp_path: Path) -> None:
    content = {"size": 4000, "mimeType": "text/html", "text": "x" * 4000}
    made = har(entry("http://a.test/", response={"content": content, "bodySize": 300}))
    found = load(tmp_path, json.dumps(made))
    assert dict(found.bodies) == {}
    assert found.page.resources[0].body_bytes == 300


@pytest.mark.slow
def test_a_large_recording_costs_little_memory(tmp_path: Path) -> None:
    body = "x" * 500_000
    content = {"size": len(body), "mimeType": "image/png", "text": body}
    made = [
        entry(f"http://a.test/{i}", i * 10, response={"content": content, "bodySize": len(body)})
        for i in range(80)
    ]
    file = tmp_path / "my.har"
    made[0]["_resourceType"] = "document"
    file.write_text(json.dumps(har(*made)))
    heard: list[int] = []
    tracemalloc.start()
    try:
        (found,) = load_pages([file], progress=lambda _, done, total: heard.append(100 * done // total))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.bodies) == 80
    assert found.bodies[7] == body.encode()
    assert peak < file.stat().st_size / 1.5
    assert heard == sorted(heard)
    assert heard[-1] == 100


@pytest.mark.parametrize(("share", "refused"), [(1.02, False), (0.98, True)])
def test_what_was_read_before_memory_is_measured_is_measured_too(share: float, refused: bool) -> None:
    document = {"log": {"version": "1.2", "entries": [{"x": [[]] * 2000} for _ in range(30)]}}
    scanner = pieces(json.dumps(document), 1000)
    room = int(json_memory.bytes_of(document) * share)
    with budget.budget_for("f", 8 * room):
        assert budget.room() == room
        with pytest.raises(InputError, match="takes more memory") if refused else nullcontext():
            read_json(scanner, lambda found: found, Notes(), lenient=False)


def test_nothing_is_counted_in_a_value_that_cannot_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(text: str | bytes) -> int:
        raise AssertionError(f"{len(text)} characters were counted")

    monkeypatch.setattr(json_memory, "estimated_bytes", counted)
    value = ["a" * 1000] * 3000
    text = json.dumps(value)
    assert len(text) < json_memory.LITTLE
    assert Scanner(io.StringIO(text + " " * json_memory.LITTLE).read, "f").value() == value
