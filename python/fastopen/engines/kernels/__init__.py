"""Find and check the virtual engine's installed kernels. `fastopen.apps.kernels.build` builds them."""

from fastopen.engines.kernels.store import (
    BUILD_IT,
    Kernel,
    Manifest,
    find,
    find_all,
    find_recorded,
    installed,
    kernels_folder,
    note_conformance,
    remove,
)
