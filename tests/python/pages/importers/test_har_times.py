"""Times of a HAR's entries: phases, processing, think times, the load event."""

from __future__ import annotations

from typing import Any

import pytest

from fastopen.common.errors import InputError
from pages.hars import ROOT, entry, kind, noted, one_page


class TestTimes:
    def test_think_time_is_the_wait_less_the_shortest_handshake_of_the_host(self) -> None:
        page = one_page(
            entry("http://a.test/", timings={"connect": 30, "wait": 100}),
            entry("http://a.test/x", 300, timings={"connect": 20, "wait": 45}),
            entry("http://a.test/y", 400, timings={"connect": -1, "wait": 21}),
        ).page
        assert [r.server_think_us for r in page.resources] == [80_000, 25_000, 1_000]

    def test_tls_is_not_part_of_the_handshake(self) -> None:
        page = one_page(
            entry("https://a.test/", time=120, timings={"connect": 60, "ssl": 40, "wait": 50})
        ).page
        assert page.resources[0].server_think_us == 30_000

    def test_firefox_counts_tls_apart_from_the_handshake(self) -> None:
        timings = {"connect": 20, "ssl": 40, "wait": 50, "receive": 10}
        page = one_page(entry("https://a.test/", time=120, timings=timings)).page
        assert page.resources[0].server_think_us == 30_000

    @pytest.mark.parametrize(("send", "think_us"), [(0, 190_000), (15, 205_000), (100, 230_000)])
    def test_an_upload_that_the_network_explains_is_no_think_time(self, send: int, think_us: int) -> None:
        # 100,000 bytes need two more round trips of 20 ms than a first window of ten segments.
        sent = {"method": "POST", "bodySize": 100_000}
        upload = entry(
            "http://a.test/up", 200, request=sent, timings={"connect": -1, "send": send, "wait": 250}
        )
        assert one_page(ROOT, upload).page.resources[1].server_think_us == think_us

    def test_think_time_is_never_negative(self) -> None:
        page = one_page(
            entry("http://a.test/", timings={"connect": 500, "wait": 50}),
            entry("http://a.test/x", 900, timings={"connect": -1, "wait": 2}),
        ).page
        assert [r.server_think_us for r in page.resources] == [48_000, 0]

    def test_processing_runs_from_the_end_of_the_initiator_and_queueing_is_no_part_of_it(self) -> None:
        late = entry("http://a.test/x", 100, time=700, timings={"blocked": 600}) | kind("image")
        image = one_page(ROOT, late).page.resources[1]
        assert (image.initiator, image.initiator_at_bytes, image.processing_us) == (0, None, 20_000)

    def test_what_starts_while_its_initiator_arrives_knows_how_much_had_come(self) -> None:
        root = entry("http://a.test/", time=170, timings={"receive": 100})  # received from 70 to 170 ms
        image = one_page(root, entry("http://a.test/x", 95) | kind("image")).page.resources[1]
        assert (image.initiator_at_bytes, image.processing_us) == (250, 0)

    def test_what_a_preflight_allows_does_not_wait_for_the_load_event(self) -> None:
        asked = entry("http://b.test/d", 200, time=200, timings={"blocked": 120})
        preflight = entry("http://b.test/d", 201, request={"method": "OPTIONS"}, response={"status": 204})
        image = entry("http://a.test/i", 160) | kind("image")
        page = one_page(ROOT, image, preflight, asked, on_load=250).page
        assert [(r.method, r.phase) for r in page.resources[2:]] == [("OPTIONS", "async"), ("GET", "async")]

    def test_a_redirect_is_not_waited_for_where_what_it_leads_to_is_not(self) -> None:
        to = {"status": 302, "headers": [{"name": "Location", "value": "http://b.test/2"}]}
        redirect = entry("http://a.test/1", 100, response=to) | kind("image")
        image = entry("http://a.test/i", 95) | kind("image")
        page = one_page(
            ROOT, image, redirect, entry("http://b.test/2", 190) | kind("image"), on_load=185
        ).page
        assert [(r.initiator, r.phase) for r in page.resources] == [
            (None, "load"),
            (0, "load"),
            (0, "async"),
            (2, "async"),
        ]

    def test_phases_follow_the_load_event(self) -> None:
        page = one_page(
            entry("http://a.test/"),
            entry("http://a.test/load", 100) | kind("image"),
            entry("http://a.test/async", 150) | kind("image"),
            entry("http://a.test/after", 201) | kind("image"),
            on_load=200,
        ).page
        assert [r.phase for r in page.resources] == ["load", "load", "async", "after"]
        assert page.load_event_processing_us == 20_000

    @pytest.mark.parametrize(
        ("how", "waits"),
        [
            ({"_resourceType": "image"}, True),
            ({"_resourceType": "xhr"}, False),
            ({"_resourceType": "Fetch"}, False),
            ({"_resourceType": "ping"}, False),
            ({"_request_type": "Manifest"}, False),
            ({"response": {"content": {"mimeType": "application/json"}, "headers": []}}, False),
            ({"request": {"headers": [{"name": "Sec-Fetch-Dest", "value": "image"}]}}, True),
            ({"request": {"headers": [{"name": "Sec-Fetch-Dest", "value": "empty"}]}}, False),
            ({"request": {"headers": [{"name": "Sec-Fetch-Dest", "value": "worker"}]}}, False),
        ],
    )
    @pytest.mark.parametrize("on_load", [300, -1])
    def test_the_load_event_waits_for_what_elements_ask_for(
        self, how: dict[str, Any], waits: bool, on_load: int
    ) -> None:
        page = one_page(ROOT, entry("http://a.test/x", 100, **how), on_load=on_load).page
        assert page.resources[1].phase == ("load" if waits else "async")

    def test_a_session_of_minutes_ends_with_what_the_page_needs(self) -> None:
        calls = [
            entry(f"http://a.test/{number}", 500 * number, _resourceType="xhr") for number in range(1, 200)
        ]
        resources = one_page(ROOT, *calls, on_load=-1).page.resources
        assert {one.phase for one in resources[1:5]} == {"async"}
        assert {one.phase for one in resources[5:]} == {"after"}

    def test_what_handlers_of_the_load_event_ask_for_comes_after_it(self) -> None:
        page = one_page(
            ROOT,
            entry("http://a.test/last", 100) | kind("image"),
            entry("http://b.test/1", 190) | kind("script"),
            entry("http://b.test/2", 195) | kind("image"),
            entry("http://b.test/quick", 196, time=20) | kind("image"),
            entry("http://b.test/xhr", 200, time=20) | kind("xhr"),
            on_load=250,
        ).page
        assert [r.phase for r in page.resources] == ["load", "load", *["after"] * 4]
        assert page.load_event_processing_us == 70_000

    def test_a_document_that_seems_to_end_after_the_load_event_is_waited_for(self) -> None:
        root = entry("http://a.test/", time=400, timings={"receive": 330})
        page = one_page(root, entry("http://a.test/x", 100) | kind("image"), on_load=380).page
        assert [r.phase for r in page.resources] == ["load", "load"]

    def test_what_ended_is_not_taken_for_a_handlers_request_where_more_speaks_against_it(self) -> None:
        page = one_page(
            ROOT,
            entry("http://a.test/streams", 90, time=400) | kind("other"),
            *(entry(f"http://a.test/{n}", 100 + n) | kind("image") for n in range(3)),
            on_load=250,
        ).page
        assert [r.phase for r in page.resources] == ["load", "async", *["load"] * 3]

    def test_the_load_event_does_not_fire_before_the_document_is_there(self) -> None:
        """A video may take minutes to arrive, although the load event waits only for its beginning."""
        video = entry("http://a.test/v.mp4", 70, timings={"receive": 40_000}) | kind("media")
        page = one_page(ROOT, video, on_load=200).page
        assert [one.phase for one in page.resources] == ["load", "async"]

    def test_without_a_load_event_everything_counts_to_the_load(self) -> None:
        page = one_page(ROOT, entry("http://a.test/x", 5000) | kind("image"), on_load=-1).page
        assert [r.phase for r in page.resources] == ["load", "load"]
        assert "onload" in noted(page)

    @pytest.mark.parametrize(
        "moment",
        [
            "2024-05-01T12:00:00.100+02:00",
            "2024-05-01T10:00:00,1Z",
            "2024-05-01T10:00:00.1000000Z",
            "2024-05-01 10:00:00.100",
            "2024-05-01T10:00:00.100+0000",
            1714557600100,
            1714557600.1,
        ],
    )
    def test_a_start_is_read_in_any_of_its_habits(self, moment: object) -> None:
        late = entry("http://a.test/x", startedDateTime=moment) | kind("image")
        assert one_page(ROOT, late).page.resources[1].processing_us == 20_000

    @pytest.mark.parametrize("moment", [None, "yesterday", "", [], float("inf")])
    def test_an_unreadable_start_is_that_of_the_entry_before(self, moment: object) -> None:
        page = one_page(ROOT, entry("http://a.test/x", startedDateTime=moment) | kind("image")).page
        assert "started" in noted(page)

    def test_a_file_without_any_readable_start_is_refused(self) -> None:
        entries = [entry(f"http://a.test/{n}", startedDateTime="5/1/2024, 10:00:00 AM") for n in range(2)]
        with pytest.raises(InputError, match="cannot read any start time, such as '5/1/2024"):
            one_page(*entries)

    def test_small_numbers_are_milliseconds_since_another_moment(self) -> None:
        root = entry("http://a.test/", startedDateTime=1000)  # arrives for 80 ms
        late = entry("http://a.test/x", startedDateTime=1100) | kind("image")
        assert one_page(root, late).page.resources[1].processing_us == 20_000

    def test_entries_may_come_in_any_order(self) -> None:
        entries = [ROOT, entry("http://a.test/1", 100), entry("http://a.test/2", 200)]
        forward, backward = (one_page(*order).page for order in (entries, entries[::-1]))
        assert forward == backward

    def test_what_started_before_the_root_is_taken_to_start_with_it(self) -> None:
        root = entry("http://a.test/", 500, _resourceType="document")
        page = one_page(entry("http://a.test/beacon", 100) | kind("ping"), root).page
        assert page.resources[0].url == "http://a.test/"
        assert page.resources[1].initiator == 0
        assert "before" in noted(page)

    def test_chrome_har_writes_when_the_queue_was_left(self) -> None:
        image = entry("http://a.test/x", 400, timings={"_queued": 300}) | kind("image")
        assert one_page(ROOT, image).page.resources[1].processing_us == 20_000

    def test_webpagetest_writes_when_the_request_was_sent(self) -> None:
        sent = {"_load_start": "100", "_ttfb_ms": 50, "_load_ms": 60}
        older = sent | {"_connect_start": "85", "_connect_end": "100", "_dns_start": "0"}
        newer = sent | {"_created": 82, "_connect_start": -1}
        for extra, expected in ((sent, 20), (older, 5), (newer, 2)):
            image = entry("http://a.test/x", 100, **extra) | kind("image")
            assert one_page(ROOT, image).page.resources[1].processing_us == expected * 1000
