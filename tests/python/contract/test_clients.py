"""External clients: their names, their command lines and environment, and their labels in tables."""

import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastopen.common.errors import InputError, MachineError, any_of
from fastopen.contract import Client, LinkDirection, Network, Origins, Tcp, Tls
from fastopen.contract.client_kinds import CLIENTS, COMMAND, CONNECTIONS, KEEP_ALIVE, LOADER, ClientType
from fastopen.engines.programs import check_versions, describe_clients
from fastopen.engines.world_process import WorldProcess
from fastopen.experiments import (
    COMMAND_LINE,
    Experiment,
    Setup,
    clients_of,
    load_experiment,
    make_plan,
    read_settings,
    setups_of,
    with_clients,
)
from fastopen.experiments.setups import client_of, filled_in, requested_urls, served_url
from fastopen.pages import Page, load_pages

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]


def packaged(name: str) -> Page:
    return load_pages([name])[0].page


def command(words: list[str]) -> Client:
    return client_of({"kind": "command", "command": words})


def test_a_command_is_given_the_pages_url_and_all_that_the_load_event_waits_for() -> None:
    page = packaged("example")
    filled = filled_in(command(["get", "-x={url}", "{urls}", "http{http}"]), page, Origins(http="1.0"))
    assert filled.command == ["get", f"-x={page.resources[0].url}", *requested_urls(page), "http1.0"]
    assert len(requested_urls(page)) == 8


@pytest.mark.parametrize(
    ("url", "served"),
    [
        ("http://a.test/x?y=https://b.test/", "http://a.test/x?y=https://b.test/"),
        ("https://a.test/x", "http://a.test:443/x"),
        ("https://a.test:8443/", "http://a.test:8443/"),
        ("https://a.test:80/", "http://a.test/"),
    ],
)
def test_a_world_serves_without_tls_on_the_same_port(url: str, served: str) -> None:
    assert served_url(url) == served


@pytest.mark.parametrize(
    ("url", "served"),
    [
        ("http://a.test/x?y", "https://a.test:80/x?y"),
        ("http://a.test:8080/", "https://a.test:8080/"),
        ("http://a.test:443/", "https://a.test/"),
        ("https://a.test:80/x", "https://a.test:80/x"),
    ],
)
def test_over_tls_a_page_of_http_urls_is_asked_for_over_tls_on_its_own_ports(url: str, served: str) -> None:
    assert served_url(url, Tls()) == served


def test_the_command_is_asked_with_its_kind_alone() -> None:
    loader, curl, own = clients_of({"kind": ["loader", "curl", "command"], "command": "/bin/get {url}"})
    assert [one.label for one in (loader, curl, own)] == ["loader", "curl", "get"]
    assert loader.command is None
    assert own.command == ["/bin/get", "{url}"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "netscape"}, f"unknown value 'netscape'; use {any_of(CLIENTS)}"),
        ({"kind": "command"}, "needs --command"),
        ({"kind": "command", "command": "get page"}, "cannot load the page"),
        ({"kind": "command", "command": "get x{urls}y {url}"}, "a word of its own"),
        ({"kind": "curl", "command": "get {url}"}, "works only with --client=command"),
    ],
)
def test_what_no_client_can_be_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        clients_of(settings)


def test_settings_of_the_loader_make_no_second_client_of_a_command() -> None:
    clients = clients_of({"kind": ["loader", "curl"], "processing_scale": [0.0, 1.0]})
    assert [(one.label, one.processing_scale) for one in clients] == [
        ("loader", 0.0),
        ("loader", 1.0),
        ("curl", 1.0),
    ]


def test_connections_and_keep_alive_are_told_to_clients_that_have_a_name() -> None:
    settings = {"connections_per_host": 3, "keep_alive": False}
    curl, wget2 = (client_of({"kind": kind, **settings}).command for kind in ("curl", "wget2"))
    assert curl is not None
    assert wget2 is not None
    assert curl[curl.index("--parallel-max") + 1] == "3"
    assert "Connection: close" in curl
    assert {"--max-threads=3", "--http-keep-alive=off"} <= set(wget2)


def test_a_tool_that_reports_error_answers_by_its_exit_code_has_loaded_the_page() -> None:
    assert [CLIENTS[name].exit_codes for name in ("curl", "wget", "wget2")] == [(), (8,), (8,)]


