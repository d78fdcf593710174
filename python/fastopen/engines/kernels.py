"""Find, check and remove the installed kernels of the virtual engine, each with a file that describes it."""

import contextlib
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from fastopen.common.errors import InputError, MachineError, any_of
from fastopen.common.files import write_atomic
from fastopen.common.pydantic_errors import input_errors
from fastopen.common.resources import cache_folder
from fastopen.contract.part import Part

PROGRAM: Final = "linux"
MANIFEST: Final = "manifest.json"
# The folder of packetdrill scripts from the kernel's own source, next to the program.
SCRIPTS: Final = "packetdrill"
FORMAT: Final = 1

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+~-]*$", max_length=100)]
VARIABLE: Final = "FASTOPEN_KERNEL"
BUILD_IT: Final = "fastopen kernel build"
REBUILD: Final = f"run {BUILD_IT} --force"
PACKAGE: Final = "fastopen_kernel"


class DamagedKernelError(Exception):
    """Raised if the manifest or program of an installed kernel was changed, cannot be read or run, or is of
    another version of fastopen. The message states the fault."""


class Manifest(Part):
    """The content of an installed kernel's `manifest.json`: the kernel's version, sources and build.
    `size_bytes` is the size of the kernel's program. `hz` is the rate of the kernel's timer interrupts."""

    format: Literal[1] = FORMAT
    name: Name
    version: str
    """The version that the kernel reports, such as `7.3.4`."""
    source: str
    """The name of the source package, or of the given file or folder."""
    source_version: str
    source_sha256: Digest | None = None
    """The digest of the package or tarball; None for a folder, and if an older fastopen built the kernel."""
    config_sha256: Digest
    patches_sha256: Digest
    compiler: str
    size_bytes: Annotated[int, Field(gt=0)]
    sha256: Digest
    """The digest of the program."""
    hz: Annotated[int, Field(ge=100, le=1000)]
    arguments: list[str]
    """Arguments that this kernel needs on its command line, in addition to those that all kernels get."""
    built: str
    """The time of the build: ISO 8601, UTC."""
    build_seconds: Annotated[int, Field(ge=0)]
    conformance: str | None = None
    """The last result of `fastopen kernel conform`, a test of the kernel's TCP; None if it was not run."""


@dataclass(frozen=True)
class Kernel:
    """An installed User-Mode Linux kernel: the path of its program, and its manifest."""

    path: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """Return the name by which `--kernel` selects this kernel."""
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    def check(self) -> None:
        """Raise DamagedKernelError if the program changed after installation, OSError if it is unreadable."""
        if sha256_of(self.path) != self.manifest.sha256:
            raise DamagedKernelError(f"{self.path} is not the program that was installed")


def read_kernel(folder: Path) -> Kernel:
    """Read the kernel installed in `folder`. Raises DamagedKernelError if manifest or program is unusable.

    Only the program's size is compared with the manifest. `Kernel.check` compares the digest."""
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedKernelError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None
    except ValidationError as error:
        first = input_errors(error, "")[0]
        fault = "of another version of fastopen" if first.place == "format" else f"damaged: {first}"
        raise DamagedKernelError(f"{path} is {fault}") from None
    program = folder / PROGRAM
    if not program.is_file() or not os.access(program, os.X_OK):
        raise DamagedKernelError(f"{program} is not executable")
    size = program.stat().st_size
    if size != manifest.size_bytes:
        raise DamagedKernelError(f"{program} has {size} bytes instead of {manifest.size_bytes}")
    return Kernel(program, manifest)


def note_conformance(kernel: Kernel, line: str) -> None:
    """Write `line`, the result of a test of the kernel's TCP, to the kernel's manifest if it is writable."""
    manifest = kernel.manifest.model_copy(update={"conformance": line})
    with contextlib.suppress(OSError):
        write_atomic(kernel.path.parent / MANIFEST, manifest_text(manifest))


def manifest_text(manifest: Manifest) -> str:
    """Return the content of the manifest's file: JSON, with one key per line."""
    return json.dumps(manifest.model_dump(), indent=2, ensure_ascii=False) + "\n"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises OSError if the file cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kernels_folder() -> Path:
    """Return the folder in the user's cache into which kernels are installed. It may not exist yet."""
    return cache_folder("kernels")


def installed() -> list[Kernel]:
    """Return all usable kernels, sorted by version and then by the time of the build, the newest first."""
    return find_all()[0]


def find_all() -> tuple[list[Kernel], dict[Path, str]]:
    """Return all installed kernels: a list of the usable kernels, the newest first, and a mapping from the
    folder of each damaged kernel to its fault."""
    usable: list[Kernel] = []
    damaged: dict[Path, str] = {}
    for folder in _folders():
        try:
            usable.append(read_kernel(folder))
        except DamagedKernelError as error:
            damaged[folder] = str(error)
    usable.sort(key=lambda kernel: (version_key(kernel.version), kernel.manifest.built), reverse=True)
    return usable, damaged


