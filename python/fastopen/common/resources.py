"""The place of files that come with fastopen: in an installed wheel, or in a source checkout."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path


def cache_folder(name: str) -> Path:
    """This user's cache for `name`; need not exist yet. XDG base directory specification 0.8."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "fastopen" / name


def packaged_folder(name: str) -> Path | None:
    """The folder `name` (`pages`, `experiments`) that came with this fastopen, or None if there is none.

    A wheel holds them under `fastopen/_data/`; in a source checkout they lie at the root of the repository,
    in the folder that holds `python/`. Installers unpack wheels on disk, so a real path can be given.
    """
    packaged = Path(str(resources.files("fastopen"))) / "_data" / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "python" / "fastopen").is_dir() and (checkout / name).is_dir():
        return checkout / name
    return None
