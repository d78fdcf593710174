"""Read, write and check the file that describes an installed kernel of the virtual engine: its manifest."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from fastopen.common.atomic import write_atomic
from fastopen.common.pydantic_errors import input_errors
from fastopen.contract.part import Part

PROGRAM: Final = "linux"
MANIFEST: Final = "manifest.json"
# The folder of packetdrill scripts from the kernel's own source, next to the program.
SCRIPTS: Final = "packetdrill"
FORMAT: Final = 1

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+~-]*$", max_length=100)]


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
