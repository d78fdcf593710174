"""Return the command that installs a missing optional dependency."""

import shlex
import sys


def pip_install(package: str) -> str:
    """Return the command that installs `package` into the environment that runs fastopen. The command names
    no extra, such as `fastopen[record]`, because fastopen is not on a package index."""
    return shlex.join([sys.executable, "-m", "pip", "install", package])
