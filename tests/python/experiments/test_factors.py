"""Each factor has the same meaning on the command line, in files, Python, tables, exports and documents."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import fastopen
from fastopen import Experiment as Call
from fastopen.cli.discovery import Commands
from fastopen.common.errors import InputError
from fastopen.contract import Network
from fastopen.experiments import (
    ASKED,
    COMMAND_LINE,
    FACTORS,
    Experiment,
    Factor,
    exact_rows,
    make_plan,
    name_of,
    point_of,
    read_experiment,
    read_settings,
    varying_factors,
)
from fastopen.experiments.factors import COLUMNS, cell_columns, flat_columns
from fastopen.runs.flat_tables import LOADS
from made_up_run import made_up_page

# Values of factors that cannot vary within an experiment: on the command line, and in files and Python.
SINGLE: dict[str, tuple[Any, Any]] = {
    "down_trace": ("{folder}/a.trace", "{folder}/a.trace"),
    "up_trace": ("{folder}/a.trace", "{folder}/a.trace"),
    "extra_rtt": (["a.test=30ms", "b.test=0.5ms"], {"a.test": "30ms", "b.test": "0.5ms"}),
    "command": ("get --fast {url}", ["get", "--fast", "{url}"]),
    "phases": ("load", ["load"]),
    "screenshots": (True, True),
    "filmstrip": (True, True),
    "isolate": (True, True),
    "http2_hosts": ("a.test,b.test", ["a.test", "b.test"]),
    "http3_hosts": ("a.test,b.test", ["a.test", "b.test"]),
    "path_hosts": ("a.test,b.test", ["a.test", "b.test"]),
    "server": ("nginx -c my.conf", ["nginx", "-c", "my.conf"]),
    "server_hosts": ("a.test,b.test", ["a.test", "b.test"]),
    "server_listen": (True, True),
}
# Factors that select TLS.
TLS = (
    *("key_share", "session", "tickets", "address_tokens", "quic_retry"),
    *("early_data_rejected", "ticket_state", "chain_bytes", "certificates", "certificate_compression", "ech"),
)
# Other settings that a factor needs to be accepted.
NEEDED: dict[str, dict[str, str]] = {
    "command": {"client": "command"},
    "isolate": {"client": "curl"},
    "view": {"client": "chromium"},
    "request_heads": {"client": "chromium"},
    "screenshots": {"client": "chromium"},
    "filmstrip": {"client": "chromium"},
    "fixed_scripts": {"client": "chromium"},
    "reorder": {"jitter": "2ms"},
    "path_hosts": {"path": "strip-both"},
    "path_share": {"path": "strip-both"},
    "resolver": {"names": "do53"},
    "resolver_rtt": {"names": "do53"},
    **{
        name: {"server": "nginx -c my.conf"}
        for name in ("server_hosts", "server_listen", "upstream_tfo", "upstream_rtt")
    },
    "one_address": {"tls": "none"},
    "h3_fallback": {"http": "3", "tls": "1.3"},
    **{name: {"tls": "1.3"} for name in (*TLS, "http3_hosts")},
    **{name: {"tls": "1.3", "session": "early"} for name in ("early_data_rejected", "ticket_state")},
}
NAMES = [factor.name for factor in ASKED]


def factor_of(name: str) -> Factor:
    return next(factor for factor in FACTORS if factor.name == name)


def by_options(written: Mapping[str, Any]) -> Experiment:
    return read_settings(written, COMMAND_LINE).experiment(name="my", pages=["p"], seed=1)


def by_file(folder: Path, written: Mapping[str, Any]) -> Experiment:
    """Write the settings to a TOML file and return the experiment read from it."""
    tables: dict[str, dict[str, Any]] = {"": {}}
    for name, value in written.items():
        table, _, key = factor_of(name).toml.rpartition(".")
        tables.setdefault(table, {})[key] = value
    lines = ['format = "fastopen-experiment/1"', 'name = "my"', 'pages = ["p"]', "seed = 1"]
    for table, keys in tables.items():
        lines += [f"[{table}]"] if table else []
        for key, value in keys.items():
            inner = (
                ", ".join(f'"{host}" = "{rtt}"' for host, rtt in value.items())
                if isinstance(value, dict)
                else ""
            )
            lines.append(f"{key} = " + (f"{{{inner}}}" if inner else json.dumps(value)))
    (folder / "my.toml").write_text("\n".join(lines) + "\n")
    return read_experiment(folder / "my.toml")


def by_call(written: Mapping[str, Any]) -> Experiment:
    arguments = {factor_of(name).argument: value for name, value in written.items()}
    return Call("p", name="my", seed=1, **arguments).asked


def written_of(factor: Factor, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings for a factor and for the factors that it needs, in two notations: for the command
    line, and for files and Python."""
    needed = NEEDED.get(factor.name, {})
    if factor.several:
        return {factor.name: factor.example, **needed}, {factor.name: factor.example.split(","), **needed}
    (folder / "a.trace").write_text("1\n2\n10\n")
    option, value = SINGLE[factor.name]
    if factor.name.endswith("_trace"):
        option = value = option.format(folder=folder)
    return {factor.name: option, **needed}, {factor.name: value, **needed}


