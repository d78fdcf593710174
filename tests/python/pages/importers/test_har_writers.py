"""Peculiarities of the programs that write HARs, and files that contain several page loads or none."""

from __future__ import annotations

from typing import Any

import pytest

from fastopen.common.errors import InputError
from fastopen.pages import ImportedPage
from fastopen.pages.recording import Recording
from pages.hars import at, entry, har, import_har, noted, one_page

ROOT = entry("http://a.test/")
SCRIPT = {"content": {"size": 1000, "mimeType": "text/javascript"}}
NOTHING = {"blocked": 0, "dns": 0, "connect": 0, "ssl": 0, "send": 0, "wait": 0, "receive": 0}


def by(creator: str, *entries: Any, on_load: float | None = None) -> ImportedPage:
    (page,) = import_har(har(*entries, on_load=on_load, creator={"name": creator, "version": "1"}), "my.har")
    return page


def recorded(imported: ImportedPage) -> Recording:
    assert imported.recording is not None
    return imported.recording


def test_firefox_writes_the_stored_size_of_what_its_cache_answered() -> None:
    cached = entry(
        "http://a.test/1.js",
        50,
        time=0,
        timings=NOTHING,
        request={"headersSize": 0},
        response={"headersSize": 0, "bodySize": 120_000, "content": {"size": 0}},
    )
    assert len(one_page(ROOT, cached).page.resources) == 1
    served = cached | {"serverIPAddress": "192.0.2.1"}
    assert len(one_page(ROOT, served).page.resources) == 2


def test_playwright_counts_tls_within_connect_and_again_in_the_time() -> None:
    timings = {"connect": 190, "ssl": 100, "wait": 110, "receive": 2}
    root = entry("https://a.test/", time=402, timings=timings)
    image = entry(
        "https://a.test/1.png",
        310,
        timings={"connect": 0},
        response={"content": {"size": 9, "mimeType": "image/png"}},
    )
    playwright, other = by("Playwright", root, image), by("Firefox", root, image)
    assert playwright.recording is not None
    assert other.recording is not None
    assert (playwright.recording.round_trip_ms["a.test"], other.recording.round_trip_ms["a.test"]) == (50, 50)
    ends = [one.recording.exchanges[0].end for one in (playwright, other) if one.recording is not None]
    assert ends == [302, 402]


@pytest.mark.parametrize(
    ("mark", "note"),
    [
        ({"_apiRequest": True}, "api"),
        ({"_wasFulfilled": True}, "mocked"),
        ({"_fetchType": "Service Worker"}, "mocked"),
        ({"_fetchType": "Inspector Override"}, "mocked"),
        ({"_fetchType": "Disk Cache"}, "cached"),
    ],
)
def test_requests_of_scripts_and_local_answers_are_left_out(mark: dict[str, Any], note: str) -> None:
    """Playwright's HARs contain a test script's own requests, and responses that it makes (route.fulfill)."""
    page = one_page(ROOT, entry("http://a.test/1.js", 50) | mark).page
    assert len(page.resources) == 1
    assert noted(page)[note] == 1


def test_safari_counts_the_load_event_from_when_its_inspector_began_to_record() -> None:
    late = by("WebKit Web Inspector", ROOT, on_load=15_799)
    assert (late.recorded_plt_us, late.page.load_event_processing_us) == (None, 0)
    fitting = by("WebKit Web Inspector", ROOT, on_load=120)
    assert fitting.recorded_plt_us == 120_000


def test_safari_counts_the_queue_again_as_sending() -> None:
    """On existing connections, Safari's `blocked` and `send` are both the time until the request was sent."""
    timings = {"blocked": 200, "connect": -1, "send": 200, "wait": 50, "receive": 10}
    image = entry(
        "http://a.test/1.png",
        100,
        time=260,
        timings=timings,
        response={"content": {"size": 9, "mimeType": "image/png"}},
    )
    recording = by("WebKit Web Inspector", ROOT, image, on_load=370).recording
    assert recording is not None
    times = recording.exchanges[1]
    assert (times.sent, times.first_byte, times.end) == (300, 350, 360)


