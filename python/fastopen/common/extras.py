"""Remedies for missing optional dependencies."""

import shlex
import sys


def pip_install(package: str) -> str:
    """Return the command that installs `package` into the environment that runs fastopen.

    fastopen's own extras are no remedy: no package index has fastopen.
    """
    return shlex.join([sys.executable, "-m", "pip", "install", package])
