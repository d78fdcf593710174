"""Chromium, under the names that machines have it."""

import shutil
from pathlib import Path
from typing import Final

from fastopen.errors import MachineError

# The first that is there: as in crates/world/src/clients/chromium/browser.rs.
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> Path:
    """Where the browser is. Raises MachineError that names the package."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise MachineError("there is no Chromium on this machine", "apt install chromium")
    return Path(found).absolute()
