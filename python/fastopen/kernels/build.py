"""`fastopen kernel build`: from nothing to an installed kernel, or to the one that is installed already."""

import errno
import hashlib
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from fastopen.errors import MachineError
from fastopen.kernels import compile as step
from fastopen.kernels import trial
from fastopen.kernels.apt import Apt
from fastopen.kernels.machine import MAKE_ROOM, check_processor, check_room, check_tools
from fastopen.kernels.manifest import (
    MANIFEST,
    PROGRAM,
    Kernel,
    Manifest,
    manifest_text,
    read_kernel,
    sha256_of,
)
from fastopen.kernels.process import StepFailedError
from fastopen.kernels.progress import Stage, Watcher
from fastopen.kernels.recipe import Recipe, read_recipe
from fastopen.kernels.sources import Packaged, Source, given_source
from fastopen.kernels.store import installed, kernels_folder
from fastopen.kernels.workspace import workspace

LOG: Final = "build.log"
SHOWN_LINES: Final = 3


@dataclass(frozen=True)
class Request:
    """What is to be built: of a given source, else of what apt offers, the newest or one series (`6.12`).

    `force` builds again what is installed; `if_missing` is content with any kernel of this recipe.
    """

    source: Path | None = None
    series: str | None = None
    force: bool = False
    if_missing: bool = False
    jobs: int | None = None


@dataclass(frozen=True)
class Built:
    """The kernel asked for, and whether it had to be built."""

    kernel: Kernel
    new: bool


def build_kernel(request: Request, watch: Watcher) -> Built:
    """Builds, tries and installs a kernel in the user's cache, unless the same inputs were built before.

    Raises InputError where the given source is none, MachineError where this machine cannot do it.
    """
    recipe = read_recipe()
    check_processor()
    there = _of_recipe(recipe) if request.if_missing and not request.force else []
    if there:
        return Built(there[0], new=False)
    check_tools()
    folder = kernels_folder()
    started = time.monotonic()
    with workspace(folder, lambda: watch(Stage("waiting", "another build is under way"))) as work:
        check_room(folder)
        with (folder / LOG).open("wb", buffering=0) as log:  # programs write into it too
            try:
                return _build(_Job(request, recipe, work, log, watch, started))
            except StepFailedError as error:
                raise MachineError(*_why(error.program, folder / LOG)) from None
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                said = f"the disk of {folder} is full" if full else f"the build failed: {error}"
                raise MachineError(said, MAKE_ROOM if full else "") from None


@dataclass(frozen=True)
class _Job:
    request: Request
    recipe: Recipe
    work: Path
    log: IO[bytes]
    watch: Watcher
    started: float


def _build(job: _Job) -> Built:
    source = _source(job)
    key = _key(source, job.recipe)
    for kernel in installed():
        if kernel.name.endswith(f"-{key}") and not job.request.force:
            return Built(kernel, new=False)
    tree = job.work / "linux"
    tree.mkdir()
    job.watch(Stage("unpacking", f"{source.name} {source.version}".strip()))
    source.unpack(job.work, tree, job.recipe.unused, job.log)
    version = step.kernel_version(tree)
    job.watch(Stage("configuring", f"Linux {version} for User-Mode Linux"))
    step.patch(tree, job.recipe, job.log)
    step.configure(tree, job.recipe, job.log)
    program = step.make(
        tree,
        job.request.jobs or len(os.sched_getaffinity(0)),
        job.log,
        lambda files: job.watch(Stage("compiling", f"Linux {version}", files, step.FILES_ABOUT)),
    )
    job.watch(Stage("trying", "booting it twice"))
    arguments = trial.needed_arguments(program)
    trial.try_out(program, arguments, job.recipe.trial, job.work, job.log)
    manifest = _manifest(job, source, f"{version}-{key}", version, program, arguments)
    return Built(_install(job, program, manifest), new=True)


def _source(job: _Job) -> Source:
    if job.request.source is not None:
        return given_source(job.request.source)
    job.watch(Stage("asking apt", "for the newest kernel source"))
    apt = Apt(job.work / "apt")
    package = apt.newest(job.request.series)
    return Packaged(apt, package)


def _of_recipe(recipe: Recipe) -> list[Kernel]:
    """The installed kernels that were built with this configuration and these patches, best first."""
    made = (recipe.config_sha256, recipe.patches_sha256)
    return [k for k in installed() if (k.manifest.config_sha256, k.manifest.patches_sha256) == made]


def _key(source: Source, recipe: Recipe) -> str:
    """Eight digits that stand for all inputs."""
    inputs = "\n".join([source.identity, recipe.config_sha256, recipe.patches_sha256])
    return hashlib.sha256(inputs.encode()).hexdigest()[:8]


def _manifest(
    job: _Job, source: Source, name: str, version: str, program: Path, arguments: list[str]
) -> Manifest:
    return Manifest(
        name=name,
        version=version,
        source=source.name,
        source_version=source.version or version,
        config_sha256=job.recipe.config_sha256,
        patches_sha256=job.recipe.patches_sha256,
        compiler=step.compiler(program.parent),
        size_bytes=program.stat().st_size,
        sha256=sha256_of(program),
        hz=int(job.recipe.options()["CONFIG_HZ"].split("=")[1]),
        arguments=arguments,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        build_seconds=round(time.monotonic() - job.started),
    )


def _install(job: _Job, program: Path, manifest: Manifest) -> Kernel:
    """Puts the kernel in its place in one step; one of the same name gives way."""
    ready = job.work / "ready"
    ready.mkdir()
    program.rename(ready / PROGRAM)
    (ready / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    place = job.work.parent / manifest.name
    if place.exists():
        place.rename(job.work / "replaced")
    ready.rename(place)
    return read_kernel(place)


def _why(program: str, log: Path) -> tuple[str, str]:
    """The error of a build that failed, from the last lines of its log that tell a fault."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    if any("No space left on device" in line for line in lines):
        return (
            f"the disk of {log.parent} is full",
            MAKE_ROOM,
        )
    telling = [line for line in lines if "error" in line.lower() or "***" in line] or [x for x in lines if x]
    said = " | ".join(telling[-SHOWN_LINES:])
    return f"the kernel's build failed in {Path(program).name}: {said}", f"the whole log is {log}"
