"""Importing HAR files: the requests on the network, their order, sizes, times and initiators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import load_pages
from pages.hars import ROOT, at, entry, har, import_har, kind, noted, one_page


@pytest.mark.parametrize(
    "url",
    [
        "data:text/plain,x",
        "blob:http://a.test/1",
        "about:blank",
        "chrome-extension://abc/x.js",
        "ws://a.test/",
    ],
)
def test_what_needs_no_server_is_left_out_and_counted(url: str) -> None:
    page = one_page(ROOT, entry(url, 100)).page
    assert len(page.resources) == 1
    assert noted(page).keys() & {"scheme", "websocket"}


@pytest.mark.parametrize("status", [0, 101, 100, -1, 999, None, "x"])
def test_what_got_no_final_answer_is_left_out_and_counted(status: object) -> None:
    page = one_page(ROOT, entry("http://a.test/x", 100, response={"status": status})).page
    assert len(page.resources) == 1
    assert noted(page).keys() & {"failed", "websocket"}


def test_urls_are_brought_into_the_form_of_a_page() -> None:
    page = one_page(
        entry("HTTP://User:pw@A.Test:80/x y?q=<ä>#top"),
        entry("http://[::1]:8080/", 100),
        entry("http://10.0.0.1", 200),
    ).page
    urls = [r.url for r in page.resources]
    assert urls == ["http://a.test/x%20y?q=%3C%C3%A4%3E", "http://[::1]:8080/", "http://10.0.0.1/"]


def test_a_browser_that_wrote_its_file_itself_is_named_once() -> None:
    firefox = {"name": "Firefox", "version": "148.0"}
    (page,) = import_har(har(ROOT, creator=firefox, browser=firefox), "my.har")
    assert page.page.source.startswith("HAR by Firefox 148.0, recorded ")


def test_a_failed_request_may_have_any_url() -> None:
    failed = entry("http://no.such.1/", 100, response={"status": 0})
    assert len(one_page(ROOT, failed).page.resources) == 1


def test_what_a_cache_answered_is_left_out() -> None:
    zero = {"connect": 0, "send": 0, "wait": 0, "receive": 0}
    silent = {"connect": -1, "send": -1, "wait": -1}
    page = one_page(
        ROOT,
        entry("http://a.test/1", 100, _fromCache="memory"),
        entry("http://a.test/2", 100, response={"_transferSize": 0, "bodySize": 0}),
        entry(
            "http://a.test/3",
            100,
            response={"bodySize": -17},
            timings=silent,
        ),
        entry("http://a.test/5", 100, _fetchType="Disk Cache"),
        entry("http://a.test/6", 100, response={"bodySize": -1}, timings=zero, time=0),
        entry("http://a.test/4", 100, response={"status": 304, "bodySize": 0}),
    ).page
    assert [r.url for r in page.resources[1:]] == ["http://a.test/4"]
    assert (noted(page)["cached"], noted(page)["not_modified"]) == (5, 1)


def test_a_cached_root_document_stays_since_there_is_no_page_without_it() -> None:
    root = entry("http://a.test/", response={"_transferSize": 0, "bodySize": 0}) | {"_fromCache": "disk"}
    page = one_page(root, entry("http://a.test/1", 100)).page
    assert page.resources[0].url == "http://a.test/"
    assert "cached_root" in noted(page)


def redirect(url: str, to: str, start: float, **changes: Any) -> dict[str, Any]:
    """Return an entry with a redirect that had a wait of 1.5 ms and opened no connection."""
    headers = [{"name": "Location", "value": to}, *changes.pop("headers", [])]
    response = {"status": 307, "headers": headers, "bodySize": 0} | changes.pop("response", {})
    timings = {"connect": -1, "wait": 1.5, "receive": 0}
    return entry(url, start, time=2, response=response, timings=timings, **changes)


HSTS = [{"name": "Non-Authoritative-Reason", "value": "HSTS"}]


@pytest.mark.parametrize(
    ("changes", "internal", "cached"),
    [
        ({"headers": HSTS}, 2, 0),
        ({"response": {"statusText": "Internal Redirect"}}, 2, 0),
        ({"_fromCache": "disk"}, 0, 2),
    ],
)
def test_the_target_of_a_redirect_without_the_network_takes_its_place(
    changes: dict[str, Any], internal: int, cached: int
) -> None:
    by = {"_initiator": {"type": "parser", "url": "https://a.test/"}}
    imported = one_page(
        redirect("http://a.test/", "https://a.test/", 0, **changes) | kind("document"),
        entry("https://a.test/", 3) | kind("document"),
        redirect("http://b.test/i.png", "https://b.test/i.png", 100, **changes, **by) | kind("image"),
        entry("https://b.test/i.png", 103) | kind("image"),
    )
    page = imported.page
    found = [(one.url, one.initiator) for one in page.resources]
    assert found == [("https://a.test/", None), ("https://b.test/i.png", 0)]
    assert page.initiators == "recorded"
    assert (noted(page).get("internal", 0), noted(page).get("cached", 0)) == (internal, cached)
    assert imported.recording is not None
    assert imported.recording.round_trip_ms["b.test"] == 10


def test_a_redirect_by_a_server_leads_past_the_browsers_own_redirect() -> None:
    moved = entry("http://b.test/", response={"status": 301, "redirectURL": "http://a.test/"})
    own = redirect("http://a.test/", "https://a.test/", 81, headers=HSTS)
    page = one_page(moved, own, entry("https://a.test/", 84)).page
    assert [(one.url, one.initiator, one.redirect_to) for one in page.resources] == [
        ("http://b.test/", None, "https://a.test/"),
        ("https://a.test/", 0, None),
    ]


def test_a_cached_root_document_shows_no_round_trip() -> None:
    root = entry(
        "http://a.test/", time=2, timings={"connect": -1, "wait": 2, "receive": 0}, _fromCache="disk"
    )
    recording = one_page(root, entry("http://a.test/1", 100, timings={"connect": -1})).recording
    assert recording is not None
    assert recording.round_trip_ms == {"a.test": 50}


class TestInitiators:
    def initiators(self, *entries: Any) -> list[int | None]:
        return [r.initiator for r in one_page(*entries).page.resources]

    def test_chrome_names_the_document_for_what_its_parser_found(self) -> None:
        by = {"type": "parser", "url": "http://a.test/#top", "lineNumber": 3}
        assert self.initiators(ROOT, entry("http://a.test/x", 100, _initiator=by)) == [None, 0]

    def test_of_a_call_stack_the_script_that_arrived_last_was_waited_for(self) -> None:
        def frames(*urls: str) -> list[dict[str, str]]:
            return [{"functionName": "f", "url": url} for url in urls]

        stack = {
            "callFrames": frames("http://a.test/lib.js"),
            "parent": {"callFrames": frames("http://a.test/app.js", "http://a.test/")},
        }
        called = entry("http://a.test/data", 400, _initiator={"type": "script", "stack": stack})
        scripts = [entry("http://a.test/lib.js", 100), entry("http://a.test/app.js", 110)]
        assert self.initiators(ROOT, *scripts, called) == [None, 0, 0, 2]
        told = json.dumps({"type": "script", "stack": stack})
        as_text = entry("http://a.test/data", 400, _initiator_detail=told)
        assert self.initiators(ROOT, *scripts, as_text) == [None, 0, 0, 2]

    def test_a_recorded_initiator_that_cannot_be_is_not_taken(self) -> None:
        itself = entry("http://a.test/x", 100, _initiator={"type": "script", "url": "http://a.test/x"})
        unknown = entry("http://a.test/y", 100, _initiator={"type": "script", "url": "http://b.test/"})
        page = one_page(ROOT, itself, unknown, entry("http://a.test/z", 100, _initiator=7)).page
        assert page.initiators == "inferred"
        assert [r.initiator for r in page.resources] == [None, 0, 0, 0]

    def test_a_circle_of_recorded_initiators_is_cut(self) -> None:
        one = entry("http://a.test/1", 100, _initiator="http://a.test/2")
        two = entry("http://a.test/2", 100, _initiator="http://a.test/1")
        assert self.initiators(ROOT, one, two) == [None, 0, 1]

    def test_redirects_are_followed_and_lead_to_what_they_name(self) -> None:
        moved = entry("http://a.test/", response={"status": 301, "redirectURL": "https://b.test/x#y"})
        page = one_page(moved, entry("https://b.test/x", 85), entry("https://b.test/i", 190)).page
        assert [r.initiator for r in page.resources] == [None, 0, 1]
        assert page.resources[0].redirect_to == "https://b.test/x"
        assert page.url == "http://a.test/"

    def test_a_relative_location_header_is_resolved(self) -> None:
        location = [{"name": "Location", "value": "/home?x"}]
        moved = entry("http://a.test/", response={"status": 302, "headers": location})
        assert one_page(moved).page.resources[0].redirect_to == "http://a.test/home?x"

    def test_a_page_that_redirects_to_itself_ends(self) -> None:
        moved = {"status": 302, "redirectURL": "http://a.test/"}
        found = self.initiators(
            entry("http://a.test/", response=moved),
            entry("http://a.test/", 90, response=moved),
            entry("http://a.test/", 180),
        )
        assert found == [None, 0, 1]

    def test_a_request_waits_for_its_preflight(self) -> None:
        script = entry("http://a.test/s.js", 100) | kind("script")
        by = {"type": "script", "url": "http://a.test/s.js"}
        asked = entry("http://b.test/d", 200, time=200, _initiator=by, timings={"blocked": 120})
        preflight = entry("http://b.test/d", 201, request={"method": "OPTIONS"}, response={"status": 204})
        page = one_page(ROOT, script, asked, preflight).page
        assert [(r.method, r.initiator) for r in page.resources] == [
            ("GET", None), ("GET", 0), ("OPTIONS", 1), ("GET", 2),
        ]  # fmt: skip

    def test_a_module_asks_for_what_names_it_as_referer(self) -> None:
        module = entry("http://a.test/m.js", 100) | kind("script")
        refers = [{"name": "Referer", "value": "http://a.test/m.js"}]
        imported = entry("http://b.test/n.js", 300, request={"headers": refers}) | kind("script")
        other = entry("http://a.test/o.js", 120) | kind("script")
        assert self.initiators(ROOT, module, other, imported) == [None, 0, 0, 1]

    def test_fonts_come_from_the_stylesheet_that_names_them(self) -> None:
        style = entry("http://a.test/s.css", 100) | kind("stylesheet")
        refers = [{"name": "Referer", "value": "http://a.test/s.css"}]
        image = entry("http://b.test/i.png", 300, request={"headers": refers}) | kind("image")
        found = self.initiators(ROOT, style, entry("http://b.test/f.woff", 200) | kind("font"), image)
        assert found == [None, 0, 1, 1]

    def test_what_a_frame_asks_for_comes_from_the_frame(self) -> None:
        frame = entry("http://b.test/frame?x", 100) | kind("document")
        refers = [
            {"name": "Referer", "value": "http://b.test/"}
        ]  # only the origin, with a strict-origin policy
        inside = entry("http://c.test/i.png", 190, request={"headers": refers}) | kind("image")
        assert self.initiators(ROOT, frame, inside) == [None, 0, 1]

    def test_what_comes_late_comes_from_the_script_that_ended_last(self) -> None:
        script = entry("http://a.test/s.js", 100) | kind("script")
        found = self.initiators(ROOT, script, entry("http://a.test/late", 300) | kind("image"))
        assert found == [None, 0, 1]

    def test_a_parser_that_asks_late_was_held_back_by_what_came_last(self) -> None:
        by = {"_initiator": {"type": "parser", "url": "http://a.test/"}}
        script = entry("http://a.test/s.js", 85, **by) | kind(
            "script"
        )  # ends at 165 ms, the document at 80 ms
        early = entry("http://a.test/early", 180, **by) | kind("image")
        late = entry("http://a.test/late", 190, **by) | kind("image")
        page = one_page(ROOT, script, early, late).page
        assert [(r.initiator, r.processing_us) for r in page.resources[2:]] == [(0, 100_000), (1, 25_000)]
        assert "held" in noted(page)

    def test_how_initiators_are_known_is_told_with_counts(self) -> None:
        recorded = entry("http://a.test/x", 100, _initiator="http://a.test/")
        page = one_page(ROOT, recorded, entry("http://a.test/y", 100)).page
        assert page.initiators == "mixed"
        assert (noted(page)["recorded"], noted(page)["inferred"]) == (1, 1)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("b.test.", ["b.test"]),
        ("_b_.test", ["_b_.test"]),
        ("r3---sn-b.test", ["r3---sn-b.test"]),
        ("x" * 63 + ".test", ["x" * 63 + ".test"]),
        ("x" * 64 + ".test", []),
        ("-b.test", []),
        ("b-.test", []),
        ("b..test", []),
        ("b.test..", []),
    ],
)
def test_a_host_that_dns_and_tls_refuse_is_left_out(scheme: str, host: str, found: list[str]) -> None:
    page = one_page(ROOT, entry(f"{scheme}://{host}/x", 100)).page
    assert [one.host for one in page.resources[1:]] == found
    assert noted(page).get("no_host", 0) == (not found)


class TestPages:
    def test_each_page_of_a_file_becomes_one(self) -> None:
        pages = [{"id": name, "startedDateTime": at(0)} for name in ("one", "empty", "two")]
        log = {"pages": pages, "entries": [ROOT | {"pageref": "two"}, ROOT | {"pageref": "one"}]}
        assert [p.page.name for p in import_har({"log": log}, "x/my.har.gz")] == ["my#1", "my#2"]

    @pytest.mark.parametrize("pages", [None, [], "none", [7]])
    def test_a_file_without_pages_has_one_for_each_pageref_or_one(self, pages: object) -> None:
        entries = [ROOT, entry("http://a.test/x", 100)]
        assert len(import_har({"log": {"pages": pages, "entries": entries}}, "my.har")) == 1
        two = [ROOT | {"pageref": "1"}, ROOT | {"pageref": "2"}]
        assert len(import_har({"log": {"pages": pages, "entries": two}}, "my.har")) == 2

    def test_entries_without_pageref_belong_to_the_page_loading_then(self) -> None:
        pages = [{"id": "1", "startedDateTime": at(0)}, {"id": "2", "startedDateTime": at(1000)}]
        entries = [ROOT | {"pageref": "1"}, entry("http://b.test/", 1000) | {"pageref": "2"}]
        entries += [entry("http://a.test/x", 500), entry("http://b.test/x", 1500) | {"pageref": "?"}]
        first, second = import_har({"log": {"pages": pages, "entries": entries}}, "my.har")
        assert [r.host for r in first.page.resources] == ["a.test", "a.test"]
        assert [r.host for r in second.page.resources] == ["b.test", "b.test"]

    def test_of_several_pages_with_one_id_an_entry_belongs_to_the_one_loading_then(self) -> None:
        pages = [{"id": "p", "startedDateTime": at(ms), "title": ""} for ms in (0, 3000)]
        entries = [entry(f"http://{host}.test/", ms) for host, ms in (("a", 0), ("b", 3000))]
        entries.append(entry("http://a.test/x", 500))
        log = {"pages": pages, "entries": [one | {"pageref": "p"} for one in entries]}
        first, second = import_har({"log": log}, "my.har")
        assert [r.url for r in first.page.resources] == ["http://a.test/", "http://a.test/x"]
        assert [r.url for r in second.page.resources] == ["http://b.test/"]

    def test_an_entry_with_a_transfer_is_of_no_cache(self) -> None:
        zero = {"connect": 0, "send": 0, "wait": 0, "receive": 0}
        sizes = {"_transferSize": 700, "bodySize": -1}
        found = one_page(ROOT, entry("http://a.test/x", 100, response=sizes, timings=zero, time=0))
        assert len(found.page.resources) == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ([], "not a HAR"),
            ({"log": []}, "not a HAR"),
            ({"log": {}}, "log.entries is not a list"),
            ({"log": {"entries": []}}, "the HAR lists no requests"),
            (har(ROOT, 7), "my.har: log.entries[1]: is not an object"),
            (har(ROOT, {"x": 1}), "my.har: log.entries[1].request: missing"),
            (har(ROOT, ROOT | {"request": {}}), "my.har: log.entries[1].request.url: missing"),
            (har(ROOT, ROOT | {"request": {"url": 5}}), "log.entries[1].request.url: is not a string"),
            (
                har(entry("http://[x/")),
                "log.entries[0].request.url: 'http://[x/' is not a valid URL",
            ),
            (har(entry("/just/a/path")), "is not a valid URL"),
            (har(ROOT | {"response": None}), "my.har: log.entries[0].response: missing"),
        ],
    )
    def test_a_broken_file_is_named_with_the_broken_entry(self, data: object, words: str) -> None:
        with pytest.raises(InputError) as caught:
            import_har(data, "my.har")
        assert words in str(caught.value)

    def test_leniently_read_broken_entries_are_left_out(self) -> None:
        (page,) = import_har(har(ROOT, 7, {"request": None}), "my.har", lenient=True)
        assert len(page.page.resources) == 1
        assert noted(page.page)["broken"] == 2

    def test_a_torn_file_is_named_with_line_and_column(self, tmp_path: Path) -> None:
        file = tmp_path / "torn.har"
        file.write_text(json.dumps(har(ROOT), indent=1)[:100])
        with pytest.raises(InputError, match=r"torn\.har: line \d+ column \d+: malformed JSON"):
            load_pages([file])


def test_a_recorded_text_that_names_a_resource_is_its_initiator_where_none_was_recorded() -> None:
    text = "<html>" + "x" * 400 + '<img src="http://b.test/pictures/one.png">' + "x" * 400
    content = {"size": len(text), "mimeType": "text/html", "text": text}
    root = entry("http://a.test/", response={"content": content, "bodySize": 400}, timings={"receive": 500})
    script = "load('/some/numbers.json')"
    code = {"size": len(script), "mimeType": "text/javascript", "text": script}
    page = one_page(
        root,
        entry("http://a.test/app.js", 100, response={"content": code}, **kind("script")),
        entry("http://a.test/other.js", 200, **kind("script")),
        entry("http://b.test/pictures/one.png", 300, **kind("image")),
        entry("http://a.test/some/numbers.json", 700, **kind("xhr")),
    ).page
    image, numbers = page.resources[3], page.resources[4]
    assert (image.initiator, numbers.initiator) == (0, 1)
    # The name is in the middle of the text, so the reference is after half of the bytes on the wire,
    # regardless of the time of the request.
    assert image.initiator_at_bytes == pytest.approx(200, abs=20)
    assert noted(page)["named"] == 2
    assert page.initiators == "inferred"


def test_a_recorded_initiator_goes_before_a_name_in_a_text() -> None:
    text = 'load("http://b.test/pictures/one.png")' * 3
    content = {"size": len(text), "mimeType": "text/javascript", "text": text}
    page = one_page(
        ROOT,
        entry("http://a.test/app.js", 20, response={"content": content}, **kind("script")),
        entry("http://b.test/pictures/one.png", 150, _initiator={"type": "parser", "url": "http://a.test/"}),
    ).page
    assert page.resources[2].initiator == 0


class TestRoots:
    """The choice of the root entry if other requests of the browser precede it."""

    @staticmethod
    def sent(**fields: str) -> dict[str, Any]:
        return {"headers": [{"name": name.replace("_", "-"), "value": v} for name, v in fields.items()]}

    def test_a_certificate_check_is_no_part_of_the_page_whatever_it_accepts(self) -> None:
        asked = self.sent(Accept="text/html,*/*", Content_Type="application/ocsp-request") | {
            "method": "POST"
        }
        check = entry("http://ocsp.test/", 0, request=asked)
        root = entry("http://a.test/", 100, request=self.sent(Accept="text/html"))
        page = one_page(check, root, entry("http://a.test/i.png", 200)).page
        assert [one.url for one in page.resources] == ["http://a.test/", "http://a.test/i.png"]
        assert "certificate" in noted(page)

    def test_the_title_may_be_the_url_before_or_after_redirects(self) -> None:
        check = entry("http://detect.test/", 0) | kind("document")
        moved = entry("http://a.test/", 10, response={"status": 301, "redirectURL": "http://b.test/"})
        for title in ("http://a.test/", "http://b.test/"):
            data = har(check, moved, entry("http://b.test/", 95) | kind("document"))
            data["log"]["pages"][0]["title"] = title
            assert import_har(data, "my.har")[0].page.url == "http://a.test/"

    def test_a_head_is_neither_the_root_nor_an_initiator(self) -> None:
        to = {"status": 301, "redirectURL": "http://b.test/", "bodySize": 0}
        by = {"_initiator": {"type": "parser", "url": "http://b.test/"}}
        page = one_page(
            entry("http://a.test/", 0, request={"method": "HEAD"}, response=to),
            entry("http://b.test/", 85, request={"method": "HEAD"}),
            entry("http://a.test/", 200, response=to),
            entry("http://b.test/", 285),
            entry("http://b.test/x", 370, **by) | kind("image"),
        ).page
        chain = [page.resources[-1]]
        while chain[-1].initiator is not None:
            chain.append(page.resources[chain[-1].initiator])
        assert [one.method for one in chain] == ["GET"] * 3
        assert [one.url for one in chain] == ["http://b.test/x", "http://b.test/", "http://a.test/"]

    def test_a_script_that_comes_first_is_not_the_root(self) -> None:
        script = entry("http://b.test/x.js", 0) | kind("script")
        root = entry("http://a.test/", 100) | kind("document")
        page = one_page(script, root, entry("http://a.test/i.png", 200) | kind("image")).page
        assert page.url == "http://a.test/"
        assert "before" in noted(page)

    def test_a_document_that_sends_the_browser_on_to_the_page_is_the_root(self) -> None:
        challenge = entry("http://a.test/", 0, request=self.sent(Sec_Fetch_Dest="document"))
        script = entry("http://waf.test/x.js", 50) | kind("script")
        sent = self.sent(Sec_Fetch_Dest="document", Referer="http://a.test/")
        page_itself = entry("http://a.test/", 500, request=sent) | {"_is_base_page": True}
        found = one_page(challenge | kind("document"), script, page_itself | kind("document"))
        assert [one.url for one in found.page.resources] == [
            "http://a.test/",
            "http://waf.test/x.js",
            "http://a.test/",
        ]
        assert "before" not in noted(found.page)

    def test_of_two_documents_the_one_that_others_refer_to_is_the_root(self) -> None:
        service = entry("http://service.test/", 0, request=self.sent(Accept="text/html"))
        root = entry("http://a.test/", 100, request=self.sent(Accept="text/html"))
        parts = [
            entry(f"http://b.test/{n}.png", 200 + n, request=self.sent(Referer="http://a.test/"))
            for n in range(2)
        ]
        assert one_page(service, root, *parts).page.url == "http://a.test/"

    def test_an_untyped_document_is_known_by_those_that_refer_to_it(self) -> None:
        script = entry("http://b.test/x.js", 0) | kind("script")
        root = entry("http://a.test/start", 100)
        parts = [
            entry(f"http://b.test/{n}.png", 200 + n, request=self.sent(Referer="http://a.test/start"))
            for n in range(2)
        ]
        assert one_page(script, root, *parts).page.url == "http://a.test/start"

    def test_what_the_browser_marked_as_a_navigation_is_the_root(self) -> None:
        other = entry("http://c.test/", 0) | kind("document")
        root = entry("http://a.test/", 100, request=self.sent(Sec_Fetch_Dest="document"))
        assert one_page(other, root).page.url == "http://a.test/"


def test_pages_of_several_navigations_count_what_was_found_of_their_own_requests() -> None:
    first, second = entry("http://a.test/", 0), entry("http://b.test/", 8_000, timings={"connect": -1})
    pages = import_har(har(first, second, on_load=200), "my.har")
    known, unknown = (noted(one.page) for one in pages)
    assert known["plt"] == 200
    assert "onload" in unknown
    assert "plt" not in unknown
    assert "rtt" not in known
