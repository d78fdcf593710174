"""The Python API: experiments, runs, frames and figures, and the notebook that shows them."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import fastopen
from fastopen import Experiment, open_run, run
from fastopen.common.errors import InputError, MachineError
from fastopen.runs import RunProgress
from made_up_run import made_up_page, made_up_plan, made_up_run
from places import ROOT

FakeWorld = Callable[..., Path]
NOTEBOOK = ROOT / "examples" / "first-run.ipynb"


def small(**settings: object) -> Experiment:
    asked: Any = {"repeats": 2, "engines": "host", **settings}
    return Experiment("example", rtt="20ms", seed=1, **asked)


def test_an_experiment_is_written_in_the_units_and_words_of_the_command_line() -> None:
    experiment = Experiment("example", rtt=["20ms", "100ms"], repeats=5, seed=1)
    assert repr(experiment) == (
        "<Experiment notebook: 1 page x 2 networks x 3 transports x 5 repeats = 30 loads>"
    )
    swept = small(loss=["0%", "1%"], client={"keep_alive": [True, False]}, transports=["off", "warm"])
    assert "2 networks x 2 setups x 2 transports" in repr(swept)
    assert [network.down.loss for network in swept.asked.networks] == [0, 0.01]
    assert repr(swept.changed(repeats=7)).endswith("7 repeats = 56 loads>")
    assert Experiment.read("radhakrishnan2011").asked.name == "radhakrishnan2011"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rtt": "20"}, "Experiment: rtt: '20' has no unit"),
        ({"transports": ["off", "hot"]}, r"Experiment: transports\[1\]"),
        ({"client": {"keepalive": True}}, "Experiment: client.*keepalive"),
        ({"repeats": 0}, "Experiment: repeats"),
    ],
)
def test_what_is_wrong_with_an_experiment_is_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Experiment("example", **settings)  # type: ignore[arg-type]


def test_a_run_gives_frames_figures_and_files(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    seen: list[RunProgress] = []
    with run(small(repeats=4), tmp_path / "kept", progress=seen.append) as done:
        assert (done.status, seen[-1].left) == ("finished", 0)
        assert done.outcome is not None
        assert not done.outcome.interrupted
        cells = done.frame().set_index("cookies", drop=False)
        assert cells.loc["warm", "improvement_percent"] == pytest.approx(20, abs=0.1)
        assert cells.loc["warm", "improvement_ci95_low"] <= cells.loc["warm", "improvement_percent"]
        loads, requests = done.loads(), done.requests()
        assert (len(loads), len(requests), len(done.evidence())) == (12, 12, 12)
        assert set(requests["load"]) == set(loads["load"])
        carried = done.connections().groupby("load")["client_syn_data_acked"].any()
        assert list(loads[loads["load"].map(carried)]["arm"].unique()) == ["warm"]
        assert done.load("example@20ms#0", "tls").transport == "tls"
        assert "improvement" in done.figures()
        assert "example" in repr(done)
        assert "<pre" in done._repr_html_()
        assert done.report(tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
        assert "requests" in {path.stem for path in done.export(tmp_path / "out").iterdir()}
    with open_run(tmp_path / "kept") as again:
        assert again.frame().equals(cells.reset_index(drop=True))


@pytest.mark.slow
def test_every_figure_can_be_drawn_and_changed(tmp_path: Path) -> None:
    kept = made_up_run(tmp_path / "kept", made_up_plan([made_up_page("one")]))
    with open_run(kept) as opened:
        charts: dict[str, Any] = {**opened.figures(loads=True)}
        for chart in charts.values():
            assert chart.config["background"] == "white"
            chart.config["background"] = "black"  # changes no other chart
            spec = chart.properties(title="mine").to_dict()
            assert spec["title"] == "mine"
            assert spec["description"]
            (rows,) = spec["datasets"].values()
            assert rows


def test_a_run_that_was_interrupted_is_resumed_and_a_finished_one_is_opened(
    fake_world: FakeWorld, tmp_path: Path
) -> None:
    fake_world()

    def stop(progress: RunProgress) -> None:
        if progress.finished is not None:
            raise KeyboardInterrupt

    with run(small(), tmp_path / "kept", progress=stop, jobs=1) as first:
        assert first.status == "interrupted"
        assert len(first.loads()) == 1
    with pytest.raises(InputError, match="repeats 2 instead of 3"):
        run(small(repeats=3), tmp_path / "kept", progress=False)
    with run(small(), tmp_path / "kept", progress=False) as second:
        assert (second.status, len(second.loads())) == ("finished", 6)
        tables = repr(second)
    with run(small(), tmp_path / "kept", progress=False) as third:
        assert (third.status, third.outcome, repr(third)) == ("finished", None, tables)


def test_the_command_line_resumes_what_the_notebook_started_and_shows_the_same(
    fake_world: FakeWorld, tmp_path: Path
) -> None:
    fake_world()

    def stop(progress: RunProgress) -> None:
        if progress.finished is not None:
            raise KeyboardInterrupt

    run(small(), tmp_path / "kept", progress=stop, jobs=1).close()
    command = [
        sys.executable,
        "-c",
        "from fastopen.cli import main; main()",
        "resume",
        str(tmp_path / "kept"),
    ]
    resumed = subprocess.run(command, capture_output=True, text=True, check=True)
    with run(small(), tmp_path / "kept", progress=False) as finished:
        assert finished.outcome is None
        assert resumed.stdout == repr(finished)


def test_a_run_in_memory_leaves_nothing(fake_world: FakeWorld, tmp_path: Path) -> None:
    fake_world()
    with run(small(), keep=False) as done:
        assert done.folder is None
        assert len(done.frame()) == 3
    assert not (tmp_path / "runs").exists()


def test_a_run_that_cannot_be_kept_is_in_memory_and_says_so(
    fake_world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_world()
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("FASTOPEN_RUNS", str(tmp_path / "file" / "runs"))
    with pytest.warns(UserWarning, match="not kept: .*cannot be written: Not a directory; set FASTOPEN_RUNS"):
        done = run(small(), progress=False)
    with done:
        assert (done.folder, done.status) == (None, "finished")


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"until_ci": "0%"}, "out of bounds"), ({"until_ci": "1%", "max_repeats": 1}, "below --repeats")],
)
def test_a_precision_that_cannot_be_reached_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(small(), keep=False, **settings)  # type: ignore[arg-type]


def test_frames_without_pandas_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = made_up_run(tmp_path / "kept", made_up_plan([made_up_page("one")], repeats=1))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with open_run(kept) as opened, pytest.raises(MachineError, match="pip install pandas"):
        opened.frame()


def test_pages_are_chosen_by_their_facts_and_those_given_themselves_are_kept() -> None:
    (own,) = Experiment("example").pages()
    chosen = Experiment("example", "one-request", own.page, where="requests == 1").pages()
    assert [one.page.name for one in chosen] == ["one-request", "example"]
    assert len(Experiment("example", "one-request", "gnu", sample=2, seed=4).pages()) == 2


def test_the_package_imports_nothing_heavy_until_it_is_asked_for() -> None:
    heavy = "{'pydantic', 'altair', 'pandas'}"
    code = f"import sys, fastopen.common.errors; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fastopen.nonsense  # noqa: B018


# Jupyter warns about ports on this machine.
@pytest.mark.filterwarnings("default")
def test_the_example_notebook_runs_and_its_outputs_are_kept(fake_world: FakeWorld) -> None:
    fake_world()
    kept = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    ran = copy.deepcopy(kept)
    NotebookClient(ran, timeout=120, kernel_name="python3").execute()

    def shape(notebook: nbformat.NotebookNode) -> list[list[tuple[str, list[str]]]]:
        return [
            [(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs]
            for cell in notebook.cells
            if cell.cell_type == "code"
        ]

    assert shape(ran) == shape(kept)
    assert all(cell.execution_count for cell in kept.cells if cell.cell_type == "code")
    assert "60 of 60 loads" in str(ran.cells)


def test_completion_finds_the_names_of_the_api() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import fastopen; print(*dir(fastopen))"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = done.stdout.split()
    assert {"Experiment", "Run", "open_run", "run"} <= {*names}
    assert "Any" not in names
