"""Define a fixture that runs a program in a new world, in virtual time."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """The exit code, output and duration in virtual time of a program."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    report: dict


@pytest.fixture
def in_world() -> Callable[..., Outcome]:
    """Return a function that runs a command in a world: `in_world([...], "--rtt", "50ms", serve={"web":
    "..."})`.
    """

    def run(command: Sequence[str], *options: str, serve: dict[str, str] | None = None) -> Outcome:
        servers = [word for name, line in (serve or {}).items() for word in ("--serve", f"{name}={line}")]
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            done = subprocess.run(
                [
                    "fastopen",
                    "shell",
                    "--engine",
                    "virtual",
                    "--quiet",
                    "--report",
                    report.name,
                    *options,
                    *servers,
                    "--",
                    *command,
                ],
                cwd=HERE,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            said = json.loads(Path(report.name).read_text() or "{}")
        seconds = said.get("elapsed_us", 0) / 1e6
        return Outcome(done.returncode, done.stdout, done.stderr, seconds, said)

    return run
