"""Importing WARC and WACZ archives, written with warcio, the common library."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from fastopen.common.errors import InputError
from fastopen.pages import ImportedPage, load_pages
from fastopen.pages.recording import RecordedBodies
from pages.hars import noted
from pages.sites import INITIATORS, ROOT, Answer, initiators, site
from places import SHARED

WARCS = SHARED / "inputs" / "warc"


class Writer(WARCWriter):  # type: ignore[misc]
    """warcio's writer, but in memory: warcio leaves temporary files open until they are garbage-collected."""

    @classmethod
    def _create_temp_file(cls) -> io.BytesIO:
        return io.BytesIO()


def archive(
    answers: Sequence[Answer],
    *,
    packed: bool = True,
    requests: bool = True,
    chunked: bool = False,
    coding_field: str = "Content-Encoding",
) -> bytes:
    """Return a WARC of these responses. `packed`: with gzip; `chunked`: each body is one chunk."""
    out = io.BytesIO()
    writer = Writer(out, gzip=packed)
    writer.write_record(writer.create_warcinfo_record("x.warc", {"software": "a test/1.0"}))
    for number, answer in enumerate(answers):
        date = f"2024-05-01T10:00:{number:02}Z"
        fields = [("Content-Type", answer.mime)]
        if answer.location:
            fields.append(("Location", answer.location))
        if answer.coding:
            fields.append((coding_field, answer.coding))
        body = answer.body
        if chunked:
            fields.append(("Transfer-Encoding", "chunked"))
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        response = _record(writer, answer, "response", f"{answer.status} Fine", fields, body, date)
        writer.write_record(response)
        if requests:
            target = "/" + answer.url.split("/", 3)[3]
            referer = [("Referer", answer.referer)] if answer.referer else []
            request = _record(writer, answer, "request", f"GET {target} HTTP/1.1", referer, b"", date)
            request.rec_headers.add_header(
                "WARC-Concurrent-To", response.rec_headers.get_header("WARC-Record-ID")
            )
            writer.write_record(request)
    return out.getvalue()


def _record(
    writer: Any, answer: Answer, kind: str, line: str, fields: list[tuple[str, str]], body: bytes, date: str
) -> Any:
    protocol = "HTTP/1.1" if kind == "response" else None
    head = StatusAndHeaders(line, fields, protocol=protocol, is_http_request=kind == "request")
    return writer.create_warc_record(
        answer.url,
        kind,
        payload=io.BytesIO(body),
        http_headers=head,
        warc_headers_dict={"WARC-Date": date},
    )


def imported(tmp_path: Path, data: bytes, *, lenient: bool = False) -> ImportedPage:
    file = tmp_path / "my.warc.gz"
    file.write_bytes(data)
    (page,) = load_pages([file], lenient=lenient)
    return page


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("requests", [True, False])
def test_each_resource_is_asked_for_by_what_names_it(tmp_path: Path, packed: bool, requests: bool) -> None:
    found = imported(tmp_path, archive(site(), packed=packed, requests=requests))
    assert initiators(found) == INITIATORS
    assert found.page.name == "my"
    assert found.page.initiators == "inferred"
    assert found.page.source == "WARC by a test/1.0, recorded 2024-05-01"


def test_an_archive_that_was_compressed_as_a_whole_is_read_too(tmp_path: Path) -> None:
    packed = gzip.compress(archive(site(), packed=False), mtime=0)
    assert initiators(imported(tmp_path, packed)) == INITIATORS
    with pytest.raises(InputError, match="damaged gzip"):
        imported(tmp_path, packed[:-20])
    assert len(imported(tmp_path, packed[:-20], lenient=True).page.resources) >= len(INITIATORS) - 1


def test_bodies_are_served_as_they_crossed_the_wire(tmp_path: Path) -> None:
    found = imported(tmp_path, archive(site()))
    by_url = {r.url: i for i, r in enumerate(found.page.resources)}
    root = found.page.resources[by_url["http://a.test/"]]
    assert gzip.decompress(found.bodies[by_url["http://a.test/"]]) == ROOT
    assert root.body_bytes < len(ROOT)
    # The reference is in the first third of the text, so it is revealed by about that fraction of the bytes.
    sheet = found.page.resources[by_url["http://a.test/s.css?v=1"]]
    assert sheet.initiator_at_bytes is not None
    assert 0 < sheet.initiator_at_bytes < root.body_bytes / 2
    assert found.bodies[by_url["http://cdn.test/app.js"]] == site()[6].body


