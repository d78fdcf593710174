"""Start the fuzzer of the importers in a checkout: `python -m fastopen.pages.fuzz --seconds 600`.

The fuzzer damages sample files of the tests, so it is stored with the tests: tests/python/security/fuzzer.py.
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