@pytest.mark.parametrize(("status", "body_bytes"), [(304, 0), (200, 1)])
def test_what_a_response_without_a_body_took_to_receive_is_the_browsers(status: int, body_bytes: int) -> None:
    """A body of zero bytes or one byte takes no time to arrive, so the browser spent the `receive` time."""
    empty = entry(
        "http://a.test/1.js",
        100,
        time=150,
        timings={"connect": 0, "receive": 100},
        response={
            "status": status,
            "bodySize": body_bytes,
            "content": {"size": 9, "mimeType": "text/javascript"},
        },
    )
    page = one_page(ROOT, empty, on_load=300).page
    assert page.load_event_processing_us == 150_000


@pytest.mark.parametrize(("on_load", "known"), [(20, False), (120, True), (40_000, False)])
def test_a_load_event_that_contradicts_the_requests_is_not_compared(on_load: float, known: bool) -> None:
    assert (one_page(ROOT, on_load=on_load).recorded_plt_us is not None) == known


def test_a_load_event_before_the_first_request_is_another_one() -> None:
    imported = one_page(entry("http://a.test/", 5_000), on_load=100)
    assert imported.recorded_plt_us is None
    assert "onload_early" in noted(imported.page)


def test_a_document_that_came_before_its_page_starts_with_it() -> None:
    ahead = entry("http://a.test/", time=5, timings={"connect": 0, "wait": 4, "receive": 1})
    ahead["startedDateTime"] = "2024-05-01T09:59:58.910Z"
    assert one_page(ahead, on_load=120).recorded_plt_us == 120_000


def test_a_document_some_milliseconds_before_its_page_belongs_to_it() -> None:
    pages = [
        {"id": f"p{n}", "title": "", "startedDateTime": at(4000 * n), "pageTimings": {}} for n in range(2)
    ]
    entries = [entry(f"http://a.test/{n}", max(0, 4000 * n - 3), pageref=f"undeclared{n}") for n in range(2)]
    found = import_har({"log": {"version": "1.2", "pages": pages, "entries": entries}}, "my.har")
    assert [one.page.url for one in found] == ["http://a.test/0", "http://a.test/1"]


def test_navigations_in_one_page_are_pages_and_frames_are_not() -> None:
    image = {"content": {"size": 9, "mimeType": "image/png"}}
    entries = [
        ROOT,
        entry("http://a.test/1.png", 100, response=image),
        entry("http://ads.test/frame", 500),
        entry("http://a.test/next", 9_000),
        entry("http://a.test/2.png", 9_100, response=image),
    ]
    found = import_har(har(*entries, on_load=9_300), "my.har")
    assert [[one.url for one in each.page.resources] for each in found] == [
        ["http://a.test/", "http://a.test/1.png", "http://ads.test/frame"],
        ["http://a.test/next", "http://a.test/2.png"],
    ]
    assert [each.recorded_plt_us for each in found] == [None, 300_000]
    for mark in (
        {"_resourceType": "subdocument"},
        {"_initiator": {"type": "script"}},
        {"_initiator": "http://a.test/", "_initiator_type": "script"},
    ):
        assert len(import_har(har(*entries[:3], entries[3] | mark), "my.har")) == 1


@pytest.mark.parametrize("start", [100, 9_000])
def test_a_document_fetched_ahead_is_no_navigation_and_delays_no_load_event(start: int) -> None:
    headers = [
        {"name": "Sec-Purpose", "value": "prefetch;prerender"},
        {"name": "Sec-Fetch-Dest", "value": "document"},
    ]
    ahead = entry("http://a.test/next", start, request={"headers": headers}, _resourceType="document")
    _, resource = one_page(ROOT, ahead, on_load=200).page.resources
    assert (resource.type, resource.phase) == ("other", "async" if start < 200 else "after")