def test_names_options_keys_arguments_and_columns_are_each_of_one_factor() -> None:
    for names in (
        [factor.name for factor in FACTORS],
        [factor.flag for factor in ASKED],
        [factor.toml for factor in ASKED],
        [factor.argument for factor in ASKED],
        [name for factor in FACTORS for name in factor.export],
    ):
        assert len(names) == len(set(names))
    assert [factor.meaning.endswith(".") for factor in FACTORS] == [True] * len(FACTORS)


@pytest.mark.parametrize("name", NAMES)
def test_a_factor_is_asked_for_in_the_same_words_everywhere(tmp_path: Path, name: str) -> None:
    option, value = written_of(factor_of(name), tmp_path)
    asked = by_options(option)
    assert asked == by_file(tmp_path, value) == by_call(value)
    assert asked != by_options({} if name == "command" else NEEDED.get(name, {}))


def test_people_call_a_factor_by_whole_words_and_its_unit_stands_apart() -> None:
    named = {factor.name: (factor.title, factor.unit) for factor in FACTORS}
    assert named["congestion_control"] == ("congestion control", "")
    assert named["think_scale"] == ("think time", "")
    assert named["loss"] == ("loss", "%")
    assert named["chain_bytes"] == ("chain", "bytes")


def test_values_follow_the_word_with_in_sentences() -> None:
    values = [one.template.removeprefix(f"{one.title} ") for one in FACTORS if one.header]
    assert [value for value in values if re.match(r"(?:at|behind|in|of|with) ", value)] == []


def test_defaults_are_the_same_everywhere(tmp_path: Path) -> None:
    assert by_options({}) == by_file(tmp_path, {}) == by_call({})
    usual = {factor.name: factor.usual for factor in ASKED if factor.usual is not None and factor.several}
    for name in TLS:
        usual.pop(name, None)
    given = by_options(usual)
    # `usual` lacks TLS factors, which would select TLS for all URLs. Its RTT replaces the named networks.
    assert given.model_copy(update={"networks": by_options({}).networks}) == by_options({})
    usual_networks = [name_of(network) for network in by_options({}).networks]
    assert usual_networks == ["broadband", "mobile", "4g"]
    (network,) = by_options({"rtt": "20ms"}).networks
    assert (network.down.rate_bit_per_s, network.up.rate_bit_per_s) == (214_000_000, 24_000_000)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_differ_in_a_factor_differ_in_its_columns(tmp_path: Path, name: str) -> None:
    factor = factor_of(name)
    asked = by_options(written_of(factor, tmp_path)[0])
    plan = make_plan(asked, [made_up_page("p", hosts=("a.test", "b.test"))])
    rows = [flat_columns(point_of(asked, cell)) for cell in plan.cells]
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert len(set(rows)) == len(rows)
    values = {row[list(COLUMNS).index(factor.export[0])] for row in rows}
    assert len(values) == (
        len(factor.example.split(",")) if factor.several and factor.part != "arm" else len(values)
    )
    names = [one.name for one in varying_factors(asked, plan.engines).varying]
    assert (name in names) == (bool(factor.header))
    assert len({planned.job.id for planned in plan.jobs}) == len(plan.jobs)


