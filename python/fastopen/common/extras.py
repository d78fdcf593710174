"""Return the command that installs a missing optional dependency."""

import shlex
import sys


def pip_install(package: str) -> str:
    """Return the command that installs `package` into the environment that runs fastopen.

    The command does not use fastopen's extras, because no package index has fastopen."""
    return shlex.join([sys.executable, "-m", "pip", "install", package])
