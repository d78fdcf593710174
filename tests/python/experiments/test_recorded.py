"""Loads of pages as recorded: the scheme of each URL, the version of HTTP of each host."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fastopen.common.errors import InputError
from fastopen.contract import LinkDirection, Network, Origins, Tcp, Tls
from fastopen.engines.programs import find_program
from fastopen.experiments import (
    COMMAND_LINE,
    Experiment,
    Setup,
    as_recorded,
    clients_of,
    make_plan,
    networks_asked,
    read_settings,
    setups_asked,
)
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.workflows.run import check_quic

RECORDED = Origins(http="recorded")
NO_LIMIT = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
NETWORK = Network(rtt_us=100_000, down=NO_LIMIT, up=NO_LIMIT)


def mixed_page() -> Page:
    """Return a page on hosts a (http, https), b (HTTP/2, HTTP/3), c (unknown version) and d (HTTP/1.1)."""
    urls = [
        ("https://a.test/", "2"),
        ("http://a.test/1.png", "1.1"),
        ("https://b.test/2.png", "3"),
        ("https://b.test/3.png", "2"),
        ("https://c.test/4.png", None),
        ("https://d.test/5.png", "1.1"),
    ]
    resources = [
        {
            "url": url,
            "type": "image" if number else "document",
            "body_bytes": 3000,
            "initiator": 0 if number else None,
            "http": http,
        }
        for number, (url, http) in enumerate(urls)
    ]
    data = {
        "format": "fastopen-page/1",
        "name": "mixed",
        "url": "https://a.test/",
        "source": "made up",
        "initiators": "declared",
        "resources": resources,
    }
    return Page.model_validate_json(json.dumps(data))


def spoken(**settings: Any) -> tuple[list[str], list[str]]:
    setup = Setup(**{"origins": RECORDED, "tls": Tls(security="recorded"), **settings})
    origins = as_recorded(setup, mixed_page(), NETWORK)
    assert origins.http == "1.1"
    return origins.http2_hosts, origins.http3_hosts


def test_each_host_speaks_the_newest_version_that_it_was_recorded_with() -> None:
    assert spoken() == (["a.test"], ["b.test"])


def test_what_cannot_be_spoken_gives_way_to_the_next_older_version() -> None:
    without_quic: tuple[list[str], list[str]] = (["a.test", "b.test"], [])
    assert spoken(tls=Tls(version="1.2", security="recorded")) == without_quic
    assert spoken(tcp=Tcp(congestion_control="bbr")) == without_quic
    (wget2,) = clients_of({"kind": "wget2"})
    assert spoken(client=wget2) == ([], [])
    assert spoken(tls=None) == ([], [])
    assert spoken(origins=RECORDED.model_copy(update={"keep_alive": False})) == ([], [])


def test_a_cleartext_url_speaks_http11_beside_tls() -> None:
    origins = as_recorded(Setup(origins=RECORDED, tls=Tls(security="recorded")), mixed_page(), NETWORK)
    tls = Tls(security="recorded")
    versions = [origins.http_at(one.url, tls) for one in mixed_page().resources]
    assert versions == ["2", "1.1", "3", "3", "1.1", "1.1"]


def test_the_default_is_as_recorded_and_options_override_it() -> None:
    (setup,) = setups_asked()
    assert setup.tls is not None
    assert (setup.origins.http, setup.tls.version, setup.tls.security) == ("recorded", "1.3", "recorded")
    (clear,) = setups_asked(transport="tcp,tfo")
    assert (clear.origins.http, clear.tls) == ("1.1", None)
    (none,) = setups_asked(tls="none")
    assert (none.origins.http, none.tls) == ("1.1", None)
    (old,) = setups_asked(http="1.1")
    assert old.tls is not None
    assert (old.origins.http, old.tls.security) == ("1.1", "recorded")
    (two,) = setups_asked(http="2", security="recorded")
    assert two.origins.http == "2"
    (all_over_tls,) = setups_asked(http="3")
    assert all_over_tls.tls is not None
    assert (all_over_tls.origins.http, all_over_tls.tls.security) == ("3", "tls")
    (foreign,) = setups_asked(server="nginx -c my.conf")
    assert foreign.tls is None
    networks = read_settings({"rtt": "20ms", "down": "1mbit"}, COMMAND_LINE).networks()
    assert [(one.down.rate_bit_per_s, one.up.rate_bit_per_s) for one in networks] == [(1_000_000, 24_000_000)]


def test_a_har_names_the_version_of_each_exchange(tmp_path: Path) -> None:
    def entry(url: str, version: str, number: int) -> dict[str, Any]:
        timings = {"blocked": 0, "dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": 20, "receive": 5}
        return {
            "startedDateTime": f"2026-01-01T00:00:00.{number * 30:03}Z",
            "time": 25,
            "request": {"method": "GET", "url": url, "headersSize": 300, "bodySize": 0, "headers": []},
            "response": {
                "status": 200,
                "httpVersion": version,
                "headersSize": 200,
                "bodySize": 1000,
                "headers": [],
                "content": {"size": 1000, "mimeType": "text/html" if number == 0 else "image/png"},
            },
            "cache": {},
            "timings": timings,
        }

    written = {
        "h2": "2",
        "HTTP/1.1": "1.1",
        "HTTP/1.0": "1.0",
        "h3-29": "3",
        "spdy/3.1": "2",
        "unknown": None,
    }
    entries = [entry(f"https://a{n}.test/", version, n) for n, version in enumerate(written)]
    (tmp_path / "x.har").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    (imported,) = load_pages([tmp_path / "x.har"])
    assert [one.http for one in imported.page.resources] == list(written.values())


@pytest.mark.e2e
@pytest.mark.real_time
def test_a_host_with_both_schemes_is_loaded_over_both() -> None:
    """Check that loads with HTTP/2 and HTTP/1.1 on one host and HTTP/3 on another are all valid."""
    (setup,) = setups_asked(key_share="x25519", security="recorded")
    network: Network = networks_asked(rtt="20ms")[0]
    experiment = Experiment(name="x", pages=["mixed"], networks=[network], setups=[setup], repeats=1, seed=1)
    plan = make_plan(experiment, [mixed_page()])
    job = plan.jobs[0].job.model_dump_json()
    done = subprocess.run([find_program()], input=job, capture_output=True, text=True, check=True, timeout=60)
    loads = [one for line in done.stdout.splitlines() if (one := json.loads(line))["type"] == "load"]
    assert [one["invalid"] for one in loads] == [[], [], []]
    for load in loads:
        carried = {
            (connection["host"], connection["port"]): (
                connection["tls"] is not None,
                connection["quic"] is not None,
            )
            for connection in load["connections"]
        }
        assert carried == {
            ("a.test", 443): (True, False),
            ("a.test", 80): (False, False),
            ("b.test", 443): (True, True),
            ("c.test", 443): (True, False),
            ("d.test", 443): (True, False),
        }


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ({"quic_retry": "on"}, "tls.retry"),
        ({"address_tokens": "off"}, "tls.address_tokens"),
        ({"h3_fallback": "300ms", "tls": "1.3"}, "client.h3_fallback_us"),
    ],
)
def test_settings_of_http3_need_a_page_that_was_recorded_with_it(written: dict[str, str], key: str) -> None:
    def check(page: Page, **others: str) -> None:
        asked = read_settings({"rtt": "20ms", **written, **others}, COMMAND_LINE)
        experiment = asked.experiment(name="my", pages=["p"], seed=1)
        check_quic(experiment, [ImportedPage(page)], lambda factor: factor.toml)

    check(mixed_page())
    (example,) = load_pages(["example"])
    # QUIC needs a larger MTU, so no host of the recorded page speaks HTTP/3 either.
    for page, others in ((example.page, {}), (mixed_page(), {"mtu": "1000"})):
        with pytest.raises(InputError) as refused:
            check(page, **others)
        assert refused.value.place == key