@pytest.mark.parametrize(
    "field", ["Content-Encoding", "x-orig-content-encoding", "X-Crawler-Content-Encoding"]
)
def test_bodies_that_a_browser_decoded_are_compressed_again(tmp_path: Path, field: str) -> None:
    page = b'<img src="/1.png">' + b"<p>so many words</p>" * 200
    answers = [
        Answer("http://a.test/", page, "text/html", coding="br", referer=None),
        Answer("http://a.test/1.png", b"\x89PNG", "image/png"),
    ]
    found = imported(tmp_path, archive(answers, coding_field=field))
    assert gzip.decompress(found.bodies[0]) == page
    assert found.page.resources[0].body_bytes == len(found.bodies[0])
    assert isinstance(found.bodies, RecordedBodies)
    assert b"Content-Encoding: gzip\r\n" in found.bodies.heads[0]
    assert noted(found.page)["repacked"] == 1
    assert found.page.resources[1].initiator == 0


def test_choices_of_a_picture_that_were_not_recorded_are_alternatives_of_the_one_that_was(
    tmp_path: Path,
) -> None:
    found = imported(tmp_path, archive(site()))
    alternatives = {one.url: one.alternatives for one in found.page.resources if one.alternatives}
    assert alternatives == {"http://a.test/pic/one.png": ("http://a.test/pic/two.png",)}
    assert noted(found.page)["choices"] == 1


def test_sizes_of_heads_are_those_of_the_records(tmp_path: Path) -> None:
    resource = imported(tmp_path, archive(site())).page.resources[0]
    assert resource.response_header_bytes == len(
        "HTTP/1.1 301 Fine\r\nContent-Type: text/html\r\nLocation: http://a.test/\r\n\r\n"
    )
    assert resource.request_header_bytes == len("GET /old HTTP/1.1\r\n\r\n")
    assert (resource.status, resource.redirect_to, resource.type) == (301, "http://a.test/", "document")


def test_chunks_lose_their_frames_and_nothing_else(tmp_path: Path) -> None:
    plain, chunked = (imported(tmp_path, archive(site(), chunked=how)) for how in (False, True))
    assert dict(plain.bodies) == dict(chunked.bodies)
    assert "chunked" in noted(chunked.page)


def test_a_revisit_has_the_body_of_the_record_it_refers_to(tmp_path: Path) -> None:
    out = io.BytesIO()
    writer = Writer(out, gzip=True)
    page = Answer("http://a.test/", b'<img src="one.png"><img src="two.png">', "text/html")
    one = Answer("http://a.test/one.png", b"the same picture", "image/png")
    for answer in (page, one):
        head = StatusAndHeaders("200 OK", [("Content-Type", answer.mime)], protocol="HTTP/1.1")
        record = writer.create_warc_record(
            answer.url, "response", payload=io.BytesIO(answer.body), http_headers=head
        )
        writer.write_record(record)
    digest = record.rec_headers.get_header("WARC-Payload-Digest")
    again = [("Content-Type", "image/png"), ("Content-Length", "16")]
    for url, of in (("http://a.test/two.png", digest), ("http://a.test/lost.png", "sha1:" + "A" * 32)):
        writer.write_record(
            writer.create_revisit_record(
                url, of, one.url, "2020-01-01T00:00:00Z", StatusAndHeaders("200 OK", again, "HTTP/1.1")
            )
        )
    # Wget declares revisits as truncated. Records without a head are allowed too.
    for url, head in (
        ("http://a.test/3.png", StatusAndHeaders("200 OK", again, "HTTP/1.1")),
        ("http://a.test/4.png", None),
    ):
        shortened = {"WARC-Truncated": "length"}
        writer.write_record(
            writer.create_revisit_record(url, digest, one.url, "2020-01-01T00:00:00Z", head, shortened)
        )
    found = imported(tmp_path, out.getvalue())
    bodies = {found.page.resources[i].url: body for i, body in found.bodies.items()}
    for name in ("two", "3", "4"):
        assert bodies[f"http://a.test/{name}.png"] == b"the same picture"
    assert "http://a.test/lost.png" not in bodies
    assert [r.body_bytes for r in found.page.resources if r.url.endswith("lost.png")] == [16]
    notes = noted(found.page)
    assert (notes["revisit"], notes["revisit_lost"]) == (3, 1)
    assert "short" not in notes


