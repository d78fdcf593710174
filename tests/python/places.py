"""Paths of files outside `tests/python` that tests use."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "tests" / "contract"
SHARED: Final = ROOT.parent / "shared"
"""Inputs that are not in a user's clone. Tests that need them are skipped there."""
