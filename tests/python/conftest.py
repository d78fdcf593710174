"""What several tests share: small plans, and the fake world program."""

import json
import os
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

# The tests of every day try the same examples each time, so that what fails was broken by a change;
# `make fuzz` looks for more.
# How long an example takes says how busy the machine is.
always = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("same", always, derandomize=True)
settings.register_profile("quick", always, derandomize=True, max_examples=10)
settings.register_profile("long", always, max_examples=20_000)
settings.load_profile("same")

# Programs under test take signals as in a terminal, also where these tests were started with some ignored: by
# nohup, or in the background of a shell.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# pytest-xdist has its own width for its workers; what programs under test print is as wide as in a pipe.
os.environ["COLUMNS"] = "100"

HERE = Path(__file__).parent


def _machines_kernel() -> Path | None:
    """The program of the kernel that the machine's user would get, before tests hide it."""
    try:
        return kernels.find().path
    except MachineError:
        return None


_MACHINES_KERNEL = _machines_kernel()
GOLDEN = HERE.parent / "contract"
FAKE_WORLD = HERE / "fake_world.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests over the fake world start processes by the dozen: `make check` leaves them out.

    Those of real worlds come last, and with them all that ask for the kernel: before it is built they would
    be skipped.
    """
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}
        if {"fake_world", "fake_world_of_module"} & fixtures:
            item.add_marker(pytest.mark.slow)
        if "kernel" in fixtures:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


@pytest.fixture(autouse=True)
def _no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of the virtual engine is installed for a test, whatever is on the machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    monkeypatch.delenv("FASTOPEN_KERNEL", raising=False)


@pytest.fixture(name="kernel")
def _kernel(_no_kernel: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's own kernel of the virtual engine, which is the one installed for this test."""
    if _MACHINES_KERNEL is None:
        pytest.skip("no kernel of the virtual engine is installed: fastopen kernel build")
    monkeypatch.setenv("FASTOPEN_KERNEL", str(_MACHINES_KERNEL))
    return _MACHINES_KERNEL


@pytest.fixture(autouse=True)
def _no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that a test keeps are nobody else's."""
    monkeypatch.setenv("FASTOPEN_RUNS", str(tmp_path / "runs"))


@pytest.fixture(name="page", scope="session")
def _page() -> Page:
    """The golden job's page: one resource."""
    return Job.model_validate_json((GOLDEN / "job-minimal.json").read_text()).page


@pytest.fixture(name="small_plan")
def _small_plan(page: Page) -> Callable[..., Plan]:
    """A function that plans one page over RTTs (in ms) with 4 Mbit/s down and 256 kbit/s up."""

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
    """A function that says how the fake world behaves, by job id or `*`, and returns its path."""
    state = folder / "state"
    state.mkdir()

    def configure(modes: dict[str, str] | None = None) -> Path:
        monkeypatch.setenv("FAKE_WORLD", json.dumps(modes or {}))
        monkeypatch.setenv("FAKE_WORLD_STATE", str(state))
        # Started by hundreds: without the user's site packages, and past any wrapper that PATH leads to.
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
    """The same for a run that several tests read, and none changes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield fake_world_in(tmp_path_factory.mktemp("fake-world"), monkeypatch)
