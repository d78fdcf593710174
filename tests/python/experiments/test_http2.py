"""HTTP/2 as a setting: combinations with other settings, and the version in exported HARs."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fastopen.contract import Client, Origins, Tls
from fastopen.experiments import make_plan, read_experiment
from fastopen.experiments.model import Setup
from fastopen.experiments.setups import client_of, filled_in
from fastopen.pages import load_pages
from fastopen.runs.export.har import _request
from made_up_run import made_up_page

HTTP2 = Origins(http="2")


def setup(client: Client, tls: Tls | None) -> Setup:
    return Setup(client=client, origins=HTTP2, tls=tls)


def test_the_loader_speaks_it_in_the_clear_and_over_tls() -> None:
    loader = client_of({})
    assert [setup(loader, tls).origins.http for tls in (None, Tls())] == ["2", "2"]


@pytest.mark.parametrize("kind", ["chromium", "curl"])
def test_a_client_that_speaks_it_over_tls_alone_is_refused_in_the_clear(kind: str) -> None:
    client = client_of({"kind": kind})
    with pytest.raises(ValidationError, match="use --transports=tls,tls\\+tfo"):
        setup(client, None)
    setup(client, Tls())


def test_a_client_that_is_run_with_another_version_is_refused() -> None:
    for tls in (None, Tls()):
        with pytest.raises(ValidationError, match="runs wget2 with HTTP"):
            setup(client_of({"kind": "wget2"}), tls)


def test_a_command_of_ones_own_may_do_as_it_likes() -> None:
    client = client_of({"kind": "command", "command": "my-client {url}"})
    assert setup(client, None).client.label == "my-client"


def test_origins_that_speak_it_keep_their_connections() -> None:
    with pytest.raises(ValidationError, match="use --keep-alive=off instead"):
        Origins(http="2", keep_alive=False)


def test_curl_is_told_the_version() -> None:
    client = filled_in(client_of({"kind": "curl"}), made_up_page("p", 2), HTTP2, Tls())
    assert "--http2" in (client.command or [])


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_a_har_says_which_version_was_spoken(http: str) -> None:
    request: dict[str, Any] = _request(made_up_page("p", 2).resources[0], http)
    assert request["httpVersion"] == f"HTTP/{http}"


def test_single_hosts_can_speak_http2_and_a_page_is_asked_for_its_own_alone(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text(
        'format = "fastopen-experiment/1"\nname = "some"\npages = ["example"]\nseed = 1\n'
        '[network]\nrtt = "20ms"\n[origins]\nhttp2_hosts = ["www.example.com", "elsewhere.test"]\n'
    )
    experiment = read_experiment(tmp_path / "some.toml")
    assert [setup.origins.http2_hosts for setup in experiment.setups] == [
        ["www.example.com", "elsewhere.test"]
    ]
    page = load_pages(["example"])[0].page
    job = make_plan(experiment, [page]).jobs[0].job
    assert job.origins.http2_hosts == [page.hosts()[1]]
    with pytest.raises(ValidationError, match="the page has no host elsewhere"):
        type(job).model_validate_json(
            json.dumps(job.model_dump(mode="json") | {"origins": {"http2_hosts": ["elsewhere.test"]}})
        )
    with pytest.raises(ValidationError, match="keeps the connections of origins open"):
        Origins(http2_hosts=["a.test"], keep_alive=False)
