"""Find the source of a Linux kernel (in apt, a tarball or a folder), identify it, and unpack it."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from fastopen.common.errors import InputError
from fastopen.common.process import pipe
from fastopen.engines.kernels import sha256_of

# tar's patterns for files of earlier builds in a folder. Without the recorded commands (*.cmd) the kernel's
# make builds everything again. No pattern may match a source file: */vmlinux* would match vmlinux.lds.S.
BUILT: Final = (
    *("*.o", "*.a", "*.ko", "*.cmd", "./vmlinux", "./linux", "./.config", "./.git"),
    *("./include/config", "./include/generated", "./arch/*/include/generated"),
)
# A source package contains a tarball. The ending of the tarball's name shows its compression.
_INNER: Final = (
    'case "$TAR_FILENAME" in *.xz) xz -T0 -dc ;; *.bz2) bzip2 -dc ;; *.gz) gzip -dc ;; *) cat ;; esac'
)
_OUTER: Final = ("tar", "-x", "--wildcards", "./usr/src/*linux-source-*.tar*", f"--to-command={_INNER}")


@dataclass
class KernelSource:
    """The source code of a Linux kernel. `identity` is a string that differs for each source, such as a
    digest. `name` and `version` go into the manifest, which lists facts about the built kernel."""

    name: str
    version: str
    """The version of the package; empty if the user gave the source, whose Makefile has the version."""
    identity: str
    fetch: Callable[[], Path]
    """Returns the folder, tarball or package, downloaded if necessary. Raises MachineError if that fails."""
    sha256: str | None = None
    """The digest of the tarball or package, known once it is unpacked; None for a folder."""

    def unpack(self, work: Path, tree: Path, unused: Path, log: IO[bytes]) -> None:
        """Unpack the source into the folder `tree`, without files that match a pattern in the file `unused`.
        If the source was downloaded into `work`, delete the download. Raises StepFailedError if a program
        fails, and MachineError if the download fails."""
        path = self.fetch()
        extract: list[str | Path] = ["tar", "-x", "-C", tree, "--strip-components=1", "--no-same-owner"]
        extract += ["--wildcards", f"--exclude-from={unused}"]
        if path.is_dir():
            built = [f"--exclude={pattern}" for pattern in BUILT]
            packed: list[str | Path] = ["tar", "-c", "-C", path, *built, f"--exclude-from={unused}", "."]
            pipe([packed, extract], log, work)
            return
        self.sha256 = self.sha256 or sha256_of(path)
        if path.suffix == ".deb":
            pipe([["dpkg-deb", "--fsys-tarfile", path], _OUTER, extract], log, work)
        else:
            pipe([[*extract, "--file", path]], log, work)
        if path.is_relative_to(work):
            path.unlink()  # this was a download, and the build needs the space


def given_source(path: Path) -> KernelSource:
    """Return the source at `path`, which the user gives with --source. Its files are never changed.

    The source is a folder, a package `linux-source-*.deb`, or a tarball such as those on kernel.org. Raises
    InputError if the path does not exist, or if the folder is not a kernel source."""
    whole = path.absolute()
    if path.is_dir():
        if not (path / "arch" / "um" / "Kconfig").is_file():
            raise InputError("not a Linux source: arch/um is missing", str(path), "give its top folder")
        return KernelSource(whole.name, "", _digest_of(whole), lambda: whole)
    if not path.is_file():
        remedy = "give a kernel's source: a folder, tarball or .deb"
        raise InputError("no such file or folder", str(path), remedy)
    digest = sha256_of(path)
    return KernelSource(path.name, "", digest, lambda: whole, digest)


def _digest_of(folder: Path) -> str:
    """Return a digest of the files' names, sizes and modification times. Hashing contents would be slower."""
    files: list[tuple[str, os.stat_result]] = []
    for root, _, names in os.walk(folder):
        paths = (os.path.join(root, name) for name in names)
        files += ((os.path.relpath(path, folder), os.lstat(path)) for path in paths)
    digest = hashlib.sha256()
    for name, status in sorted(files):
        line = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def link_that_leads_out(tree: Path) -> str | None:
    """Return the first symbolic link that leads out of `tree`, as `LINK -> TARGET`; None if there is none."""
    inside = tree.resolve()
    for path in inside.rglob("*"):
        # Unlike Path.resolve before Python 3.13, realpath accepts a link to itself.
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
            return f"{path.relative_to(inside)} -> {path.readlink()}"
    return None
