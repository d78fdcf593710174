"""Where the files that come with fastopen are: inside an installed wheel, or in a source checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def packaged_folder(name: str) -> Path | None:
    """The folder `name` (`pages`, `experiments`) that came with this fastopen, or None if there is none.

    A wheel holds them under `fastopen/_data/`; in a source checkout they lie at the root of the repository,
    beside `python/`. Installers unpack wheels on disk, so a real path can be given.
    """
    packaged = Path(str(resources.files("fastopen"))) / "_data" / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "python" / "fastopen").is_dir() and (checkout / name).is_dir():
        return checkout / name
    return None
