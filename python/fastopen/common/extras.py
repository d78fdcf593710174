"""Tell users how to install a missing optional dependency."""

import shlex
import sys


def pip_install(package: str) -> str:
    """Return the shell command that installs `package` into the Python environment that runs fastopen."""
    # Extras, such as `fastopen[record]`, would not work, because fastopen is not on a package index.
    return shlex.join([sys.executable, "-m", "pip", "install", package])
