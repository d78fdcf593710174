"""Experiments in TOML: their settings, and the errors for invalid ones."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.common.errors import InputError
from fastopen.experiments import (
    ASKED,
    COMMAND_LINE,
    default_queue_bytes,
    load_experiment,
    packaged_experiments,
    published_cells,
    read_experiment,
    read_settings,
    setups_asked,
    with_changes,
)
from fastopen.experiments.document import experiment_of
from fastopen.experiments.factor_values import toml_file
from fastopen.experiments.trace import read_trace

SMALL = """
format = "fastopen-experiment/1"
name = "small"
pages = ["example"]
seed = 1
[network]
rtt = ["20ms"]
down = "4mbit"
up = "256kbit"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    return path


def test_a_small_experiment_gets_explicit_defaults(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, SMALL))
    (network,) = experiment.networks
    assert (network.rtt_us, network.down.rate_bit_per_s, network.up.rate_bit_per_s) == (
        20_000,
        4_000_000,
        256_000,
    )
    assert (network.down.queue_bytes, network.up.queue_bytes) == (256_000, 256_000)
    assert experiment.arms == ["off", "cold", "warm"]
    (setup,) = experiment.setups
    assert (experiment.repeats, setup.client.profile, setup.client.keep_alive) == (10, "browser", True)


@pytest.mark.parametrize(
    ("rate", "queue"), [(None, None), (256_000, 256_000), (20_480_000, 256_000), (100_000_000, 1_250_000)]
)
def test_the_default_queue_is_256_kb_or_100_ms(rate: int | None, queue: int | None) -> None:
    assert default_queue_bytes(rate) == queue


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"20ms"', '"20"', r"network\.rtt\[0\]: '20' has no unit; write for example 20ms"),
        ('"20ms"', "20", r"network\.rtt\[0\]: expected text with a unit, such as .*, not 20"),
        ('"20ms"', '"20mbit"', r"network\.rtt\[0\]: '20mbit' has an unknown unit"),
        ('"20ms"', '"61s"', r"network\.rtt\[0\]: '61s' is out of bounds \(0ms to 60s\)"),
        ('"4mbit"', '"4ms"', r"network\.down: '4ms' has an unknown unit; .*4mbit"),
        ('"4mbit"', '"1kbit"', r"network\.down: '1kbit' is out of bounds \(64kbit to 1gbit\)"),
        ('"4mbit"', '"2gbit"', r"network\.down: '2gbit' is out of bounds"),
        ('"256kbit"', '"256kbit"\nloss = "60%"', r"network\.loss: '60%' is out of bounds \(0% to 50%\)"),
        (
            '"256kbit"',
            '"256kbit"\nloss = 0.01',
            r"network\.loss: expected text with a unit, .*, not 0\.01",
        ),
        ('"256kbit"', '"256kbit"\nqueue = "many"', r"network\.queue"),
        ('"256kbit"', '"256kbit"\nspeed = 1', r"network\.speed: unknown key"),
        (
            '"256kbit"',
            '"256kbit"\nup_trace = "x"',
            r"network\.up, network\.up_trace: a trace replaces the rate",
        ),
        ('pages = ["example"]', "", r"pages: missing"),
        ("seed = 1", "seed = -1", r"seed: "),
        ("seed = 1", "seed = 1\nrepeats = 0", r"repeats: "),
        ("seed = 1", "seed = 1.5", r"seed: "),
        ("seed = 1", "seed = 1\ntransports = ['hot']", r"transports\[0\]"),
        ("seed = 1", "seed = ", r"malformed TOML: .*line 5"),
        ('["example"]', "[]", r"pages: "),
        ("experiment/1", "experiment/2", r"format: "),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(InputError, match=rf"^{path}.*{message}"):
        read_experiment(path)


def test_a_host_without_quotes_is_a_host(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text('pages = ["example"]\n[network.extra_rtt]\ncdn.A.test = "20ms"\n"b.test" = "5ms"\n')
    (network, *_) = read_experiment(file).networks
    assert network.host_extra_rtt_us == {"cdn.a.test": 20_000, "b.test": 5_000}


def test_pages_are_all_that_a_file_needs(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, 'pages = ["example"]'))
    assert (experiment.pages, experiment.seed, len(experiment.networks)) == (["example"], 0, 3)


def test_every_problem_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    text = SMALL.replace("[network]", '[network]\nrt = "20ms"\nloss = "much"').replace(
        "seed = 1", "seed = -1"
    )
    path = write(tmp_path, text)
    with pytest.raises(InputError) as raised:
        read_experiment(path)
    lines = str(raised.value).splitlines()
    assert [line.removeprefix(f"{path}: ").split(":")[0] for line in lines] == [
        "network.rt",
        "network.loss",
        "seed",
    ]
    assert "did you mean network.rtt?" in lines[0]


def test_pages_that_are_not_to_be_found_are_among_the_problems_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'pages = ["example", "amazn", "x.har"]\nseed = -1')
    with pytest.raises(InputError) as raised:
        load_experiment(str(path))
    amazn, har, seed = str(raised.value).splitlines()
    assert amazn == (
        f"{path}: pages: amazn: no such file and no packaged page of that name"
        "; did you mean the packaged page amazon?"
    )
    assert har.startswith(f"{path}: pages: x.har: no such file")
    assert seed.startswith(f"{path}: seed: ")


def test_a_file_without_a_name_has_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "My Copy.toml"
    path.write_text(SMALL.replace('name = "small"\n', ""))
    assert read_experiment(path).name == "my-copy"


