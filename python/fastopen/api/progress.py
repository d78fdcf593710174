"""What a notebook shows while loads run: one line that is written over."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from fastopen.runs import RunProgress

EVERY_S: Final = 0.25
WIDTH: Final = 24


class NotebookProgress:
    """A bar, how many of how many, and what runs now. Outside of IPython it shows nothing."""

    def __init__(self, total: int, show: Callable[[str], None] | None = None) -> None:
        self._show = show if show is not None else _ipython()
        self._done, self._invalid, self._total = 0, 0, total
        self._shown_at = 0.0

    def __call__(self, progress: RunProgress) -> None:
        """Takes what has just happened."""
        if progress.finished is not None:
            self._done += 1
            self._invalid += not progress.finished.valid
        self._total = self._done + progress.left
        now = time.monotonic()
        if progress.left == 0 or now - self._shown_at >= EVERY_S:
            self._shown_at = now
            self._show(self._line(progress.running))

    def _line(self, running: tuple[str, ...]) -> str:
        filled = WIDTH * self._done // max(self._total, 1)
        bar = "#" * filled + "." * (WIDTH - filled)
        invalid = f", {self._invalid} invalid" if self._invalid else ""
        now = f"  {running[0]}" if running else ""
        return f"[{bar}] {self._done} of {self._total} loads{invalid}{now}"


def _ipython() -> Callable[[str], None]:
    """Writes over the same output of the cell that runs."""
    try:
        ipython: Any = import_module("IPython")
    except ImportError:
        return lambda _: None
    if ipython.get_ipython() is None:
        return lambda _: None

    def line(text: str) -> dict[str, str]:
        return {"text/plain": text}

    shown = ipython.display.display(line(""), display_id=True, raw=True)
    return lambda text: shown.update(line(text), raw=True)