@pytest.mark.parametrize("client", ["chromium", "wget2", "wget", "aria2c"])
def test_clients_that_speak_http_1_1_whatever_they_are_asked_are_not_run_as_1_0(client: str) -> None:
    requested = read_settings({"client": client, "http": "1.0"}, COMMAND_LINE)
    with pytest.raises(InputError, match=f"runs {client} with .*, not with HTTP/1.0"):
        requested.experiment(name="my", pages=["p"], seed=1)


def test_clients_that_read_pages_get_bodies_that_can_be_read() -> None:
    clients = clients_of({"kind": ["loader", "wget2"]})
    assert [one.origins.bodies for one in setups_of(clients, [Origins()], [Tcp()])] == [
        "filler",
        "synthetic",
    ]
    chosen = setups_of(clients, [Origins(bodies="filler")], [Tcp()])
    assert [one.origins.bodies for one in chosen] == ["filler", "filler"]


def test_a_missing_client_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"program wget2 not found; apt install wget2"):
        describe_clients(clients_of({"kind": "wget2"}))
    with pytest.raises(MachineError, match="give its path"):
        describe_clients([command(["no-such-thing", "{url}"])])


def test_curl_is_asked_for_http3_alone_where_its_build_speaks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = client_of({"kind": "curl"})
    filled = filled_in(client, packaged("example"), Origins(http="3"), Tls())
    assert filled.command is not None
    assert "--http3-only" in filled.command
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = tmp_path / "curl"
    for features, speaks in (("HTTP2 HTTPS-proxy", False), ("HTTP2 HTTP3 HTTPS-proxy", True)):
        program.write_text(f"#!/bin/sh\nprintf 'curl 8.0\\nFeatures: {features}\\n'\n")
        program.chmod(stat.S_IRWXU)
        check_versions(client, ["1.1", "2"])
        refused = pytest.raises(MachineError, match=r"does not speak HTTP/3 \(curl 8.0\).*names HTTP3")
        with nullcontext() if speaks else refused:
            check_versions(client, ["3", "2"])


def test_a_program_without_a_name_is_known_by_its_digest(tmp_path: Path) -> None:
    program = tmp_path / "get"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    described = describe_clients([command([str(program), "{url}"]), Client.model_validate({})])
    assert list(described) == ["get"]
    assert described["get"].startswith(f"{program}, sha256 ")


