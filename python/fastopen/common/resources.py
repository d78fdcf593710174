"""Find the files that come with fastopen, in a wheel or a source checkout, and the user's cache folder."""

import os
from importlib import resources
from pathlib import Path

from fastopen.common.errors import InputError


def cache_folder(name: str) -> Path:
    """Return this user's cache folder for `name` (XDG base directories). It may not exist yet."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "fastopen" / name


def packaged_folder(name: str) -> Path | None:
    """Return the folder `name`, such as `pages`, that came with this fastopen. None if there is none."""
    # A wheel holds the folders under `fastopen/_data/`. In a source checkout they are at the root of the
    # repository, next to `python/`. Installers unpack wheels on disk, so a real path exists.
    packaged = Path(str(resources.files("fastopen"))) / "_data" / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "python" / "fastopen").is_dir() and (checkout / name).is_dir():
        return checkout / name
    return None


def packaged_file(folder: str, name: str) -> Path:
    """Return the path of a data file that fastopen's package contains. Raises InputError if it is missing."""
    place = packaged_folder(folder)
    if place is None or not (file := place / name).is_file():
        raise InputError("does not exist, but comes with fastopen", name, "install fastopen again")
    return file