def test_an_upgrade_to_https_that_failed_is_not_the_root() -> None:
    """Chrome tries https first. If that fails, it requests the document over http again."""
    to = [
        {"name": "Location", "value": "https://a.test/"},
        {"name": "Non-Authoritative-Reason", "value": "HttpsUpgrades"},
    ]
    upgrade = entry("http://a.test/", response={"status": 307, "headers": to}) | {
        "time": 0,
        "timings": NOTHING,
    }
    failed = entry("https://a.test/", 1, response={"status": 0})
    page = one_page(upgrade, failed, entry("http://a.test/", 300), on_load=500).page
    assert [one.status for one in page.resources] == [200]
    assert (noted(page)["internal"], "cached_root" in noted(page)) == (1, False)


def test_a_file_without_a_document_is_refused_or_noted() -> None:
    call = entry("http://api.test/1", response={"content": {"size": 9, "mimeType": "application/json"}})
    with pytest.raises(InputError, match="has no document"):
        import_har(har(call), "my.har")
    (lenient,) = import_har(har(call), "my.har", lenient=True)
    assert "no_document" in noted(lenient.page)


def test_a_file_of_which_nothing_crossed_the_network_has_its_reasons() -> None:
    failed, socket = entry("http://a.test/", response={"status": 0}), entry("wss://a.test/")
    with pytest.raises(InputError) as raised:
        import_har(har(failed, socket), "my.har")
    assert "1 failed or got no final response, 1 opened a WebSocket" in str(raised.value)
    assert "empty cache" not in str(raised.value)
    with pytest.raises(InputError, match="loaded again: 1 needed no server, 1 could not be read; record"):
        import_har(har(entry("data:,x"), {**failed, "response": None}), "my.har", lenient=True)
    with pytest.raises(InputError, match="no entry has a start time or timings"):
        import_har(har({"request": ROOT["request"], "response": ROOT["response"]}), "my.har")


def test_event_streams_stay_open_and_are_left_out() -> None:
    stream = entry(
        "http://a.test/events",
        90,
        time=30_000,
        response={"content": {"size": 9, "mimeType": "text/event-stream; charset=utf-8"}},
    )
    assert len(one_page(ROOT, stream).page.resources) == 1


def test_a_document_that_its_server_sends_over_seconds_is_sent_so() -> None:
    root = entry("http://a.test/", time=4180, timings={"wait": 150, "receive": 4000})
    sheet = entry("http://a.test/a.css", 200, time=40, timings={"connect": 0, "wait": 35, "receive": 5})
    page = one_page(root, sheet, on_load=4250).page
    assert [one.server_send_us for one in page.resources] == [4_000_000, 0]


def test_waits_of_answers_that_share_a_filled_connection_are_no_thinking() -> None:
    version = {"httpVersion": "HTTP/2"}
    root = entry(
        "https://a.test/", time=560, timings={"connect": 300, "ssl": 150, "wait": 160}, response=version
    )
    images = [
        entry(
            f"https://a.test/{n}.png",
            600,
            time=150 + 50 * n,
            timings={"connect": 0, "wait": 100 + 50 * n, "receive": 50},
            response={**version, "bodySize": 10_000, "content": {"size": 10_000, "mimeType": "image/png"}},
        )
        for n in range(40)
    ]
    page = one_page(root, *images).page
    assert max(one.server_think_us for one in page.resources) <= 60_000


