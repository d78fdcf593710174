"""The network that a recording implies, and the error of its replay: `fastopen validate FILE.har...`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.common.errors import InputError
from fastopen.pages import ImportedPage, Page
from fastopen.pages.rates import achieved_bit_per_s, link_bit_per_s
from fastopen.pages.recording import RecordedExchange, Recording
from fastopen.workflows.replays import Rules, recorders_network, replay_of
from pages.hars import entry, har, import_har, one_page
from places import ROOT

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
PROGRAM = ROOT / "target" / "release" / "fastopen-world"
RECORDINGS = ROOT.parent / "shared" / "inputs" / "har"


def validate(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*FASTOPEN, "validate", *map(str, arguments)]
    environment = {"FASTOPEN_WORLD": str(PROGRAM), **os.environ, "COLUMNS": "100"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def small() -> dict[str, Any]:
    """Return a HAR of a document (80 ms) and then a picture (60 ms) on the same connection."""
    picture = entry("http://a.test/b.png", 90, time=60, timings={"connect": -1})
    return har(entry("http://a.test/"), picture, on_load=170)


def exchange(**changes: Any) -> RecordedExchange:
    moments = {"asked": 0.0, "sent": 20.0, "first_byte": 70.0, "end": 80.0}
    parts = {"lookup": 0.0, "tcp": 20.0, "tls": 0.0, "carrier": "one at a time", "received_bytes": 1000}
    return RecordedExchange(**{**moments, **parts, **changes})


def page_of(imported: ImportedPage, rules: Rules | None = None) -> Page:
    return replay_of(imported, rules or Rules()).page


def recording_of(*entries: Any, **page: Any) -> Recording:
    log = har(*entries, on_load=400)
    log["log"]["pages"][0] |= page
    (imported,) = import_har(log, "recorded.har")
    assert imported.recording is not None
    return imported.recording


class TestTheRecordersNetwork:
    """The recorder's network: loading the page over it separates queueing times from server think times."""

    LIMIT: Final = {"rate_bit_per_s": 8_000_000, "queue_bytes": 64_000}
    OWN: Final = {"rtt_us": 30_000, "down": LIMIT, "up": LIMIT}

    def test_what_fastopen_wrote_is_known(self) -> None:
        found = recorders_network(recording_of(entry("http://a.test/"), _fastopen={"network": self.OWN}))
        assert found is not None
        assert (found.rtt_us, found.down.rate_bit_per_s) == (30_000, 8_000_000)

    @pytest.mark.parametrize("network", [{}, {**OWN, "rtt_us": -1}, {**OWN, "down": "fast"}, {"a": [1]}])
    def test_what_it_cannot_have_written_is_not(self, network: Any) -> None:
        assert (
            recorders_network(recording_of(entry("http://a.test/"), _fastopen={"network": network})) is None
        )

    def test_with_data_in_syns_round_trips_are_not_those_of_the_network(self) -> None:
        load = {"network": self.OWN, "cookies": "warm"}
        assert recorders_network(recording_of(entry("http://a.test/"), _fastopen=load)) is None

    def test_a_link_that_was_full_and_its_handshakes_imply_one(self) -> None:
        full = entry("http://a.test/", time=4000, timings={"receive": 3930}, response={"bodySize": 2_000_000})
        found = recorders_network(recording_of(full))
        assert found is not None
        assert found.rtt_us == 20_000
        assert found.down.rate_bit_per_s == pytest.approx(2_000_000 * 8 / 3.93, rel=0.01)

    def test_a_link_that_was_never_full_had_no_queue(self) -> None:
        assert recorders_network(recording_of(entry("http://a.test/"))) is None


