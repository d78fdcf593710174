"""Importing Mahimahi's recordings, whose messages these tests encode byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastopen.common.errors import InputError
from fastopen.pages import load_pages
from pages.hars import noted
from pages.sites import INITIATORS, Answer, initiators, site


def field(number: int, value: bytes | int) -> bytes:
    """Return an encoded protobuf field: a varint, or bytes preceded by their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def http(first_line: str, headers: list[tuple[str, str]], body: bytes = b"") -> bytes:
    listed = b"".join(field(2, field(1, n.encode()) + field(2, v.encode())) for n, v in headers)
    return field(1, first_line.encode()) + listed + (field(3, body) if body else b"")


def message(answer: Answer, port: int = 80, scheme: int = 1) -> bytes:
    """Return the protobuf message that mm-webrecord writes for a request and its response."""
    host, _, path = answer.url.partition("://")[2].partition("/")
    sent = [("Host", host), *([("Referer", answer.referer)] if answer.referer else [])]
    got = [("Content-Type", answer.mime)]
    if answer.location:
        got.append(("Location", answer.location))
    if answer.coding:
        got.append(("Content-Encoding", answer.coding))
    return (
        field(1, b"10.0.0.1")
        + field(2, port)
        + field(3, scheme)
        + field(4, http(f"GET /{path} HTTP/1.1", sent))
        + field(5, http(f"HTTP/1.1 {answer.status} Fine", got, answer.body))
    )


def recording(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for number, answer in enumerate(site()):
        # Names in random order, as from mkstemp, so the order of files has no meaning.
        (folder / f"save.{number * 7919 % 997:06}").write_bytes(message(answer))
    return folder


def test_a_recording_is_a_page_whose_root_leads_to_everything(tmp_path: Path) -> None:
    (found,) = load_pages([recording(tmp_path / "my")])
    assert initiators(found) == INITIATORS
    assert found.page.name == "my"


def test_sizes_and_bodies_are_those_on_the_wire(tmp_path: Path) -> None:
    (found,) = load_pages([recording(tmp_path / "my")])
    root = found.page.resources[1]
    assert found.bodies[1] == site()[1].body
    assert root.request_header_bytes == len("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert root.response_header_bytes == len(
        "HTTP/1.1 200 Fine\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    )


def test_ports_and_schemes_are_part_of_the_url(tmp_path: Path) -> None:
    folder = tmp_path / "my"
    folder.mkdir()
    page = Answer("http://a.test/", b"<p>", "text/html", referer=None)
    (folder / "save.a").write_bytes(message(page, port=8443, scheme=2))
    (found,) = load_pages([folder])
    assert found.page.url == "https://a.test:8443/"


def test_a_folder_of_recordings_gives_the_page_of_each(tmp_path: Path) -> None:
    for name in ("one", "two"):
        recording(tmp_path / name)
    assert [page.page.name for page in load_pages([tmp_path])] == ["one", "two"]


def test_a_damaged_message_is_named_and_left_out_leniently(tmp_path: Path) -> None:
    folder = recording(tmp_path / "my")
    (folder / "save.zzz").write_bytes(message(site()[2])[:-9])
    with pytest.raises(InputError, match=r"save\.zzz: not a message of mm-webrecord"):
        load_pages([folder])
    (found,) = load_pages([folder], lenient=True)
    assert initiators(found) == INITIATORS
    assert noted(found.page)["broken_records"] == 1


@settings(max_examples=60)
@given(at=st.integers(0, 300), junk=st.binary(max_size=10), gone=st.integers(0, 20), lenient=st.booleans())
def test_whatever_is_done_to_a_message_it_is_a_page_or_an_input_error(
    tmp_path: Path, at: int, junk: bytes, gone: int, lenient: bool
) -> None:
    folder = recording(tmp_path / "my")
    whole = message(site()[1])
    (folder / "save.broken").write_bytes(whole[:at] + junk + whole[at + gone :])
    try:
        found = load_pages([folder], lenient=lenient)
    except InputError as error:
        found, said = [], str(error)
        assert not lenient
        assert "save.broken" in said
    assert found == [] or len(found) == 1


def test_a_redirect_has_the_type_of_what_it_leads_to_and_so_has_the_root(tmp_path: Path) -> None:
    folder = tmp_path / "my"
    folder.mkdir()
    sent_on = Answer("http://a.test/", b"", "text/html", 302, "http://a.test/x", referer=None)
    (folder / "save.1").write_bytes(message(sent_on))
    (folder / "save.2").write_bytes(message(Answer("http://a.test/x", b"1", "application/x-odd")))
    (found,) = load_pages([folder])
    assert [one.type for one in found.page.resources] == ["other", "other"]