@pytest.mark.parametrize(("connect", "ssl"), [(40, 40), (0, 40), (40, 0), (40, 38)])
@pytest.mark.parametrize("wait", [60, 3])
def test_a_quic_handshake_includes_tls(connect: float, ssl: float, wait: float) -> None:
    """Chrome, Safari and WebPageTest write the same round trip into `connect` and `ssl`. After 0-RTT,
    Chrome's `wait` begins at the end of the handshake, so that it lacks a round trip."""
    http = {"httpVersion": "h3"}
    timings = {"connect": connect, "ssl": ssl, "wait": wait}
    root = entry("https://a.test/", time=max(connect, ssl) + wait + 10, timings=timings, response=http)
    later = entry("https://a.test/1.js", 150, timings={"connect": -1}, response={**SCRIPT, **http})
    imported = one_page(root, later, on_load=300)
    recording = recorded(imported)
    assert recording.round_trip_ms == {"a.test": 40}
    assert [(one.tcp, one.tls) for one in recording.exchanges] == [(40, 0), (0, 0)]
    assert [one.server_think_us for one in imported.page.resources] == [max(0, wait - 40) * 1000, 10_000]


def test_a_slow_quic_handshake_is_not_the_round_trip() -> None:
    http = {"httpVersion": "h3"}
    root = entry("https://a.test/", timings={"connect": 80, "ssl": 80, "wait": 40}, response=http)
    assert recorded(one_page(root)).round_trip_ms == {"a.test": 40}


@pytest.mark.parametrize("creator", ["mitmproxy", "mitmproxy har_dump", "mitmproxy exporthar"])
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_mitmproxy_connects_before_an_https_entry_starts(creator: str, scheme: str) -> None:
    """It opens the connection to an http server while the request waits."""
    tls = 55 if scheme == "https" else -1
    opened = 50 if scheme == "http" else 0
    timings = {"blocked": -1, "connect": 50, "ssl": tls, "send": 1, "wait": 80 + opened, "receive": 10}
    root = entry(f"{scheme}://a.test/", 200, time=sum(x for x in timings.values() if x > 0), timings=timings)
    later = entry(f"{scheme}://a.test/1.js", 350, timings={"connect": -1}, response=SCRIPT)
    imported = by(creator, root, later)
    first, second = recorded(imported).exchanges
    began = 95 if scheme == "https" else 200  # ms
    ended = 291 if scheme == "https" else 341
    assert (began + first.end, first.tcp, first.tls) == (ended, 50, max(tls, 0))
    assert (first.first_byte - first.sent, began + second.asked) == (80, 350)
    assert imported.page.resources[0].server_think_us == 30_000


@pytest.mark.parametrize(
    ("started", "asked", "ended", "on_load", "note"),
    [
        ("2024-05-01T12:00:00.000", [0, 100], [80, 180], 300, "page_start"),  # local time without its zone
        ("2024-05-01T10:00:01.500Z", [0, 1600], [80, 180], 300, "ahead"),  # prefetched
        ("2024-05-01T10:00:01.500Z", [0, 100, 1700], [80, 180, 1780], 1900, None),  # prerendered
    ],
)
def test_pages_may_start_after_their_requests(
    started: str, asked: list[float], ended: list[float], on_load: float, note: str | None
) -> None:
    entries = [ROOT, *(entry(f"http://a.test/{start}.js", start, response=SCRIPT) for start in asked[1:])]
    data = har(*entries, on_load=300 if note else 400)
    data["log"]["pages"][0]["startedDateTime"] = started
    (imported,) = import_har(data, "my.har")
    assert [one.end for one in recorded(imported).exchanges] == ended
    assert imported.recorded_plt_us == on_load * 1000
    assert noted(imported.page).keys() & {"ahead", "page_start"} == ({note} if note else set())


@pytest.mark.parametrize(
    ("named", "version"),
    [
        *((one, "3") for one in ("h3", "h3-29", "HTTP/3", "3", "hq-29", "http/2.0+quic/43", "quic")),
        *((one, "2") for one in ("h2", "h2c", "HTTP/2.0", "HTTP2", "HTTP 2", "2.0", "2 2", "spdy/3.1")),
        *((one, "1.1") for one in ("HTTP/1.1", "http/1.1 ", "1.1", "HTTP/1.1 200")),
        *((one, None) for one in ("unknown", "", "blob", "us:", "20")),
    ],
)
def test_recorders_have_many_names_for_versions_of_http(named: str, version: str | None) -> None:
    (root,) = one_page(entry("http://a.test/", response={"httpVersion": named})).page.resources
    assert root.http == version