def test_an_archive_without_a_document_has_a_note(tmp_path: Path) -> None:
    script = Answer("http://a.test/app.js", b"run()", "text/javascript")
    assert noted(imported(tmp_path, archive([script])).page)["no_document"] == 1
    assert "no_document" not in noted(imported(tmp_path, archive(site())).page)


def test_pages_that_are_only_linked_to_are_no_part_of_the_page(tmp_path: Path) -> None:
    other = Answer("http://a.test/other.html", b'<img src="/more.png">', "text/html")
    more = Answer("http://a.test/more.png", b"...", "image/png", referer=other.url)
    found = imported(tmp_path, archive([*site(), other, more]))
    assert initiators(found) == INITIATORS
    assert noted(found.page)["elsewhere"] == 2


def test_what_nothing_names_is_asked_for_by_what_its_referer_says(tmp_path: Path) -> None:
    beacon = Answer("http://b.test/7831", b"", "image/gif", referer="http://frame.test/f.html")
    found = imported(tmp_path, archive([*site(), beacon]))
    assert initiators(found)[beacon.url] == "http://frame.test/f.html"
    assert noted(found.page)["referer"] == 1


def test_a_module_asks_for_what_names_it_as_referer(tmp_path: Path) -> None:
    module = Answer("http://b.test/7831", b"", "text/javascript", referer="http://cdn.test/app.js")
    assert initiators(imported(tmp_path, archive([*site(), module])))[module.url] == module.referer