def test_a_missing_file_and_an_unknown_name_are_calibrated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; check the path"):
        load_experiment(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match="did you mean radhakrishnan2011"):
        load_experiment("radakrishnan2011")


@pytest.mark.parametrize("name", packaged_experiments())
def test_every_packaged_experiment_is_read(name: str) -> None:
    assert load_experiment(name).name == name


def test_every_cell_of_the_paper_is_compared_with_one_of_ours() -> None:
    experiment = load_experiment("radhakrishnan2011")
    cells = published_cells(experiment)
    assert set(cells) == {(page, network) for page in experiment.pages for network in range(3)}
    wikipedia = cells["wikipedia-tcp", 2]
    assert (wikipedia.plt_off, wikipedia.plt_tfo, wikipedia.improvement_percent_as_printed) == (
        5.15,
        3.03,
        41,
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.toml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_experiment(path)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 2**70) | st.floats() | st.text(max_size=8) | st.just("20ms"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abrtx_", max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
_KEYS = ["format", "name", "pages", "seed", "repeats", "tolerance", "transports", "engines", "published", "x"]
_TABLES = {
    table: [key for known, _, key in (factor.toml.rpartition(".") for factor in ASKED) if known == table]
    for table in ("network", "client", "origins", "tls", "tcp")
}


@given(
    st.dictionaries(st.sampled_from([*_KEYS, *_TABLES]), _VALUES),
    st.fixed_dictionaries(
        {},
        optional={
            table: st.dictionaries(st.sampled_from([*keys, "x"]), _VALUES, max_size=3)
            for table, keys in _TABLES.items()
        },
    ),
)
def test_any_values_are_read_or_refused_with_an_input_error(
    top: dict[str, object], tables: dict[str, object]
) -> None:
    with pytest.raises(InputError, match=r"any\.toml"):
        experiment_of({**top, **tables, "format": "none"}, toml_file(Path("any.toml")))


def test_a_trace_gives_its_times_and_the_default_queue_of_its_mean_rate(tmp_path: Path) -> None:
    (tmp_path / "link.trace").write_text("0\n1\n1\n10\n")
    assert read_trace(tmp_path / "link.trace") == [0, 1, 1, 10]
    text = SMALL.replace('down = "4mbit"', 'down_trace = "link.trace"')
    down = read_experiment(write(tmp_path, text)).networks[0].down
    assert (down.rate_bit_per_s, down.trace_ms, down.queue_bytes) == (None, [0, 1, 1, 10], 256_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n0\n", "line 2"),
        ("x\n", "line 1"),
        ("", "trace is empty"),
        ("0\n0\n", "trace ends at 0 ms"),
        ("0\n86400001\n", "longer than a day"),
        ("1.5\n", "line 1"),
        ("é", "text"),
    ],
)
def test_a_trace_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "link.trace").write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(tmp_path / "link.trace")


def test_a_network_by_name_stands_for_rtt_and_rates() -> None:
    requested = read_settings({"loss": "0%,1%"}, COMMAND_LINE, named="4g,dsl")
    networks = [(one.rtt_us, one.down.rate_bit_per_s, one.down.loss) for one in requested.networks()]
    assert networks == [
        *((170_000, 9_000_000, 0.0), (50_000, 1_500_000, 0.0)),
        *((170_000, 9_000_000, 0.01), (50_000, 1_500_000, 0.01)),
    ]


@pytest.mark.parametrize(
    ("named", "written", "message"),
    [
        ("5g", {}, "--network: unknown value '5g'; use broadband, mobile, 2g, 3g"),
        ("4g", {"rtt": "20ms"}, "--network: a named network sets --rtt itself; remove --rtt or --network"),
    ],
)
def test_what_a_named_network_cannot_be_is_said(named: str, written: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_settings(written, COMMAND_LINE, named=named)
    assert str(raised.value).startswith(message)


def test_a_file_names_networks_as_well(tmp_path: Path) -> None:
    text = SMALL[: SMALL.index("rtt =")] + 'named = ["starlink"]\n'
    (network,) = read_experiment(write(tmp_path, text)).networks
    assert (network.rtt_us, network.up.rate_bit_per_s) == (50_000, 12_000_000)


def test_a_file_chooses_pages_of_a_corpus_by_its_own_seed_unless_it_names_another(tmp_path: Path) -> None:
    chosen = read_experiment(write(tmp_path, f"{SMALL}[corpus]\nwhere = 'hosts < 9'\nsample = 3\n")).corpus
    assert chosen is not None
    assert (chosen.where, chosen.sample, chosen.seed) == ("hosts < 9", 3, 1)
    named = read_experiment(write(tmp_path, f"{SMALL}[corpus]\nsample = 3\nseed = 8\n")).corpus
    assert named is not None
    assert named.seed == 8


def test_a_condition_of_a_file_that_names_no_fact_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_experiment(write(tmp_path, f"{SMALL}[corpus]\nwhere = 'host > 9'\n"))
    words = "small.toml: corpus.where: unknown page property 'host'; did you mean hosts?"
    assert str(error.value).endswith(words)


def test_a_change_that_contradicts_other_settings_is_refused_with_their_names() -> None:
    written = {"rtt": "20ms", "names": "dot"}
    experiment = read_settings(written, COMMAND_LINE).experiment(name="one", pages=["example"], seed=0)
    with pytest.raises(InputError, match=r"^--names, --client: curl sends lookups in cleartext"):
        with_changes(experiment, {"setups": setups_asked(client="curl")}, COMMAND_LINE)
