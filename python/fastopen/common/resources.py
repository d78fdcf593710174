"""Find the data files that come with fastopen, and the user's cache folder."""

import os
from importlib import resources
from pathlib import Path

from fastopen.common.errors import InputError


def cache_folder(name: str) -> Path:
    """Return fastopen's folder `name` in the user's cache (XDG base directories). It may not exist yet."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "fastopen" / name


def packaged_folder(name: str) -> Path | None:
    """Return the folder `name`, such as `pages`, of data files that come with fastopen; None if missing."""
    # A wheel has the folders in `fastopen/_data/`. In a source checkout, they are in the root of the
    # repository, next to `python/`. Installers unpack wheels on disk, so the folder has a real path.
    packaged = Path(str(resources.files("fastopen"))) / "_data" / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3]
    found = (checkout / "python" / "fastopen").is_dir() and (checkout / name).is_dir()
    return checkout / name if found else None


def packaged_file(folder: str, name: str) -> Path:
    """Return the path of a data file that comes with fastopen. Raises InputError if it is missing."""
    place = packaged_folder(folder)
    if place is None or not (file := place / name).is_file():
        raise InputError("does not exist, but comes with fastopen", name, "install fastopen again")
    return file