def damaged(data: bytes) -> tuple[bytes, int]:
    """Return the archive with bytes of its middle record overwritten, and the offset of that record."""
    members = [i for i in range(len(data)) if data[i : i + 3] == b"\x1f\x8b\x08"]
    at = members[len(members) // 2]
    return data[: at + 30] + b"nonsense" + data[at + 38 :], at


def test_a_damaged_record_is_named_by_its_place(tmp_path: Path) -> None:
    broken, at = damaged(archive(site()))
    with pytest.raises(InputError, match=rf"my\.warc\.gz: record at byte {at}\b.*damaged record.*--lenient"):
        imported(tmp_path, broken)


def test_a_checksum_that_is_wrong_is_damage_and_the_library_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Damage in the bytes of an image that only the checksum at its end reveals.
    image = Answer("http://site.test/noise.png", bytes(range(256)) * 300, "image/png")
    data = bytearray(archive([*site(), image]))
    last = data.rfind(b"\x1f\x8b\x08")
    data[last - 8] ^= 1
    with pytest.raises(InputError, match=r"damaged record: gzip: incorrect data check"):
        imported(tmp_path, bytes(data))
    assert "broken_records" in noted(imported(tmp_path, bytes(data), lenient=True).page)
    assert capfd.readouterr().err == ""


def test_read_leniently_everything_but_the_damaged_record_is_used(tmp_path: Path) -> None:
    broken, _ = damaged(archive(site()))
    found = imported(tmp_path, broken, lenient=True)
    assert noted(found.page)["broken_records"] == 1
    assert len(found.page.resources) >= len(INITIATORS) - 1


def test_a_record_that_lies_about_its_length_is_damaged(tmp_path: Path) -> None:
    data = archive(site(), packed=False)
    at = data.index(b"Content-Length: ", data.index(b"WARC-Target-URI: http://a.test/t.css"))
    end = data.index(b"\r\n", at)
    wrong = data[:at] + b"Content-Length: 20" + data[end:]
    with pytest.raises(InputError, match="damaged record"):
        imported(tmp_path, wrong)
    assert "broken_records" in noted(imported(tmp_path, wrong, lenient=True).page)


def test_an_archive_that_was_cut_short_is_an_error_or_what_came_before(tmp_path: Path) -> None:
    data = archive(site())
    with pytest.raises(InputError, match="damaged record"):
        imported(tmp_path, data[:-60])
    assert len(imported(tmp_path, data[:-60], lenient=True).page.resources) == len(INITIATORS)


def test_an_archive_without_a_page_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no request that a page could start with"):
        imported(tmp_path, archive([]))


def wacz(tmp_path: Path, pages: str, name: str = "pages") -> Path:
    file = tmp_path / "my.wacz"
    answers = site()
    other = Answer("http://a.test/other.html", b'<img src="/pic/one.png">', "text/html")
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("archive/data.warc.gz", archive([*answers, other]))
        out.writestr(f"pages/{name}.jsonl", pages)
    return file


def test_a_wacz_has_a_page_for_each_url_that_it_lists(tmp_path: Path) -> None:
    listed = ['{"format": "json-pages-1.0", "id": "pages"}']
    listed += [
        json.dumps({"url": url, "title": "x"}) for url in ("http://a.test/old", "http://a.test/other.html")
    ]
    first, second = load_pages([wacz(tmp_path, "\n".join(listed))])
    assert initiators(first) == INITIATORS
    # Pages load with an empty cache, so a resource of both pages is in both.
    assert [r.url for r in second.page.resources] == ["http://a.test/other.html", "http://a.test/pic/one.png"]
    assert (first.page.name, second.page.name) == ("my#1", "my#2")


@pytest.mark.parametrize(
    ("urls", "roots"),
    [(["http://a.test/"], ["/old"]), (["http://a.test/", "http://a.test/old"], ["/", "/old"])],
)
def test_a_page_listed_by_the_url_after_redirects_begins_with_its_redirects(
    tmp_path: Path, urls: list[str], roots: list[str]
) -> None:
    pages = load_pages([wacz(tmp_path, "\n".join(json.dumps({"url": url}) for url in urls))])
    assert [one.page.url.removeprefix("http://a.test") for one in pages] == roots


@pytest.mark.parametrize("name", ["pages", "extraPages"])
def test_a_list_of_pages_may_begin_with_a_byte_order_mark(tmp_path: Path, name: str) -> None:
    """Browsertrix lists pages that are not seeds in another file."""
    (found,) = load_pages([wacz(tmp_path, '\ufeff{"url": "http://a.test/other.html"}', name)])
    assert found.page.url == "http://a.test/other.html"


def test_empty_members_of_a_wacz_cost_work(tmp_path: Path) -> None:
    file, limit = wacz(tmp_path, ""), 10_000 * 512
    load_pages([file], max_unpacked=limit)
    with zipfile.ZipFile(file, "a") as out:
        for number in range(100):
            out.writestr(f"archive/{number}.warc", b"")
    with pytest.raises(InputError, match="takes more work"):
        load_pages([file], max_unpacked=limit)


def test_a_wacz_that_lists_nothing_has_the_page_of_its_archive(tmp_path: Path) -> None:
    (found,) = load_pages([wacz(tmp_path, "nonsense\n[1]\n{}")])
    assert initiators(found) == INITIATORS


@pytest.mark.parametrize(("cut", "words"), [(200, "not a readable ZIP file"), (0, "holds no recording")])
def test_a_zip_that_is_damaged_or_no_wacz_is_an_error(tmp_path: Path, cut: int, words: str) -> None:
    file = tmp_path / "my.wacz"
    if cut:
        file = wacz(tmp_path, "")
        file.write_bytes(file.read_bytes()[:-cut])
    else:
        with zipfile.ZipFile(file, "w") as out:
            out.writestr("hello.txt", "hello")
    with pytest.raises(InputError, match=words):
        load_pages([file])


WHOLE = archive(site())
PLAIN = archive(site(), packed=False)


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_done_to_an_archive_it_is_a_page_or_an_input_error(
    tmp_path: Path, data: st.DataObject
) -> None:
    whole = WHOLE if data.draw(st.booleans()) else PLAIN
    at = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(max_size=12))
    gone = data.draw(st.integers(0, 40))
    file = tmp_path / "fuzzed"
    file.write_bytes(whole[:at] + junk + whole[at + gone :])
    for lenient in (False, True):
        refused, pages = tried(file, lenient)
        assert refused is None or (str(file) in refused and refused.isprintable())
        assert (refused, pages) == tried(file, lenient)


def tried(file: Path, lenient: bool) -> tuple[str | None, list[ImportedPage]]:
    """Load a file. Return the text of the InputError (None: no error) and the pages."""
    try:
        return None, load_pages([file], lenient=lenient)
    except InputError as error:
        return str(error), []


@pytest.mark.parametrize("name", ["google-2019", "reddit-2019", "wikipedia-2019"])
def test_every_real_archive_becomes_a_page(name: str) -> None:
    file = WARCS / f"{name}.warc.gz"
    if not file.is_file():
        pytest.skip("no archives (../shared/inputs/warc)")
    (found,) = load_pages([file])
    page = found.page
    assert page.resources[0].type == "document"
    named = [r for r in page.resources if r.initiator_at_bytes]
    assert len(page.resources) > 5
    assert len(named) > 1
    assert all(len(found.bodies[i]) == page.resources[i].body_bytes for i in found.bodies)
