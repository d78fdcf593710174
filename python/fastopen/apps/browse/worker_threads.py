"""Work that takes long, on threads apart from the event loop, which end with the process."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, TypeVar

Result = TypeVar("Result")
# Reading runs shares one interpreter lock: more threads make each request slower, not all of them faster.
THREADS: Final = 4


class WorkerThreads:
    """Runs functions on daemon threads, so many at once: Ctrl-C does not wait for what still computes.

    An executor of `concurrent.futures` would: the interpreter joins its threads when it ends.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._free = asyncio.Semaphore(threads)

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Return the result of the function, or raise its error."""
        async with self._free:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[Result] = loop.create_future()

            def work() -> None:
                try:
                    result = function(*arguments)
                except BaseException as error:  # the caller's, whatever it is
                    _tell(loop, ended, error=error)
                else:
                    _tell(loop, ended, result)

            threading.Thread(target=work, daemon=True).start()
            return await ended


def _tell(
    loop: asyncio.AbstractEventLoop,
    ended: "asyncio.Future[Result]",
    result: Result | None = None,
    error: BaseException | None = None,
) -> None:
    def tell() -> None:
        if ended.cancelled():
            return
        if error is None:
            ended.set_result(result)  # type: ignore[arg-type]  # None is a result as well
        else:
            ended.set_exception(error)

    # Nobody waits any more where the loop is closed.
    if not loop.is_closed():
        loop.call_soon_threadsafe(tell)
