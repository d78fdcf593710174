"""The source of a kernel: apt, a tarball or a folder; its identity, and how it is unpacked."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from fastopen.apps.kernels.apt import Apt, Package
from fastopen.common.errors import InputError
from fastopen.common.process import pipe
from fastopen.engines.kernels.manifest import sha256_of

# What an earlier build may have left in a folder, as tar's patterns. Without the commands it noted (*.cmd)
# the kernel's make does all again. None may match a source, as */vmlinux* would match vmlinux.lds.S.
BUILT: Final = (
    *("*.o", "*.a", "*.ko", "*.cmd", "./vmlinux", "./linux", "./.config", "./.git"),
    *("./include/config", "./include/generated", "./arch/*/include/generated"),
)


class Source(ABC):
    """One kernel's source. `name` and `version` go into the manifest."""

    name: str
    version: str
    sha256: str | None = None
    """Of the file that it comes in, once it is unpacked; None for a folder."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return a digest of names, sizes and times of change. Reading a gigabyte would take longer."""

    @abstractmethod
    def unpack(self, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
        """Write it into `tree`, without the files in `unused`. Raises StepFailedError, MachineError."""


class Packaged(Source):
    """A package that apt offers: fetched when it is unpacked."""

    def __init__(self, apt: Apt, package: Package) -> None:
        self.name, self.version = package.name, package.version
        self._apt, self._package = apt, package

    @property
    def identity(self) -> str:
        return f"{self.name} {self.version}"

    def unpack(self, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
        file = self._apt.download(self._package)
        self.sha256 = sha256_of(file)
        _unpack_package(file, work, tree, unused, log)
        file.unlink()


class GivenFile(Source):
    """A package `linux-source-*.deb`, or a tarball as kernel.org hands out; known by its digest."""

    def __init__(self, path: Path) -> None:
        self.name, self.version = path.name, ""
        self._path = path.absolute()
        self.sha256 = sha256_of(path)

    @property
    def identity(self) -> str:
        return str(self.sha256)

    def unpack(self, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
        if self._path.suffix == ".deb":
            _unpack_package(self._path, work, tree, unused, log)
        else:
            pipe([[*_extract(tree, unused), "--file", self._path]], log, work)


class Folder(Source):
    """An unpacked tree; it is read and never changed."""

    def __init__(self, path: Path) -> None:
        self.name, self.version = path.absolute().name, ""
        self._path = path.absolute()

    @property
    def identity(self) -> str:
        """Return a digest of names, sizes and times of change. Reading a gigabyte would take longer."""
        digest = hashlib.sha256()
        for path, status in sorted(_files(self._path)):
            digest.update(
                f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape")
            )
        return digest.hexdigest()

    def unpack(self, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
        built = [f"--exclude={pattern}" for pattern in BUILT]
        pipe(
            [
                ["tar", "-c", "-C", self._path, *built, f"--exclude-from={unused}", "."],
                _extract(tree, unused),
            ],
            log,
            work,
        )


def given_source(path: Path) -> Source:
    """Return the source of --source. Raises InputError if it is neither a kernel's folder nor a file."""
    if path.is_dir():
        if not (path / "arch" / "um" / "Kconfig").is_file():
            raise InputError("not a Linux source: arch/um is missing", str(path), "give its top folder")
        return Folder(path)
    if not path.is_file():
        raise InputError(
            "no such file or folder", str(path), "give a kernel's source: a folder, tarball or .deb"
        )
    return GivenFile(path)


def link_that_leads_out(tree: Path) -> str | None:
    """A symbolic link in an unpacked source through which the build would write elsewhere."""
    inside = tree.resolve()
    for root, folders, names in os.walk(inside):
        for name in (*folders, *names):
            path = Path(root, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                return f"{path.relative_to(inside)} -> {os.readlink(path)}"
    return None


def _unpack_package(file: Path, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
    # The package holds a tarball; its name says which compression it has.
    inner = 'case "$TAR_FILENAME" in *.xz) xz -T0 -dc ;; *.bz2) bzip2 -dc ;; *.gz) gzip -dc ;; *) cat ;; esac'
    outer = ["tar", "-x", "--wildcards", "./usr/src/*linux-source-*.tar*", f"--to-command={inner}"]
    pipe([["dpkg-deb", "--fsys-tarfile", file], outer, _extract(tree, unused)], log, work)


def _extract(tree: Path, unused: Path) -> list[str | Path]:
    without = f"--exclude-from={unused}"
    return ["tar", "-x", "-C", tree, "--strip-components=1", "--no-same-owner", "--wildcards", without]


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            yield os.path.relpath(path, folder), os.lstat(path)