class TestTheExchanges:
    def test_a_handshake_is_told_from_its_tls_and_both_from_the_lookup(self) -> None:
        secure = entry("https://a.test/", time=130, timings={"dns": 10, "connect": 60, "ssl": 40})
        recording = one_page(secure, on_load=200).recording
        assert recording is not None
        (found,) = recording.exchanges
        assert (found.lookup, found.tcp, found.tls, found.stalled) == (10, 20, 40, 0)
        assert recording.round_trip_ms == {"a.test": 20}

    def test_waiting_for_a_shared_connection_is_what_no_part_of_its_own_explains(self) -> None:
        late = entry("https://a.test/b", time=150, timings={"blocked": 90, "connect": -1})
        recording = one_page(entry("https://a.test/"), late, on_load=200).recording
        assert recording is not None
        assert recording.exchanges[1].stalled == 90

    @pytest.mark.parametrize(
        "version", ["h2", "HTTP/2", "HTTP/2.0", "h3", "h3-29", "http/2+quic/46", "spdy/3"]
    )
    def test_a_version_that_multiplexes_is_known_however_it_is_written(self, version: str) -> None:
        recording = one_page(entry("https://a.test/", response={"httpVersion": version})).recording
        assert recording is not None
        assert recording.exchanges[0].multiplexed

    def test_two_requests_at_once_on_one_connection_share_it_unless_the_version_forbids(self) -> None:
        for version, shared in (("", True), ("unknown", True), ("HTTP/1.1", False), ("1.1", False)):
            both = [
                entry(f"https://a.test/{n}", connection="7", response={"httpVersion": version})
                for n in range(2)
            ]
            recording = one_page(*both).recording
            assert recording is not None
            assert [x.multiplexed for x in recording.exchanges] == [shared, shared], version

    def test_quic_is_known_by_the_version_alone(self) -> None:
        for version, carrier in (
            *((quic, "quic") for quic in ("h3", "h3-29", "HTTP/3", "http/2+quic/46")),
            *((streams, "streams") for streams in ("h2", "HTTP/2", "spdy/3")),
            ("http/1.1", "one at a time"),
        ):
            recording = one_page(entry("https://a.test/", response={"httpVersion": version})).recording
            assert recording is not None
            assert recording.exchanges[0].carrier == carrier, version

    def test_requests_one_after_another_do_not_share_a_connection(self) -> None:
        both = [
            entry(f"https://a.test/{n}", n * 200, connection="7", response={"httpVersion": ""})
            for n in range(2)
        ]
        recording = one_page(*both).recording
        assert recording is not None
        assert not any(x.multiplexed for x in recording.exchanges)


class TestTheNetwork:
    def test_the_nearest_host_is_as_far_as_the_link_is_long(self) -> None:
        far = entry("http://far.test/", 90, time=160, timings={"connect": 100})
        network = replay_of(one_page(entry("http://a.test/"), far, on_load=300)).network
        assert network.rtt_us == 20_000
        assert network.host_extra_rtt_us == {
            "far.test": 30_000
        }  # its wait of 50 ms is the shortest round trip

    def test_a_link_is_no_longer_than_a_world_can_measure_and_the_rest_is_the_hosts_own(self) -> None:
        slow = entry("http://a.test/", time=4070, timings={"connect": 2000, "wait": 2060})
        network = replay_of(one_page(slow, on_load=4100)).network
        assert (network.rtt_us, network.host_extra_rtt_us) == (500_000, {"a.test": 1_500_000})

    def test_on_the_host_packets_may_be_late_by_a_hundredth_of_the_load(self) -> None:
        late = [
            replay_of(one_page(entry("http://a.test/"), on_load=ms)).experiment(1).tolerance.late_us
            for ms in (80, 2000)
        ]
        assert late == [5_000, 20_000]

    def test_responses_that_came_in_one_go_widen_the_initial_window(self) -> None:
        large = entry("http://a.test/", timings={"receive": 0}, response={"bodySize": 28_000})
        assert replay_of(one_page(large, on_load=80)).tcp.initial_window_segments == 20
        # Spread over a millisecond, the pieces of the body do not fill the segment with the head.
        paced = entry("http://a.test/", timings={"receive": 1}, response={"bodySize": 28_000})
        assert replay_of(one_page(paced, on_load=80)).tcp.initial_window_segments == 21
        slow = entry("http://a.test/", timings={"receive": 11}, response={"bodySize": 28_000})
        assert replay_of(one_page(slow, on_load=80)).tcp.initial_window_segments == 10

    def test_no_round_trip_is_longer_than_bodies_allow_that_came_in_several(self) -> None:
        root = entry("http://a.test/", time=100)
        slow = {"connect": 200, "wait": 210, "receive": 60}
        far = entry("http://b.test/x.js", 110, time=470, timings=slow, response={"bodySize": 60_000})
        imported = one_page(root, far, on_load=600)
        assert imported.recording is not None
        assert imported.recording.round_trip_ms["b.test"] == 200
        found = replay_of(imported)
        # 60 kB take two rounds more than the first one of ten segments.
        assert found.network.rtt_us + found.network.host_extra_rtt_us["b.test"] == 30_000
        assert found.page.resources[1].server_think_us == 180_000 + 200_000

    def test_the_rate_is_the_most_that_arrived_within_the_window(self) -> None:
        steady = exchange(first_byte=0.0, end=1000.0, received_bytes=125_000)
        assert achieved_bit_per_s([steady], 50.0) == 1_000_000
        burst = exchange(first_byte=500.0, end=500.0, received_bytes=6_250)
        assert achieved_bit_per_s([steady, burst], 50.0) == 2_000_000
        assert achieved_bit_per_s([exchange(received_bytes=0)], 50.0) is None

    def test_a_link_has_a_rate_where_something_filled_it_for_a_while(self) -> None:
        steady = exchange(first_byte=0.0, end=1000.0, received_bytes=125_000)
        assert link_bit_per_s([steady]) == 1_000_000
        assert link_bit_per_s([exchange(received_bytes=125_000)]) is None

    @given(
        st.lists(
            st.tuples(st.integers(0, 300), st.integers(0, 80), st.integers(1, 99_999)), min_size=1, max_size=9
        )
    )
    def test_no_window_had_a_higher_rate(self, arrivals: list[tuple[int, int, int]]) -> None:
        exchanges = [
            exchange(first_byte=float(first), end=float(first + lasted), received_bytes=size)
            for first, lasted, size in arrivals
        ]

        def within(begin: float) -> float:
            return sum(
                size * max(0.0, min(first + lasted, begin + 50) - max(first, begin)) / lasted
                if lasted
                else size * (begin <= first <= begin + 50)
                for first, lasted, size in arrivals
            )

        found = achieved_bit_per_s(exchanges, 50.0)
        assert found is not None
        most = max(within(begin / 2) for begin in range(-120, 800)) * 160
        assert most <= found * (1 + 1e-9) + 1
        assert found <= sum(size for *_, size in arrivals) * 160 + 1


