"""The progress of a kernel's build."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """The current stage, like "compiling"; `done` of about `total` steps if they are counted."""

    name: str
    detail: str = ""
    done: int = 0
    total: int = 0


Watcher = Callable[[Stage], None]
