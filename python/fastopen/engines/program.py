"""Find the program that emulates networks, `fastopen-world`, and check that it works on this machine."""

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import MachineError
from fastopen.common.process import output_of
from fastopen.engines.kernels.manifest import sha256_of

NAME: Final = "fastopen-world"
VARIABLE: Final = "FASTOPEN_WORLD"
ANSWER_S: Final = 30


def find_program() -> Path:
    """Return the path of `fastopen-world`, which emulates networks. Raises MachineError if it is missing."""
    named = os.environ.get(VARIABLE)
    if named:
        if not _runnable(Path(named)):
            fault = "is not executable" if Path(named).exists() else "does not exist"
            raise MachineError(f"{VARIABLE}={named} {fault}", f"correct it or unset {VARIABLE}")
        return Path(named).absolute()
    package = Path(str(resources.files("fastopen")))
    checkout = package.parents[1]
    for candidate in (package / "_bin" / NAME, checkout / "target" / "release" / NAME):
        if _runnable(candidate):
            return candidate
    if (checkout / "Cargo.toml").is_file():
        raise MachineError(f"the program {NAME} has not been built", f"run make in {checkout}")
    raise MachineError(f"the program {NAME} is missing from this installation", "install fastopen again")


def program_version(program: Path) -> str:
    """Return the version that `fastopen-world --version` prints. Raises MachineError if the program fails."""
    return _ask(program, "--version").strip().removeprefix(NAME).strip()


def program_digest(program: Path) -> str:
    """Return the SHA-256 of the program's file in hexadecimal. Raises MachineError if it cannot be read."""
    try:
        return sha256_of(program)
    except OSError as error:
        raise MachineError(f"{program} cannot be read: {error.strerror or error}") from None


def check_program(program: Path) -> list[dict[str, Any]]:
    """Check with `fastopen-world --check` that this machine can run jobs. Return the `name`, `ok`, `detail`
    and `remedy` of each check, passed or failed. Raises MachineError if the program prints no results."""
    try:
        checks = json.loads(_ask(program, "--check"))["checks"]
        return [{key: check[key] for key in ("name", "ok", "detail", "remedy")} for check in checks]
    except (ValueError, KeyError, TypeError):
        raise MachineError(f"{program} --check gave an unknown answer", "build or install it again") from None


def _ask(program: Path, question: str) -> str:
    try:
        answer = output_of([program, question], ANSWER_S)
    except OSError as error:
        raise MachineError(f"{program} {question} failed: {error}", "build or install it again") from None
    # With --check, the program may print valid results and exit with an error because a check failed.
    if answer.returncode != 0 and not answer.stdout.strip():
        lines = answer.stderr.strip().splitlines()
        raise MachineError(f"{program} {question} failed: {lines[-1] if lines else answer.returncode}")
    return answer.stdout


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
