"""The virtual engine's kernels: built from the distribution's source, kept in the user's cache."""

from fastopen.kernels.build import Built, Request, build_kernel, is_outdated
from fastopen.kernels.manifest import Kernel, Manifest, note_conformance
from fastopen.kernels.progress import Stage
from fastopen.kernels.store import (
    BUILD_IT,
    find,
    find_all,
    find_recorded,
    installed,
    kernels_folder,
    remove,
)

__all__ = [
    "BUILD_IT",
    "Built",
    "Kernel",
    "Manifest",
    "Request",
    "Stage",
    "build_kernel",
    "find",
    "find_all",
    "find_recorded",
    "installed",
    "is_outdated",
    "kernels_folder",
    "note_conformance",
    "remove",
]
