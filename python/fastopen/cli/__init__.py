"""The command line, `fastopen`."""

from fastopen.cli.app import main

__all__ = ["main"]