def test_exported_loads_and_cells_of_json_have_every_factor() -> None:
    asked = by_options({"tls": "1.3"})
    (cell, *_) = make_plan(asked, [made_up_page("p")]).cells
    document = cell_columns(point_of(asked, cell))
    for factor in FACTORS:
        assert set(factor.export) <= document.keys()
        assert all(LOADS[name] == factor.quantity.kind for name in factor.export)
    assert json.loads(json.dumps(document)) == document


def test_every_factor_is_an_option_of_run() -> None:
    run: Any = Commands().commands["run"]
    assert {factor.flag for factor in ASKED} <= {flag for one in run.params for flag in one.opts}


def test_every_factor_is_an_argument_of_an_experiment_in_python() -> None:
    import inspect

    assert {factor.argument for factor in ASKED} <= inspect.signature(Call).parameters.keys()


def test_the_command_lists_them_all() -> None:
    listed = json.loads(fastopen("factors", "--json").stdout)["factors"]
    assert [one["name"] for one in listed] == [factor.name for factor in FACTORS]
    keys = ("name", "unit", "default", "flag", "toml", "column", "export_column", "meaning")
    assert all({*keys} <= one.keys() for one in listed)
    text = fastopen("factors").stdout
    assert all(factor.flag in text and factor.export[0] in text for factor in FACTORS)


