"""Close resources, delay signals, or pause the garbage collector in a `with` block."""

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self


class Closing:
    """A base class for objects that are closed when their `with` block ends."""

    def close(self) -> None:
        """Free the resources of the object. Each subclass implements this method."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the `with` block raises an exception of any kind, such as KeyboardInterrupt."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the `with` block ends, so that a signal cannot interrupt Popen and leave
    its child process running. Do nothing outside of the main thread: Python handles no signals there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    delayed = (signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda number, _: received.append(number)) for one in delayed}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in received:
            signal.raise_signal(late)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector in the `with` block, which then creates objects faster."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
