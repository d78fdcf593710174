"""Fuzz the importers in a checkout of the repository: `python -m fastopen.pages.fuzz --seconds 600`.

This starts tests/python/security/fuzzer.py, which feeds damaged sample files of the tests to the importers.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[3] / "tests" / "python"
    if not tests.is_dir():
        sys.exit("error: the fuzzer needs the tests: run it in a checkout of the repository")
    sys.path.insert(0, str(tests))
    runpy.run_module("security.fuzzer", run_name="__main__", alter_sys=True)
