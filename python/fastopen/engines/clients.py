"""Programs that load pages: where they are on this machine, and of which version."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fastopen.contract import Client, Job
from fastopen.errors import MachineError
from fastopen.kernels.manifest import sha256_of

VERSION_TIMEOUT_S: Final = 10.0


def program_of(client: Client) -> Path:
    """Where the program of a client is that is not ours. Raises MachineError that says how to get it."""
    if client.type.executables:
        return client.type.find()
    assert client.command is not None
    name = client.command[0]
    found = shutil.which(name)
    if found is None:
        remedy = "give its path, or put it into a folder of PATH"
        raise MachineError(f"client {client.label}: there is no program {name}", remedy)
    return Path(found).absolute()


def with_program(job: Job) -> Job:
    """The job with the path of its client's program: a world may look in other folders than we."""
    client = job.client
    if client.command is None:
        return job
    program = program_of(client)
    # A tool of the system's reads no file of the user's.
    known = bool(client.type.executables) and program.is_relative_to("/usr")
    settings = {
        "command": [str(program), *client.command[1:]],
        "isolate": client.isolate or known,
    }
    return job.model_copy(update={"client": client.model_copy(update=settings)})


def describe_clients(clients: Iterable[Client]) -> dict[str, str]:
    """Name of each client that is not ours to what it is: the version it prints, or the program's digest.

    Raises MachineError where one is missing.
    """
    described: dict[str, str] = {}
    for client in clients:
        known = bool(client.type.executables)
        if client.label in described or (client.command is None and not known):
            continue
        program = program_of(client)
        # An unknown program may do anything when called with --version.
        described[client.label] = _version(program) if known else f"{program}, sha256 {sha256_of(program)}"
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
