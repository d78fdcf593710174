"""Workers of a Dask cluster: an executor of theirs, by the address of their scheduler."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

from fastopen.common.errors import MachineError
from fastopen.common.extras import pip_install

TIMEOUT_S: Final = 10
# A cluster may lose all workers at once and get others; a run does not wait for ever that it does.
WITHOUT_WORKERS_S: Final = 120.0
POLL_S: Final = 0.5

Result = TypeVar("Result")


@contextmanager
def workers_at(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor of the workers that the scheduler at `address` has, and how many tasks they run at once.

    Where it is left, tasks that were cancelled while they ran are waited for.
    Raises MachineError where Dask is not installed, no scheduler answers, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MachineError("--workers needs Dask", pip_install("distributed")) from None
    try:
        client: Any = Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers at {address}: {error}"
        raise MachineError(message, "use the address that dask scheduler prints: tcp://HOST:8786") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=TIMEOUT_S)
        except TimeoutError:
            message = f"the scheduler at {address} has no workers"
            raise MachineError(message, f"start one: dask worker {address}") from None
        with DaskExecutor(client) as executor:
            yield executor, sum(client.nthreads().values())


class DaskExecutor(Executor):
    """Tasks on the workers of a Dask client, which stays the caller's to close.

    Dask has an executor of its own (`Client.get_executor`): that takes a task for cancelled that goes on
    running, and waits for ever where no worker is left.
    """

    def __init__(self, client: Any, without_workers_s: float = WITHOUT_WORKERS_S) -> None:
        """`client` is a `distributed.Client`; without any worker for so long, tasks end as BrokenExecutor."""
        self._client = client
        self._without_workers_s = without_workers_s
        self._name = f"fastopen-{uuid4().hex}"
        self._numbers = itertools.count()
        self._open: set[Future[Any]] = set()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_workers, daemon=True)
        self._watch.start()

    def submit(self, work: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """See Executor. Raises RuntimeError once it is shut down, or the client has no scheduler."""
        if self._over.is_set():
            raise RuntimeError("the executor is shut down")
        if self._client.status != "running":
            raise RuntimeError("no connection to the scheduler")
        key = f"{self._name}-{next(self._numbers)}"
        # Loads are no function of their arguments to Dask: what was done is asked for again after a fault.
        theirs = self._client.submit(work, *args, **kwargs, key=key, pure=False)
        future: Future[Result] = Future()
        self._open.add(future)

        def over(_: Any) -> None:
            # Fetches the result, in a thread of Dask's for callbacks; where its worker died meanwhile, this
            # waits until another one made it again.
            try:
                if theirs.cancelled():
                    future.cancel()
                    # Wakes `wait`.
                    future.set_running_or_notify_cancel()
                else:
                    _settle(future, theirs.result)
            finally:
                self._open.discard(future)

        def cancelled(future: Future[Result]) -> None:
            if future.cancelled():
                with suppress(Exception):
                    theirs.cancel()

        future.add_done_callback(cancelled)
        theirs.add_done_callback(over)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See Executor. Waiting is also for tasks that were cancelled when a worker had started them."""
        self._over.set()
        for future in list(self._open) if cancel_futures else ():
            future.cancel()
        while wait and self._running():
            time.sleep(POLL_S / 10)

    def _running(self) -> bool:
        """Return True if a worker runs one of our tasks. Without a scheduler, none does."""
        if self._client.status != "running":
            return False
        try:
            running = self._client.run(_runs, self._name, on_error="ignore")
        except Exception:
            return False
        return any(running.values())

    def _watch_workers(self) -> None:
        last = time.monotonic()
        while not self._over.wait(POLL_S):
            with suppress(Exception):
                if self._client.status != "running" or self._client.nthreads():
                    last = time.monotonic()
                    continue
            if time.monotonic() - last > self._without_workers_s:
                for future in list(self._open):
                    words = f"the scheduler had no workers for {self._without_workers_s:.0f} s"
                    with suppress(Exception):
                        future.set_exception(BrokenExecutor(words))


def _settle(future: Future[Result], result: Callable[[], Result]) -> None:
    """Gives the future what `result` gives or raises, unless it is over."""
    try:
        value = result()
    except BaseException as error:
        with suppress(Exception):
            future.set_exception(error)
    else:
        with suppress(Exception):
            future.set_result(value)


def _runs(name: str, dask_worker: Any) -> bool:
    return any(str(task.key).startswith(name) for task in dask_worker.state.executing)
