"""Find installed kernels by name or path, and remove them."""

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, MachineError, any_of
from fastopen.common.resources import cache_folder
from fastopen.engines.kernels.manifest import MANIFEST, DamagedKernelError, Kernel, read_kernel

VARIABLE: Final = "FASTOPEN_KERNEL"
BUILD_IT: Final = "fastopen kernel build"
REBUILD: Final = f"run {BUILD_IT} --force"
PACKAGE: Final = "fastopen_kernel"


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
        raise MachineError(f"{folder} cannot be removed: {error}") from None
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
        raise MachineError(f"{kernels_folder()} cannot be read: {error}") from None
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
