"""Build and install a Linux kernel, or reuse an installed one with the same source, options and patches."""

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Final

from typer import Option

from fastopen.apps.kernels import compile as step
from fastopen.apps.kernels import trial
from fastopen.apps.kernels.apt import Apt
from fastopen.apps.kernels.sources import given_source, link_that_leads_out
from fastopen.common.errors import InputError, MachineError
from fastopen.common.process import StepFailedError, check_programs, errors_in
from fastopen.engines.kernel_recipe import Recipe, is_built_from, read_recipe
from fastopen.engines.kernels import (
    MANIFEST,
    PROGRAM,
    SCRIPTS,
    Kernel,
    Manifest,
    installed,
    kernels_folder,
    manifest_text,
    read_kernel,
    sha256_of,
)

# The programs that the build calls, with the Debian packages that contain them.
TOOLS: Final = {
    "gcc": "gcc libc6-dev",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
# Disk space for the package, the needed part of the source and the objects; see docs/measurements/kernel.md.
NEEDED_BYTES: Final = 1_000_000_000
MAKE_ROOM: Final = "free some space, or set XDG_CACHE_HOME to a folder on another disk"
LOCK: Final = ".lock"
PREFIX: Final = ".build-"
LOG: Final = "build.log"

Watcher = Callable[[str, str, int], None]
"""A function that shows the stage of a build, such as "compiling", its detail, such as "Linux 6.12", and the
number of compiled files, which is 0 except while compiling."""


@contextlib.contextmanager
def workspace(folder: Path, waiting: Callable[[], None]) -> Iterator[Path]:
    """Lock `folder`, and yield a temporary folder in it. If another build has the lock, first call `waiting`.

    Remove folders that killed builds left behind. Raises MachineError if `folder` cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("wb")
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror or error}"
        raise MachineError(message, "set XDG_CACHE_HOME elsewhere") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder, ignore_cleanup_errors=True) as work:
            yield Path(work)


@dataclass(frozen=True)
class BuildRequest:
    """The options of a kernel's build, which `with_settings` adds to the command. `if_missing` accepts an
    installed kernel of any version with the same kernel options and patches."""

    source: Annotated[
        Path | None, Option(metavar="PATH", help="A folder, tarball or .deb of Linux. (default: from apt)")
    ] = None
    series: Annotated[
        str | None, Option("--version", metavar="X.Y", help="Version of apt's kernels. (default: the newest)")
    ] = None
    force: Annotated[bool, Option("--force", help="Build an installed kernel again.")] = False
    if_missing: Annotated[
        bool, Option("--if-missing", help="Build only if no kernel of this configuration is installed.")
    ] = False
    jobs: Annotated[
        int | None,
        Option("--jobs", "-j", min=1, help="Number of parallel compilers. (default: one per core)"),
    ] = None


@dataclass(frozen=True)
class Built:
    """The kernel that `build_kernel` returns. `new` is False if it was installed before."""

    kernel: Kernel
    new: bool


def build_kernel(request: BuildRequest, watch: Watcher) -> Built:
    """Build, test and install a kernel, or return an installed one with the same source, options and patches.

    `watch` is called at each stage. Raises InputError for an unusable source, and MachineError if this
    machine cannot build a kernel."""
    if request.force and request.if_missing:
        raise InputError("cannot be combined with --if-missing", "--force", "drop one of them")
    recipe = read_recipe()
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        message = f"the virtual engine needs Linux on x86-64; this is {sys.platform} on {platform.machine()}"
        raise MachineError(message, "use --engine host")
    there = next((kernel for kernel in installed() if is_built_from(kernel, recipe)), None)
    if there is not None and request.if_missing:
        return Built(there, new=False)
    check_programs(TOOLS, "the kernel's build")
    folder = kernels_folder()
    started = time.monotonic()
    with workspace(folder, lambda: watch("waiting", "waiting for another build", 0)) as work:
        free = shutil.disk_usage(folder).free
        if free < NEEDED_BYTES:
            needed = f"a kernel's build needs {NEEDED_BYTES / 1e6:.0f} MB"
            raise MachineError(f"{folder} has {free / 1e6:.0f} MB free and {needed}", MAKE_ROOM)
        with (folder / LOG).open("wb", buffering=0) as log:  # unbuffered: programs write into it as well
            try:
                return _build(request, recipe.copied_to(work / "recipe"), work, log, watch, started)
            except StepFailedError as error:
                raise MachineError(*_message_and_remedy(error.program, folder / LOG)) from None
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                message = f"the disk of {folder} is full" if full else f"the build failed: {error}"
                raise MachineError(message, MAKE_ROOM if full else "") from None


def _build(
    request: BuildRequest, recipe: Recipe, work: Path, log: IO[bytes], watch: Watcher, started: float
) -> Built:
    if request.source is not None:
        source = given_source(request.source)
    else:
        watch("asking apt", "for the newest kernel source", 0)
        source = Apt(work / "apt").newest(request.series)
    inputs = "\n".join([source.identity, recipe.config_sha256, recipe.patches_sha256])
    key = hashlib.sha256(inputs.encode()).hexdigest()[:8]
    for kernel in installed():
        if kernel.name.endswith(f"-{key}") and not request.force:
            return Built(kernel, new=False)
    tree = work / "linux"
    tree.mkdir()
    watch("unpacking", f"{source.name} {source.version}".strip(), 0)
    try:
        source.unpack(work, tree, recipe.unused, log)
    except StepFailedError as error:
        message, remedy = _message_and_remedy(error.program, Path(log.name))
        if request.source is None or remedy == MAKE_ROOM:
            raise
        raise InputError(f"cannot be unpacked; {message}", str(request.source), remedy) from None
    if request.source is not None and (link := link_that_leads_out(tree)) is not None:
        raise InputError(f"contains a link to a place outside it: {link}", str(request.source))
    version = step.kernel_version(tree)
    watch("configuring", f"Linux {version} for User-Mode Linux", 0)
    step.patch(tree, recipe, log)
    jobs = request.jobs or len(os.sched_getaffinity(0))
    step.configure(tree, recipe, jobs, log)
    program = step.make(tree, recipe, jobs, log, partial(watch, "compiling", f"Linux {version}"))
    watch("trying", "booting it twice", 0)
    arguments = trial.needed_arguments(program)
    trial.try_out(program, arguments, recipe.trial, work, log)
    manifest = Manifest(
        name=f"{version}-{key}",
        version=version,
        source=source.name,
        source_version=source.version or version,
        source_sha256=source.sha256,
        config_sha256=recipe.config_sha256,
        patches_sha256=recipe.patches_sha256,
        compiler=step.compiler(tree),
        size_bytes=program.stat().st_size,
        sha256=sha256_of(program),
        hz=int(recipe.options()["CONFIG_HZ"].split("=")[1]),
        arguments=arguments,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        build_seconds=round(time.monotonic() - started),
    )
    return Built(_install(work, program, manifest), new=True)


def _install(work: Path, program: Path, manifest: Manifest) -> Kernel:
    ready = work / "ready"
    ready.mkdir()
    program.rename(ready / PROGRAM)
    (ready / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    scripts = program.parent / step.PACKETDRILL
    if scripts.is_dir():
        shutil.copytree(scripts, ready / SCRIPTS)
    place = work.parent / manifest.name
    if place.exists():
        place.rename(work / "replaced")
    ready.rename(place)
    return read_kernel(place)


def _message_and_remedy(program: str, log: Path) -> tuple[str, str]:
    if b"No space left on device" in log.read_bytes():
        return (f"the disk of {log.parent} is full", MAKE_ROOM)
    message = f"the kernel's build failed in {Path(program).name}: {errors_in(log)}"
    return message, f"the whole log is {log}"
