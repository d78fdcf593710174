"""The wheel: Python package, data and Rust program in one file, which works after installation."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from places import ROOT

# The environment without variables that would make tests use another program or package than the wheel's.
CLEAN = {name: value for name, value in os.environ.items() if name not in ("FASTOPEN_WORLD", "PYTHONPATH")}

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(name="wheel", scope="module")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], env=CLEAN, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(name="fastopen", scope="module")
def _fastopen(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment. Return the path of its command."""
    place = tmp_path_factory.mktemp("fresh")
    venv.create(place, with_pip=False)
    libraries = next((place / "lib").glob("python*")) / "site-packages"
    command = [sys.executable, "-m", "pip", "--quiet", "--python", str(place / "bin" / "python")]
    subprocess.run([*command, "install", "--no-deps", "--no-index", str(wheel)], env=CLEAN, check=True)
    # Dependencies come from this environment, so that the test needs no network. Installed files have
    # precedence.
    (libraries / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return place / "bin" / "fastopen"


def run(fastopen: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [fastopen, *arguments], cwd=fastopen.parent, env=CLEAN, capture_output=True, text=True, check=False
    )


def test_the_wheel_holds_package_data_and_program_for_any_python_on_this_platform(wheel: Path) -> None:
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        program = content.getinfo("fastopen/_bin/fastopen-world")
    assert program.external_attr >> 16 & 0o111, "the program can be executed"
    bench = "experiments/serve-bench/server-load.toml"
    data = ("pages/example.page.json", "experiments/published.csv", bench)
    assert {f"fastopen/_data/{name}" for name in data} <= names
    assert not any(name.startswith(("tests", "python/")) or name.endswith(".toml.bak") for name in names)


def test_an_installed_wheel_runs_with_its_own_program_and_data(fastopen: Path) -> None:
    version = run(fastopen, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    checks = {
        check["name"]: check for check in json.loads(run(fastopen, "doctor", "--json").stdout)["checks"]
    }
    assert str(fastopen.parents[1]) in checks["world program"]["detail"]
    assert "radhakrishnan2011" in run(fastopen, "reproduce", "--list").stdout
    assert "example" in run(fastopen, "page", "list").stdout
    assert "use radhakrishnan2011-server, server-load" in run(fastopen, "serve-bench", "none").stderr


def test_an_installed_wheel_loads_a_page(fastopen: Path) -> None:
    done = run(fastopen, "run", "example", "--rtt", "10ms", "--repeats", "1", "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(cell["invalid"] for cell in json.loads(done.stdout)["cells"]) == 0
