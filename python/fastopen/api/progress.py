"""Show the progress of a run in a notebook, on one line that is rewritten."""

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from fastopen.runs import RunProgress

EVERY_S: Final = 0.25
WIDTH: Final = 24


class NotebookProgress:
    """A progress bar of a run in one line of a notebook cell. Outside IPython, it shows nothing."""

    def __init__(self) -> None:
        self._show = _ipython()
        self._shown_at = 0.0

    def __call__(self, progress: RunProgress) -> None:
        """Show the progress, at most once every EVERY_S seconds. Always show it when no load is left."""
        now = time.monotonic()
        if progress.left == 0 or now - self._shown_at >= EVERY_S:
            self._shown_at = now
            filled = WIDTH * progress.done // max(progress.loads, 1)
            bar = "#" * filled + "." * (WIDTH - filled)
            running = f"  {progress.running[0]}" if progress.running else ""
            self._show(f"[{bar}] {progress.counts()}{running}")


def _ipython() -> Callable[[str], None]:
    """Return a function that replaces a notebook cell's output. Outside IPython, it does nothing."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return lambda _: None

    def line(text: str) -> dict[str, str]:
        return {"text/plain": text}

    shown = ipython.display.display(line(""), display_id=True, raw=True)
    return lambda text: shown.update(line(text), raw=True)
