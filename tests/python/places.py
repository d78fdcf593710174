"""Where tests find what is outside `tests/python`."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "tests" / "contract"
SHARED: Final = ROOT.parent / "shared"
"""Inputs that no user's clone has: tests of them skip without."""