def with_names(text: str) -> str:
    """Return a message with factors' names instead of their options and keys, and without quotes."""
    for factor in sorted(ASKED, key=lambda one: -len(one.toml)):
        text = re.sub(rf"{factor.flag}\b|\b{re.escape(factor.toml)}\b", factor.name, text)
    return re.sub(r" = (?=\")|[\"']", lambda found: " " if "=" in found[0] else "", text)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"rtt": "20"}, "'20' has no unit; write for example 20ms"),
        ({"rtt": "61s"}, "'61s' is out of bounds (0ms to 60s)"),
        ({"loss": "60%"}, "'60%' is out of bounds (0% to 50%)"),
        ({"mtu": "9000"}, "'9000' is out of bounds (576 to 1500)"),
        ({"initial_window": "ten"}, "'ten' is not a number"),
        ({"http": "4"}, "unknown value '4'; use 1.0, 1.1, 2, 3 or recorded"),
        ({"congestion_control": "Cubic"}, "'Cubic': string should match pattern"),
        ({"down": "4mbit", "down_trace": "x"}, "a trace replaces the rate; drop one of them"),
        (
            {"client": "wget2", "http": "2"},
            "runs wget2 with HTTP/1.1, not with HTTP/2; use --client ",
        ),
        (
            {"client": "curl", "http": "2", "tls": "none"},
            "HTTP/2 only over TLS; use --transports tls,tls+tfo and not --tls none",
        ),
        ({"http": "1.0", "http2_hosts": "a.test"}, "not 1.0; use --http 1.1, or drop --http2-hosts"),
        (
            {"profile": "mget", "connections_per_host": "6"},
            "6 connections to a host, but mget opens 5 in total; use at most 5",
        ),
        ({"client": "curl", "view": "repeat"}, "has no cache; use --client chromium, or --view first"),
        ({"client": "curl", "screenshots": True}, "works only with --client chromium"),
        (
            {"client": "chromium", "tls": "1.3", "key_share": "x25519"},
            "works only with --client loader",
        ),
        ({"client": "wget2", "profile": "mget"}, "works only with --client loader"),
        (
            {"http": "2", "origins_keep_alive": "off"},
            "HTTP/2 keeps the connections of origins open; use --keep-alive off",
        ),
        ({"http": "2", "single_threaded": "on"}, "open; use --single-threaded off, or --http 1.1"),
        (
            {"http3_hosts": "a.test", "single_threaded": "on", "tls": "1.3"},
            "open; use --single-threaded off, or drop --http3-hosts",
        ),
        (
            {"link": "kernel", "extra_rtt": ["a.test=20ms"]},
            "no traces, jitter, drr or extra RTTs of hosts; use --link program",
        ),
        ({"link": "kernel", "jitter": "2ms"}, "no traces, jitter, drr or extra RTTs of hosts"),
        ({"jitter": "2"}, "'2' has no unit; write for example 20ms"),
        ({"jitter": "pareto:2ms"}, "unknown value 'pareto'; use normal or uniform"),
        ({"jitter": "uniform:61s"}, "'uniform:61s' is out of bounds (0.001ms to 60s)"),
        *(
            (
                {"tls": "1.3", "http": "2", name: value},
                "needs a host with HTTP/3; use --http 3 or --http3",
            )
            for name, value in (("h3_fallback", "300ms"), ("quic_retry", "on"), ("address_tokens", "off"))
        ),
        *(
            ({"tls": "1.3", name: value}, "works only with --session resumed or early")
            for name, value in (("ticket_state", "stale"), ("early_data_rejected", "on"))
        ),
        *(
            (
                {"client": client, "names": names},
                f"{client} sends lookups in cleartext, but --names {names} encrypts them; use --names do53",
            )
            for client, names in (("curl", "dot"), ("wget2", "doh"), ("chromium", "doh"))
        ),
        ({"phases": "async"}, "the phase load is missing; add it"),
        ({"client": "command"}, "the client command needs --command"),
    ],
)
def test_a_fault_is_told_in_the_same_words_with_its_place_everywhere(
    tmp_path: Path, written: dict[str, Any], message: str
) -> None:
    def refusal(experiment: Any) -> InputError:
        with pytest.raises(InputError) as raised:
            experiment()
        return raised.value

    faults = {
        "option": refusal(lambda: by_options(written)),
        "file": refusal(lambda: by_file(tmp_path, written)),
        "call": refusal(lambda: by_call(written)),
    }
    # The command line names its options, a file its keys, a call the names of factors.
    told = {str(fault).removeprefix(f"{fault.place}: ") for fault in faults.values()}
    assert len({with_names(text) for text in told}) == 1
    assert message in str(faults["option"])
    assert any(factor_of(name).flag in faults["option"].place for name in written)
    assert faults["file"].place.startswith(f"{tmp_path / 'my.toml'}: ")
    assert faults["call"].place.startswith("Experiment: ")


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("network.rt", "network.rtt"),
        ("client.http", "origins.http"),
        ("transport", "transports"),
        ("networks", "network"),
        ("origin", "origins"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_that_there_is(tmp_path: Path, key: str, near: str) -> None:
    table, _, name = key.rpartition(".")
    text = f'{name} = "20ms"\n' if not table else f'[{table}]\n{name} = "20ms"\n'
    (tmp_path / "my.toml").write_text(
        f'format = "fastopen-experiment/1"\nname = "my"\npages = ["p"]\nseed = 1\n{text}'
    )
    with pytest.raises(InputError, match=rf"my\.toml: {key}: unknown key; did you mean {near}\?"):
        read_experiment(tmp_path / "my.toml")


def test_an_unknown_argument_is_told_with_the_nearest_that_there_is() -> None:
    with pytest.raises(InputError, match=r"Experiment: rt: unknown key; did you mean rtt\?"):
        Call("p", rt="20ms")


def test_fields_of_the_contract_that_no_factor_covers_are_known() -> None:
    covered = {field for factor in FACTORS for field in factor.fields}
    left = [name for name in Network.model_fields if not any(one.split(".")[0] == name for one in covered)]
    assert left == []


def test_a_factor_that_is_set_to_none_needs_no_other_factor() -> None:
    (network,) = read_settings({"rtt": "20ms", "resolver_rtt": "none"}, COMMAND_LINE).networks()
    assert network.resolver_rtt_us is None


def test_networks_that_differ_only_in_what_means_nothing_are_one() -> None:
    asked = by_options({"rtt": "20ms", "path": "none,strip-both", "path_share": "5%,20%"})
    assert [(one.path, one.path_share) for one in asked.networks] == [
        ("none", 1.0),
        ("strip-both", 0.05),
        ("strip-both", 0.2),
    ]
    assert exact_rows(asked, "virtual") == [True, False, False]


@pytest.mark.parametrize(
    ("name", "needed"), [("reorder", "jitter"), ("path_hosts", "path"), ("path_share", "path")]
)
def test_a_factor_without_the_one_that_it_needs_is_refused(name: str, needed: str, tmp_path: Path) -> None:
    option, _ = written_of(factor_of(name), tmp_path)
    with pytest.raises(InputError, match=f"works only with --{needed}"):
        by_options({name: option[name]})