@pytest.mark.parametrize("of_type", ["websocket", "webtransport", "directsocket"])
def test_sockets_of_scripts_are_left_out(of_type: str) -> None:
    page = one_page(ROOT, entry("https://a.test/socket", 50, _resourceType=of_type)).page
    assert (len(page.resources), noted(page)["websocket"]) == (1, 1)


def test_requests_of_a_service_worker_replace_those_of_the_page() -> None:
    worker = {"_fetchedViaServiceWorker": True, "_transferSize": 0, "bodySize": -1}
    headers = [{"name": "Referer", "value": "http://a.test/"}]
    asked = entry(
        "http://a.test/1.js",
        100,
        request={"headers": headers},
        response={**SCRIPT, **worker},
        _resourceType="script",
    )
    fetched = entry("http://a.test/1.js", 105, response=SCRIPT, _resourceType="fetch")
    later = entry("http://a.test/1.png", 200, response=SCRIPT, _resourceType="fetch")
    opaque = entry("http://a.test/1.png", 100, response={**worker, "content": {"size": 0, "mimeType": ""}})
    page = one_page(ROOT, asked, fetched, opaque, later, on_load=300).page
    found = [(one.url[14:], one.type, one.phase) for one in page.resources]
    assert found == [("", "document", "load"), ("1.js", "script", "load"), ("1.png", "xhr", "async")]
    assert noted(page)["mocked"] == 2
    document = entry("http://a.test/", response=worker, _resourceType="document")
    root = entry("http://a.test/", 5, _resourceType="fetch")
    (only,) = one_page(document, root, on_load=300).page.resources
    assert (only.url, only.type) == ("http://a.test/", "document")
    # The first fetch after the page's request answers it, whatever the order of the entries.
    second = entry("http://a.test/1.js", 130, response=SCRIPT, _resourceType="fetch")
    page = one_page(ROOT, asked, second, fetched, on_load=300).page
    assert [one.type for one in page.resources] == ["document", "script", "xhr"]


def test_the_port_of_a_server_is_not_the_name_of_a_connection() -> None:
    """Chrome writes the port into `connection` and the name into `_connectionId`."""
    http = {"httpVersion": ""}
    entries = [
        entry(
            f"https://a.test/{n}.js", 100, response={**SCRIPT, **http}, connection="443", _connectionId=str(n)
        )
        for n in range(2)
    ]
    page = one_page(entry("https://a.test/", response=http), *entries).page
    assert {one.http for one in page.resources} == {None}


def test_webpagetest_may_leave_out_all_dates() -> None:
    """Its entries then have times since an unknown start of the page."""
    entries = [
        {**entry(f"http://a.test/{n}", response=SCRIPT if n else {}), "_load_start": 100 * n, "_ttfb_ms": 50}
        for n in range(2)
    ]
    data = har(*entries, on_load=300)
    for one in (data["log"]["pages"][0], *data["log"]["entries"]):
        del one["startedDateTime"]
    (imported,) = import_har(data, "my.har")
    assert [(one.asked, one.first_byte) for one in recorded(imported).exchanges] == [(0, 50), (100, 150)]
    assert imported.recorded_plt_us == 300_000


def test_browsertime_writes_the_address_of_a_page_beside_its_title() -> None:
    consent = entry("http://a.test/consent", response={"status": 200})
    data = har(consent, entry("http://a.test/", 500))
    data["log"]["pages"][0] |= {"title": "A page run 1", "_url": "http://a.test/"}
    (imported,) = import_har(data, "my.har")
    assert imported.page.url == "http://a.test/"