def results(words: list[str]) -> Any:
    asked = ["run", "example", "--rtt", "50ms", "-n", "1", "--no-keep", "--quiet", "--json", *words]
    done = subprocess.run([*FASTOPEN, *asked], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.e2e
@pytest.mark.parametrize("engine", [pytest.param("host", marks=pytest.mark.real_time), "virtual"])
def test_the_tools_of_this_machine_stand_in_one_table(engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "virtual":
        request.getfixturevalue("kernel")
    tools = [one for one in CLIENTS.values() if one.command_line]
    present = [one.label for one in tools if shutil.which(one.executables[0])]
    if not present:
        pytest.skip(f"none is installed (apt install {' '.join(one.package for one in tools)})")
    clients = ",".join(["loader", *present])
    document = results(["--engine", engine, "--client", clients, "--transports", "off,warm"])
    warm = {cell["client"]: cell for cell in document["cells"] if cell["arm"] == "warm"}
    assert list(warm) == ["loader", *present]
    assert list(document["environment"]["clients"]) == present
    for cell in warm.values():
        assert cell["syn_data_connections"] == cell["connections"]
        assert cell["invalid_reasons"] == []
        assert cell["connections"] > 0


@pytest.mark.e2e
def test_a_command_that_gets_nothing_is_a_load_like_any(tmp_path: Path) -> None:
    program = tmp_path / "idle"
    program.write_text('#!/bin/sh\necho "no page at $1" >&2; exit 7\n')
    program.chmod(stat.S_IRWXU | stat.S_IRWXO)
    line = f"{program} {{url}}"
    document = results(["--engine", "host", "--client", "command", "--command", line, "--transports", "off"])
    (cell,) = document["cells"]
    assert cell["client"] == "idle"
    (reason,) = cell["invalid_reasons"]
    assert reason["kind"] == "incomplete"
    assert "ended with exit code 7: no page at http://example.com/" in reason["example"]


def test_a_browser_needs_no_command_and_gets_bodies_that_it_can_read() -> None:
    setups = setups_of(clients_of({"kind": ["chromium", "loader"]}), [Origins()], [Tcp()])
    assert [setup.client.label for setup in setups] == ["chromium", "loader"]
    assert [setup.origins.bodies for setup in setups] == ["synthetic", "filler"]


def test_a_missing_browser_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError) as raised:
        describe_clients([client_of({"kind": "chromium"})])
    assert "apt install chromium" in str(raised.value.remedy)


@pytest.mark.parametrize("changed", [{"key_share": "x25519"}, {"ech": "grease"}])
def test_contents_of_the_hello_are_settings_of_the_loader(changed: dict[str, str]) -> None:
    clients = clients_of({"kind": ["loader", "wget2"]})
    usual, other = Tls(), Tls.model_validate(changed)
    setups = setups_of(clients, [Origins()], [Tcp()], [usual, other])
    told = [(setup.client.label, setup.tls) for setup in setups]
    assert told == [("loader", usual), ("loader", other), ("wget2", usual)]


def test_only_a_browser_is_asked_for_a_picture() -> None:
    clients = clients_of({"kind": ["loader", "curl", "chromium"], "screenshot": True})
    assert [client.screenshot for client in clients] == [False, False, True]
    with pytest.raises(ValueError, match="draws no pictures: use --client=chromium"):
        Client.model_validate({"screenshot": True})


def test_a_browser_may_be_silent_for_as_long_as_its_kernel_lets_it() -> None:
    page = packaged("example")
    free = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
    network = Network(rtt_us=1000, down=free, up=free)
    for kind, silence_s in (("loader", 180), ("chromium", 780)):
        setups = setups_of([client_of({"kind": kind})], [Origins()], [Tcp()])
        asked = Experiment(name="x", pages=[page.name], networks=[network], setups=setups, seed=1)
        job = make_plan(asked, [page]).jobs[0].job.model_copy(update={"load_timeout_us": 120_000_000})
        world = WorldProcess(["true"], [job], 1, (), 0.0)
        world.process.wait()
        world.close()
        assert world.deadline == silence_s


def test_an_experiment_is_done_by_other_clients_with_the_settings_that_they_have() -> None:
    experiment = load_experiment("cs244-2015")
    setups = with_clients(experiment.setups, ["chromium", "curl", "loader"])
    chromium, curl, loader = (setup.client for setup in setups)
    assert loader == experiment.setups[0].client
    assert (chromium.kind, chromium.keep_alive, chromium.command) == ("chromium", loader.keep_alive, None)
    assert curl.command is not None
    assert "Connection: close" in curl.command
    assert [setup.origins.bodies for setup in setups] == ["synthetic", "synthetic", "filler"]
    with pytest.raises(ValueError, match="needs --command"):
        with_clients(experiment.setups, ["command"])


def test_what_a_client_does_not_speak_is_refused_by_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLIENTS, LOADER.label, replace(LOADER, http_over_tls=frozenset()))
    with pytest.raises(ValueError, match="loader does not speak TLS: use another --client"):
        Setup(tls=Tls())
    with_h2_over_tls = replace(LOADER, http_in_the_clear=frozenset({"1.1"}))
    monkeypatch.setitem(CLIENTS, LOADER.label, with_h2_over_tls)
    with pytest.raises(ValueError, match="loader with HTTP/2 only over TLS"):
        Setup(origins=Origins(http="2"))
    assert Setup(origins=Origins(http="2"), tls=Tls()).client.label == "loader"


@pytest.mark.parametrize("one", CLIENTS.values(), ids=lambda one: one.label)
def test_every_client_of_the_table_can_be_asked_for_and_is_described(one: ClientType) -> None:
    asked = {"kind": one.label, **({"command": "get {url}"} if one is COMMAND else {})}
    client = client_of(asked)
    assert (client.type, client.kind) == (one, one.kind)
    words = client.command or []
    assert not [word for word in words if CONNECTIONS in word or KEEP_ALIVE in word]
    assert (one.package == "") == (one.executables == ())