class TestThePage:
    def test_a_recorded_handshake_is_of_the_request_that_it_was_recorded_with(self) -> None:
        imported = one_page(*small()["log"]["entries"], on_load=170)
        first, second = page_of(imported).resources
        assert (first.server_think_us, second.server_think_us) == (50_000, 30_000)  # 20 + 50 - 20, 50 - 20
        plain = page_of(imported, Rules(handshakes=False)).resources
        assert [r.server_think_us for r in plain] == [30_000, 30_000]

    def test_a_url_that_no_syn_holds_is_cut_and_stays_a_url_of_its_own(self) -> None:
        urls = [f"http://a.test/{name * 2000}" for name in "xxy"]
        page = page_of(one_page(*map(entry, urls), on_load=300))
        cut = [resource.url for resource in page.resources]
        assert cut == [f"{url[:1000]}~{number}" for number, url in enumerate(urls)]
        assert page.url == cut[0]
        whole = page_of(one_page(*map(entry, urls), on_load=300), Rules(handshakes=False))
        assert [resource.url for resource in whole.resources] == urls

    def test_a_body_that_came_slower_than_the_network_explains_is_sent_slowly(self) -> None:
        streamed = entry("http://a.test/", time=3070, timings={"receive": 3000})
        named = entry("http://a.test/b.js", 1000, timings={"connect": -1}, time=60)
        imported = one_page(streamed, named, on_load=3100)
        page = page_of(imported)
        assert page.resources[0].server_send_us == 3_000_000
        assert page.resources[1].initiator_at_bytes == 310  # requested while the document arrived
        assert page_of(imported, Rules(sending=False)).resources[0].server_send_us == 0

    def test_what_the_server_pushed_is_asked_for_when_its_initiator_is(self) -> None:
        h2 = {"httpVersion": "h2"}
        timings = {"dns": 10, "connect": 20, "ssl": 10, "wait": 90}
        root = entry("https://a.test/", time=130, timings=timings, response=h2)
        timings = {"connect": -1, "wait": 60}
        pushed = entry("https://a.test/s.css", 60, time=70, timings=timings, response=h2, _was_pushed=1)
        imported = one_page(root, pushed, on_load=200)
        style = page_of(imported).resources[1]
        assert (style.pushed, style.initiator, style.processing_us) == (True, 0, 30_000)
        found = page_of(imported, Rules(pushes=False)).resources[1]
        assert (found.pushed, found.processing_us) == (False, 0)

    def test_no_moment_of_the_recording_is_in_the_page(self) -> None:
        """Only differences of times matter: the same recording an hour later gives the same page."""
        entries = small()["log"]["entries"]
        shifted = [one | {"startedDateTime": one["startedDateTime"].replace("T10", "T11")} for one in entries]
        for page in (har(*entries, on_load=170), har(*shifted, on_load=170)):
            page["log"]["pages"][0]["startedDateTime"] = page["log"]["entries"][0]["startedDateTime"]
            (imported,) = import_har(page, "x.har")
            assert [r.processing_us for r in page_of(imported).resources] == [0, 10_000]

    def test_hosts_speak_the_version_that_they_spoke(self) -> None:
        assert replay_of(one_page(entry("http://a.test/"), on_load=80)).origins.http2_hosts == []
        mixed = one_page(
            entry("http://a.test/"),
            entry("https://b.test/1", 90, response={"httpVersion": "h2"}),
            entry("https://c.test/1", 90, response={"httpVersion": "h3"}),
            # The version of most responses of a host decides.
            *(
                entry(f"http://d.test/{n}", 90, response={"httpVersion": v})
                for n, v in enumerate(["h2"] + 2 * ["1.1"])
            ),
            on_load=180,
        )
        replay = replay_of(mixed)
        assert (replay.origins.http2_hosts, replay.origins.http3_hosts) == (["b.test"], ["c.test"])
        (setup,) = replay.experiment(1).setups
        assert setup.origins == replay.origins
        one_version = replay_of(mixed, Rules(versions=False))
        assert (one_version.origins.versions, one_version.tls) == (["1.1"], None)

    def test_what_waited_for_a_connection_waits_as_it_was_recorded(self) -> None:
        """On a busy machine, a request may wait although a connection is free."""
        held = entry("http://a.test/i", 100, time=140, timings={"blocked": 80, "connect": -1})
        imported = one_page(entry("http://a.test/"), held, on_load=250)
        replay = replay_of(imported)
        assert replay.client.connections_per_host == 256
        assert [one.processing_us for one in replay.page.resources] == [0, 20_000 + 80_000]
        of_six = replay_of(imported, Rules(waits=False))
        assert of_six.client.connections_per_host == 6
        assert [one.processing_us for one in of_six.page.resources] == [0, 20_000]

    def test_tls_is_for_quic_alone_and_every_url_keeps_its_port(self) -> None:
        mixed = one_page(
            entry("https://a.test/"),
            entry("https://b.test:8443/1", 90, response={"httpVersion": "h3"}),
            entry("http://b.test/2", 90, response={"httpVersion": "h3"}),
            on_load=180,
        )
        replay = replay_of(mixed)
        assert [one.url for one in replay.loaded_page().resources] == [
            "http://a.test:443/",
            "https://b.test:8443/1",
            "https://b.test:80/2",
        ]
        assert [one.url for one in replay.page.resources] == [one.url for one in mixed.page.resources]
        plain = replay_of(one_page(entry("https://a.test/"), on_load=80))
        assert (plain.tls, plain.loaded_page()) == (None, plain.page)