def find(name: str | None = None) -> Kernel:
    """Return the kernel with this name or path. With a slash, it is a path. A name may be shortened if it
    stays unique. For None, use the environment variable FASTOPEN_KERNEL, or the newest kernel if it is not
    set. Raises InputError if no kernel or several kernels have this `name`, and MachineError if a path or the
    variable is wrong, if no kernel is installed, or if the kernel is damaged."""
    asked = name or os.environ.get(VARIABLE) or None
    try:
        kernel = _at(Path(asked), of_variable=name is None) if asked and "/" in asked else _named(asked)
    except InputError as error:
        if name:
            raise
        # Commands that also work without a kernel, such as doctor, handle only MachineError.
        raise MachineError(error.message, error.remedy) from None
    try:
        kernel.check()
    except (DamagedKernelError, OSError) as error:
        raise MachineError(f"the kernel {kernel.name} is damaged: {error}", REBUILD) from None
    return kernel


def find_recorded(name: str, sha256: str) -> Kernel:
    """Return the installed kernel with the name and SHA-256 that a run recorded. Raises MachineError if no
    such kernel is installed, or if it is damaged."""
    for kernel in installed():
        if kernel.name == name and kernel.manifest.sha256 == sha256:
            return find(name)
    message = f"the run's kernel {name!r} (SHA-256 {sha256[:12]}...) is not installed"
    raise MachineError(message, f"run {BUILD_IT}, or use another one with --kernel NAME")


def remove(name: str) -> Path:
    """Remove a usable or damaged kernel, and return the path of its removed folder. The name may be shortened
    if it stays unique. Raises InputError if not exactly one kernel matches, and MachineError if no kernel is
    installed or if it cannot be removed."""
    usable, damaged = find_all()
    folders = {kernel.name: kernel.path.parent for kernel in usable}
    folders |= {folder.name: folder for folder in damaged}
    folder = folders[_only(name, list(folders))]
    if folder.parent != kernels_folder():
        raise MachineError(f"{folder} belongs to a package", "run pip uninstall fastopen-kernel")
    try:
        (folder / MANIFEST).unlink(missing_ok=True)  # hides the kernel from other processes first
        shutil.rmtree(folder)
    except OSError as error:
        raise MachineError(f"{folder} cannot be removed: {error.strerror or error}") from None
    return folder


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers in a Linux version, for sorting: (7, 3, 4) for `7.3.4`."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _folders() -> list[Path]:
    try:
        found = sorted(path for path in kernels_folder().iterdir() if path.is_dir() and path.name[0] != ".")
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise MachineError(f"{kernels_folder()} cannot be read: {error.strerror or error}") from None
    spec = find_spec(PACKAGE)
    return found if spec is None or spec.origin is None else [Path(spec.origin).parent, *found]


def _named(asked: str | None) -> Kernel:
    usable, damaged = find_all()
    if asked is not None:
        for folder, fault in damaged.items():
            if folder.name == asked:
                raise MachineError(f"the kernel {asked} is damaged: {fault}", REBUILD)
        by_name = {kernel.name: kernel for kernel in usable}
        return by_name[_only(asked, list(by_name))]
    if not usable:
        broken = f"; {next(iter(damaged.values()))}" if damaged else ""
        raise MachineError(f"no kernel for virtual time is installed{broken}", f"run {BUILD_IT}")
    return usable[0]


def _only(asked: str, names: list[str]) -> str:
    if asked in names:
        return asked
    meant = [name for name in names if asked and name.startswith(asked)]
    if len(meant) == 1:
        return meant[0]
    build = f"run {BUILD_IT}" + (f" --version {asked}" if re.fullmatch(r"\d+\.\d+", asked) else "")
    if meant:
        raise InputError(f"several kernels begin with {asked!r}", remedy=f"use {any_of(sorted(meant))}")
    if names:
        raise InputError(f"kernel {asked!r} is not installed", remedy=f"use {any_of(names)}, or {build}")
    raise MachineError(f"kernel {asked!r} is not installed, nor any other", build)


def _at(path: Path, *, of_variable: bool) -> Kernel:
    folder = path if path.is_dir() else path.parent
    try:
        return read_kernel(folder.absolute())
    except DamagedKernelError as error:
        fault = f"not an installed kernel: {error}" if path.exists() else "no kernel there"
        if of_variable:
            remedy = f"set it to the kernel file, or unset it and run {BUILD_IT}"
            raise MachineError(f"{VARIABLE}={path}: {fault}", remedy) from None
        raise MachineError(f"{path}: {fault}", f"correct the path, or run {BUILD_IT}") from None
