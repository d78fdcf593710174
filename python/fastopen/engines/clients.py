"""Programs that load pages: where they are on this machine, and of which version."""

import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fastopen.browsers import find_browser
from fastopen.contract import Client, Job
from fastopen.errors import MachineError

# What a client that has a name is in, on Debian and its like.
PACKAGES: Final = {"curl": "curl", "wget2": "wget2"}
VERSION_TIMEOUT_S: Final = 10.0


def program_of(client: Client) -> Path:
    """Where the program of a command is. Raises MachineError that names the package."""
    assert client.command is not None
    name = client.command[0]
    found = shutil.which(name)
    if found is None:
        package = PACKAGES.get(client.label)
        remedy = f"apt install {package}" if package else "give its path, or put it into a folder of PATH"
        raise MachineError(f"client {client.label}: there is no program {name}", remedy)
    return Path(found).absolute()


def with_program(job: Job) -> Job:
    """The job with the path of its client's program: a world may look in other folders than we."""
    client = job.client
    if client.command is None:
        return job
    words = [str(program_of(client)), *client.command[1:]]
    return job.model_copy(update={"client": client.model_copy(update={"command": words})})


def describe_clients(clients: Iterable[Client]) -> dict[str, str]:
    """Name of each command to what it is: the version that it prints, or the program's digest.

    Raises MachineError where one is missing.
    """
    described: dict[str, str] = {}
    for client in clients:
        if client.kind == "chromium":
            described.setdefault(client.label, _version(find_browser()))
        elif client.command is not None and client.label not in described:
            program = program_of(client)
            # An unknown program may do anything when called with --version.
            named = client.label in PACKAGES
            described[client.label] = _version(program) if named else f"{program}, sha256 {_digest(program)}"
    return described


def _version(program: Path) -> str:
    try:
        asked = [str(program), "--version"]
        done = subprocess.run(
            asked, capture_output=True, text=True, errors="replace", timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{program} does not say its version: {error}") from None
    return next(iter(done.stdout.splitlines()), "unknown").strip()


def _digest(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
