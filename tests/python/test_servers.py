"""External servers: their command lines, and their results in runs."""

import json
import re
import shutil
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.cli.allow_command import foreign_commands
from fastopen.common.errors import MachineError
from fastopen.contract import Job
from fastopen.engines import describe_servers
from fastopen.engines.programs import with_programs
from fastopen.engines.results_store import can_be_stored
from fastopen.experiments import COMMAND_LINE, Experiment, make_plan, read_experiment, read_settings
from made_up_run import made_up_page
from places import ROOT

EXAMPLES = ROOT / "examples" / "servers"


def asked(**written: object) -> Experiment:
    return read_settings(written, COMMAND_LINE).experiment(name="my", pages=["p"], seed=1)


def job(server: list[str]) -> Job:
    experiment = asked(server=server, transport="off")
    (first, *_) = make_plan(experiment, [made_up_page("p")]).jobs
    return first.job


def test_words_that_name_a_file_become_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b.conf").write_text("events {}")
    (tmp_path / "nginx").write_text("no program, but there")
    monkeypatch.chdir(tmp_path)
    (setup,) = asked(server="nginx -p . -c 'a b.conf' -x gone.conf").setups
    assert setup.origins.server == ["nginx", "-p", ".", "-c", f"{tmp_path}/a b.conf", "-x", "gone.conf"]
    (setup,) = asked(server="./nginx").setups
    assert setup.origins.server == [f"{tmp_path}/nginx"]
    # In an experiment's file, paths are relative to the folder of the file.
    monkeypatch.chdir("/")
    lines = ['format = "fastopen-experiment/1"', 'name = "my"', 'pages = ["example"]', "seed = 1"]
    (tmp_path / "my.toml").write_text("\n".join([*lines, "[origins]", "server = \"nginx -c 'a b.conf'\""]))
    (setup,) = read_experiment(tmp_path / "my.toml").setups
    assert setup.origins.server == ["nginx", "-c", f"{tmp_path}/a b.conf"]


def test_a_program_is_found_where_administrators_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "served"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("fastopen.engines.programs.SERVER_FOLDERS", str(tmp_path))
    assert with_programs(job(["served", "-x"])).origins.server == [str(program), "-x"]
    described = describe_servers([["served", "-c", str(program)], None])
    assert re.fullmatch(rf"({program} sha256 [0-9a-f]{{64}}(, |$)){{2}}", described[f"served -c {program}"])
    with pytest.raises(MachineError, match="server: program gone not found"):
        with_programs(job(["gone"]))


def test_what_a_server_did_is_not_stored() -> None:
    assert not can_be_stored(job(["nginx"]))


def test_a_server_of_a_file_of_others_runs_when_it_is_allowed(tmp_path: Path) -> None:
    lines = ['format = "fastopen-experiment/1"', 'name = "my"', 'pages = ["example"]', "seed = 1"]
    (tmp_path / "my.toml").write_text("\n".join([*lines, "[origins]", 'server = "evil --now"']))
    assert foreign_commands(read_experiment(tmp_path / "my.toml")) == ["evil --now"]
    refused = fastopen("reproduce", tmp_path / "my.toml", "--client", "loader")
    assert refused.returncode != 0
    assert "would run the command evil --now" in refused.stderr


def test_a_server_of_some_hosts_serves_those_of_each_page_and_a_page_without_them_has_none() -> None:
    page = made_up_page("p")
    own = page.hosts()[0]
    for hosts, served in (([own, "elsewhere.test"], [own]), (["elsewhere.test"], None)):
        experiment = asked(
            server="nginx", server_hosts=hosts, upstream_tfo="on", upstream_rtt="5ms", transport="off"
        )
        (first, *_) = make_plan(experiment, [page]).jobs
        origins = first.job.origins
        assert origins.server_hosts == served
        assert (origins.server is None, origins.upstream_rtt_us) == ((False, 5000) if served else (True, 0))


def test_upstream_settings_are_rows_of_their_own() -> None:
    experiment = asked(server="haproxy", upstream_tfo="off,on", upstream_rtt="0ms,40ms")
    found = {(one.origins.upstream_tfo, one.origins.upstream_rtt_us) for one in experiment.setups}
    assert found == {(False, 0), (False, 40_000), (True, 0), (True, 40_000)}


