"""Find the program that emulates networks, `fastopen-world`, and check that it works on this machine.

Find the external programs that load or serve pages, and their versions."""

import json
import os
import shlex
import shutil
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fastopen.common.errors import MachineError
from fastopen.common.process import output_of
from fastopen.contract import Client, Job
from fastopen.engines.kernels import sha256_of

NAME: Final = "fastopen-world"
VARIABLE: Final = "FASTOPEN_WORLD"
ANSWER_S: Final = 30
VERSION_TIMEOUT_S: Final = 10.0
# Folders in which Debian and similar systems install servers.
SERVER_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"


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


def program_of(client: Client) -> Path:
    """Return the absolute path of an external client's program. Raises MachineError if it is not found."""
    if client.type.executables:
        return client.type.find()
    assert client.command is not None
    remedy = "give its path, or add its folder to PATH"
    return _absolute(shutil.which(client.command[0]), f"client {client.label}", client.command[0], remedy)


def _absolute(found: str | None, user: str, name: str, remedy: str) -> Path:
    if found is None:
        raise MachineError(f"{user}: program {name} not found", remedy)
    return Path(found).absolute()


def with_programs(job: Job) -> Job:
    """Return a copy of the job in which the external programs that load and serve its page have absolute
    paths. For a known client, such as curl, set the exit codes that stand for HTTP errors. If a known client
    is installed in /usr, isolate it from the user's files. Raises MachineError if a program is not found."""
    words = job.origins.server
    if words is not None:
        server = [str(_program_of_server(words)), *words[1:]]
        job = job.model_copy(update={"origins": job.origins.model_copy(update={"server": server})})
    client = job.client
    if client.command is None:
        return job
    program = program_of(client)
    # A client that fastopen knows and the system installed (/usr) needs none of the user's files: isolate it.
    known = bool(client.type.executables) and program.is_relative_to("/usr")
    settings = {
        "command": [str(program), *client.command[1:]],
        "isolate": client.isolate or known,
        "exit_codes": list(client.type.exit_codes),
    }
    return job.model_copy(update={"client": client.model_copy(update=settings)})


def _program_of_server(words: Sequence[str]) -> Path:
    found = shutil.which(words[0]) or shutil.which(words[0], path=SERVER_FOLDERS)
    return _absolute(found, "server", words[0], "install it, or give its path")


def describe_servers(servers: Iterable[Sequence[str] | None]) -> dict[str, str]:
    """Map each server's command line to a text that identifies its version: the SHA-256 of its program and of
    the files in its arguments. Skip servers that are None. Raises MachineError if a program is not found."""
    described = {}
    for words in servers:
        if words is not None:
            files = [_program_of_server(words), *(path for path in map(Path, words[1:]) if path.is_file())]
            described[shlex.join(words)] = ", ".join(f"{path} sha256 {sha256_of(path)}" for path in files)
    return described


def describe_clients(clients: Iterable[Client]) -> dict[str, str]:
    """Map the label of each external client to the version that its program prints, or to the path and
    SHA-256 of an unknown program. Raises MachineError if a program is missing or cannot be run."""
    described: dict[str, str] = {}
    for client in clients:
        known = bool(client.type.executables)
        if client.label in described or (client.command is None and not known):
            continue
        program = program_of(client)
        # An unknown program may do anything when called with --version.
        about = _version_lines(program)[0] if known else f"{program}, sha256 {sha256_of(program)}"
        described[client.label] = about
    return described


def check_versions(client: Client, versions: Iterable[str]) -> None:
    """Raise MachineError if the client's program was built without support for one of the HTTP versions."""
    features = client.type.http_features
    needed = {version: features[version] for version in versions if version in features}
    if not needed:
        return
    program = program_of(client)
    first_line, *further_lines = _version_lines(program)
    short = first_line.partition(" (")[0]
    for version, feature in needed.items():
        if feature not in " ".join(further_lines).split():
            message = f"client {client.label}: {program} does not speak HTTP/{version} ({short})"
            remedy = f"install one whose --version names {feature}, or use another version of HTTP"
            raise MachineError(message, remedy)


def _version_lines(program: Path) -> list[str]:
    try:
        done = output_of([str(program), "--version"], VERSION_TIMEOUT_S)
    except OSError as error:
        raise MachineError(f"{program} does not print its version: {error}") from None
    return [line.strip() for line in done.stdout.splitlines()] or ["unknown"]