class TestWhatCannotBeReplayed:
    def test_a_recording_without_load_event(self) -> None:
        with pytest.raises(InputError, match="has no time of the load event"):
            replay_of(one_page(entry("http://a.test/")))

    def test_a_recording_without_timings(self) -> None:
        bare = entry("http://a.test/", time=0, timings=dict.fromkeys(("connect", "wait", "receive"), -1))
        with pytest.raises(InputError, match="no timings"):
            replay_of(one_page(bare, on_load=80))

    def test_a_page_that_was_not_recorded(self) -> None:
        with pytest.raises(InputError, match="not a recording"):
            replay_of(ImportedPage(one_page(entry("http://a.test/")).page))

    def test_all_that_is_left_out_is_named(self, tmp_path: Path) -> None:
        done = validate(
            written(tmp_path, "none.har", har(entry("http://a.test/"))),
            written(tmp_path, "minus.har", har(entry("http://a.test/"), on_load=-1)),
            written(tmp_path, "empty.har", ""),
            written(tmp_path, "cut.har", json.dumps(small())[:300]),
            tmp_path / "missing.har",
        )
        assert (done.returncode, done.stdout) == (2, "")
        said = done.stderr.splitlines()
        assert len(said) == 6
        for line, (name, why) in zip(
            said,
            [
                ("empty.har", "is empty"),
                ("cut.har", "malformed JSON"),
                ("missing.har", "no such file"),
                ("none", "load event"),
                ("minus", "load event"),
            ],
            strict=False,
        ):
            assert line.startswith("left out: ")
            assert name in line
            assert why in line
        assert said[-1] == "no page to compare"


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
class TestReplays:
    def test_a_small_page_comes_as_it_was_recorded(self, tmp_path: Path) -> None:
        file = written(tmp_path, "small.har", small())
        done = validate("--json", "--engine", "virtual", file)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        (page,) = document["pages"]
        assert set(document) == {"pages", "median_error_percent"}
        assert (page["page"], page["recorded_ms"]) == ("small", 170)
        assert page["replayed_ms"] == pytest.approx(170, rel=0.03)
        assert document["median_error_percent"] == pytest.approx(abs(page["error_percent"]))

    def test_a_body_that_was_sent_slowly_comes_slowly_and_names_its_children_on_the_way(
        self, tmp_path: Path
    ) -> None:
        streamed = entry(
            "http://a.test/", time=1070, timings={"receive": 1000}, response={"bodySize": 50_000}
        )
        script = entry("http://a.test/b.js", 570, timings={"connect": -1}, time=60)
        file = written(tmp_path, "streamed.har", har(streamed, script, on_load=1100))
        (page,) = json.loads(validate("--json", "--engine", "virtual", file).stdout)["pages"]
        assert page["replayed_ms"] == pytest.approx(1100, rel=0.03)

    def test_lookups_through_the_link_stand_beside_the_recorded_ones(self, tmp_path: Path) -> None:
        near = entry("http://a.test/", time=90, timings={"dns": 10})
        far = entry("http://b.test/x", 90, time=120, timings={"dns": 40})
        cached = entry("http://c.test/x", 90, time=80.5, timings={"dns": 0.5})
        file = written(tmp_path, "names.har", har(near, far, cached, on_load=220))
        options = ("--json", "--engine", "virtual", file)
        (page,) = json.loads(validate("--names", "do53", *options).stdout)["pages"]
        assert [one["recorded_ms"] for one in page["lookups"]] == [10, 40, 0.5]
        assert [one["replayed_ms"] for one in page["lookups"]] == pytest.approx([10, 10, 10], abs=0.5)
        assert "2 lookups:" in (said := validate("--names", "do53", *options[1:]).stdout)
        assert "1 more" in said
        (page,) = json.loads(validate(*options).stdout)["pages"]
        assert page["lookups"] == []

    def test_names_of_a_recording_without_lookups_cannot_be_compared(self, tmp_path: Path) -> None:
        file = written(
            tmp_path, "cached.har", har(entry("http://a.test/", 90, timings={"dns": 0.5}), on_load=180)
        )
        done = validate("--names", "do53", "--engine", "virtual", file)
        assert done.returncode == 2
        assert "no DNS lookup took 1 ms or more" in done.stderr

    def test_one_bad_file_does_not_keep_the_others_from_being_replayed(self, tmp_path: Path) -> None:
        done = validate(written(tmp_path, "a.har", small()), written(tmp_path, "b.har", "{"))
        assert done.returncode == 1
        assert "left out: " in done.stderr
        assert "b.har" in done.stderr
        assert "over 1 page (" in done.stdout

    def test_real_recordings_are_met_within_ten_percent(self) -> None:
        files = sorted(RECORDINGS.glob("*.har*"))
        if not files:
            pytest.skip("no recordings (../shared/inputs/har)")
        done = validate("--json", "--engine", "virtual", *files)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert len(document["pages"]) >= len(files)
        assert document["median_error_percent"] < 10

    def test_hosts_of_three_versions_are_replayed_over_their_own(self, tmp_path: Path) -> None:
        """Each host gets a request, and then several at once, the last of which takes several windows."""

        def host(name: str, start: float, version: str) -> list[dict[str, Any]]:
            said = {"httpVersion": version}
            first = entry(f"https://{name}.test/1", start, response=said)
            others = (
                entry(
                    f"https://{name}.test/{n}",
                    start + 90,
                    time=time,
                    timings={"connect": -1, "receive": time - 50},
                    response={**said, "bodySize": size},
                )
                for n, time, size in ((2, 60, 1000), (3, 60, 5000), (4, 90, 40_000))
            )
            return [first, *others]

        page = [*host("a", 0, "http/1.1"), *host("b", 200, "h2"), *host("c", 400, "h3")]
        file = written(tmp_path, "three.har", har(*page, on_load=600))
        done = validate("--json", "--engine", "virtual", file)
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)["pages"]
        assert found["replayed_ms"] == pytest.approx(600, rel=0.03), found