@pytest.mark.parametrize(
    "others",
    [("--server-hosts", "a.test"), ("--server-listen",), ("--upstream-tfo", "on"), ("--upstream-rtt", "5ms")],
)
def test_what_is_a_servers_means_nothing_without_one(others: tuple[str, ...]) -> None:
    done = fastopen("run", "example", *others)
    assert done.returncode == 2
    assert f"error: {others[0]}: needs --server" in done.stderr


def test_a_host_that_no_page_asks_cannot_be_served() -> None:
    done = fastopen("run", "example", "--server", "nginx", "--server-hosts", "no.test")
    assert done.returncode == 2
    assert "--server-hosts: no page has the host no.test" in done.stderr


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            ("--server", "nginx", "--client", "curl"),
            "--server, --client: fastopen does not run curl against an external server",
        ),
        (("--server", "nginx", "--tls", "1.3"), "an external server works only without TLS"),
        (("--server", "nginx 'x"), "No closing quotation"),
        (("--server", ""), "is empty; write"),
    ],
)
def test_what_a_server_cannot_be_asked_with_is_named(others: tuple[str, ...], message: str) -> None:
    done = fastopen("run", "example", *others)
    assert done.returncode == 2
    assert message.replace("--server, --client", "--client, --server") in done.stderr


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_the_document_of_a_run_says_what_the_kernel_says_of_a_server() -> None:
    if shutil.which("nginx") is None and shutil.which("nginx", path="/usr/sbin") is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    configuration = EXAMPLES / "nginx.conf"
    server = f"nginx -p . -e stderr -c {configuration}"
    options = ["--rtt", "50ms", "--no-keep", "--quiet", "--json", "--engine", "virtual"]
    done = fastopen("run", "example", "--transports", "off,cold,warm", "--server", server, *options)
    document = json.loads(done.stdout)
    assert f"{configuration} sha256" in document["environment"]["servers"][server]
    cells = {cell["arm"]: cell for cell in document["cells"]}
    assert [cell["invalid_reasons"] for cell in cells.values()] == [[], [], []]
    assert cells["off"]["syn_data_connections"] == 0
    assert 0 < cells["warm"]["syn_data_connections"] == cells["warm"]["connections"]
    assert cells["warm"]["improvement_percent"] > 10
    (listener,) = document["server_use"]["listeners"]
    assert listener["syn_data"] == sum(cell["syn_data_connections"] for cell in cells.values())
    assert (listener["place"], listener["queues"]) == ("0.0.0.0:80", [256])
    assert document["server_use"]["overflows"] == 0


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_a_server_of_files_alone_is_told_that_origins_know_the_redirects(tmp_path: Path) -> None:
    if shutil.which("nginx") is None and shutil.which("nginx", path="/usr/sbin") is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{folder}_temp_path {folder};" for folder in folders)
    configuration = tmp_path / "files.conf"
    configuration.write_text(
        f"daemon off; pid nginx.pid; events {{}} http {{ access_log off; {temporary}"
        " server { listen 80 fastopen=256; root site/$host; } }"
    )
    server = f"nginx -p . -e stderr -c {configuration}"
    options = ["--rtt", "50ms", "--no-keep", "--quiet", "--engine", "virtual"]
    done = fastopen("run", "example", "--transports", "off,warm", "--server", server, *options)
    remedy = "The server has to request answers that are not files (redirects, answers to POST)"
    assert remedy in " ".join(done.stdout.split())


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
def test_a_run_says_what_tfo_saves_between_a_proxy_and_the_origins() -> None:
    if shutil.which("nginx") is None and shutil.which("nginx", path="/usr/sbin") is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    server = f"nginx -p . -e stderr -c {EXAMPLES / 'nginx-proxy.conf'}"
    upstream = ["--upstream-rtt", "40ms", "--upstream-tfo", "off,on", "--server-hosts", "www.example.com"]
    options = ["--rtt", "50ms", "--no-keep", "--quiet", "--json", "--engine", "virtual"]
    done = fastopen("run", "example", "--transports", "off,warm", "--server", server, *upstream, *options)
    document = json.loads(done.stdout)
    plt_ms = {(cell["arm"], cell["upstream_tfo"]): cell["plt_ms_median"] for cell in document["cells"]}
    for arm in ("off", "warm"):
        # At least one handshake of 40 ms with the origins is saved.
        assert plt_ms[arm, False] - plt_ms[arm, True] > 39
    use = document["server_use"]
    assert 0 < use["upstream_syn_data"] == use["upstream_connections"]
