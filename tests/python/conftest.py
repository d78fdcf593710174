"""Fixtures for several tests: small plans, the fake world program, kernels and folders of runs."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fastopen.common.errors import MachineError
from fastopen.contract import Job
from fastopen.engines import kernels
from fastopen.experiments import Experiment, Plan, make_plan
from fastopen.pages import Page

# The usual tests try the same examples each time, so that a change has broken an example that fails. `make
# fuzz` tries new ones. Examples have no time limit, because their time depends on how busy the machine is.
always = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("same", always, derandomize=True)
settings.register_profile("quick", always, derandomize=True, max_examples=10)
settings.register_profile("long", always, max_examples=20_000)
settings.load_profile("same")

# Programs under test get the default signal handlers, even if these tests were started with signals ignored:
# by nohup, or in the background of a shell.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# The width of output in a pipe. pytest-xdist would set another one for its workers.
os.environ["COLUMNS"] = "100"

HERE = Path(__file__).parent


def _machines_kernel() -> Path | None:
    """Return the kernel that fastopen finds on this machine, if any. Fixtures hide this kernel from tests."""
    try:
        return kernels.find().path
    except MachineError:
        return None


_MACHINES_KERNEL = _machines_kernel()
GOLDEN = HERE.parent / "contract"
FAKE_WORLD = HERE / "fake_world.py"
# The text of a module that has tests of worlds.
_OF_WORLDS = re.compile(r'mark\.(e2e|real_time)|"kernel"|\bkernel: Path')


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore modules without tests of worlds if only such tests run: importing all takes seconds."""
    if config.option.markexpr not in ("real_time", "not real_time and e2e") or collection_path.is_dir():
        return None
    return None if _OF_WORLDS.search(collection_path.read_text()) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the fake world as slow, and tests that use a kernel as end-to-end tests.

    `make check` leaves slow tests out: these start dozens of processes. End-to-end tests come last, because
    tests that need a kernel would be skipped before it is built.
    """
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}
        if {"fake_world", "fake_world_of_module"} & fixtures:
            item.add_marker(pytest.mark.slow)
        if "kernel" in fixtures:
            item.add_marker(pytest.mark.e2e)
        of_world = any(mark.name in ("e2e", "real_time") for mark in item.iter_markers())
        assert not of_world or _OF_WORLDS.search(item.path.read_text()), item.nodeid
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


@pytest.fixture(autouse=True)
def _no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the installed kernels of the virtual engine from a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    monkeypatch.delenv("FASTOPEN_KERNEL", raising=False)


@pytest.fixture(name="kernel")
def _kernel(_no_kernel: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the machine's kernel available to a test. Return its path. Skips the test if there is none."""
    if _MACHINES_KERNEL is None:
        pytest.skip("no kernel of the virtual engine is installed: fastopen kernel build")
    monkeypatch.setenv("FASTOPEN_KERNEL", str(_MACHINES_KERNEL))
    return _MACHINES_KERNEL


@pytest.fixture(autouse=True)
def _no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store each test's runs in a separate folder."""
    monkeypatch.setenv("FASTOPEN_RUNS", str(tmp_path / "runs"))


@pytest.fixture(name="page", scope="session")
def _page() -> Page:
    """Return the page of the minimal golden job, which has one resource."""
    return Job.model_validate_json((GOLDEN / "job-minimal.json").read_text()).page


@pytest.fixture(name="small_plan")
def _small_plan(page: Page) -> Callable[..., Plan]:
    """Return a function that plans one page over RTTs (in ms), with 4 Mbit/s down and 256 kbit/s up."""

    def plan(rtts_ms: tuple[int, ...] = (20,), repeats: int = 2) -> Plan:
        limits = {
            "down": {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000},
            "up": {"rate_bit_per_s": 256_000, "queue_bytes": 96_000},
        }
        networks = [{"rtt_us": rtt * 1000, **limits} for rtt in rtts_ms]
        data = {"name": "small", "pages": ["small"], "networks": networks, "repeats": repeats, "seed": 7}
        return make_plan(Experiment.model_validate_json(json.dumps(data)), [page])

    return plan


def fake_world_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that sets the fake world's mode for each job id (`*`: all others) and returns the
    path of the fake program."""
    state = folder / "state"
    state.mkdir()

    def configure(modes: dict[str, str] | None = None) -> Path:
        monkeypatch.setenv("FAKE_WORLD", json.dumps(modes or {}))
        monkeypatch.setenv("FAKE_WORLD_STATE", str(state))
        # Tests start hundreds of these, so the interpreter runs without site packages and without a wrapper
        # in PATH.
        program = folder / "fastopen-world"
        run = f"runpy.run_path({str(FAKE_WORLD)!r}, run_name='__main__')"
        program.write_text(f"#!{sys.executable} -SE\nimport runpy\n{run}\n")
        program.chmod(0o700)
        monkeypatch.setenv("FASTOPEN_WORLD", str(program))
        return program

    return configure


@pytest.fixture(name="fake_world")
def _fake_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    return fake_world_in(tmp_path, monkeypatch)


@pytest.fixture(name="fake_world_of_module", scope="module")
def _fake_world_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """Yield the fake world for a whole module, for runs that several tests read and no test changes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield fake_world_in(tmp_path_factory.mktemp("fake-world"), monkeypatch)
