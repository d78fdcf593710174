"""Run tasks on the workers of a Dask cluster."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

from fastopen.common.errors import InputError, MachineError, pip_install

ADDRESS: Final = re.compile(r"((tcp|tls|ucx|wss?)://)?[^\s/]+:\d{1,5}")
TIMEOUT_S: Final = 10
# Seconds for which a run waits for new workers after the cluster has lost all workers.
WITHOUT_WORKERS_S: Final = 120.0
POLL_S: Final = 0.5

Result = TypeVar("Result")


@contextmanager
def workers_at(address: str) -> Iterator[tuple[Executor, int]]:
    """Connect to the Dask scheduler at `address`. Yield an executor that runs tasks on its workers, and the
    number of tasks that the workers run at once. At the end, wait for tasks that are still running.

    Raises InputError if the address is invalid. Raises MachineError if Dask is not installed, or if the
    scheduler does not answer or has no workers."""
    remedy = "use the address that dask scheduler prints: tcp://HOST:8786"
    if not ADDRESS.fullmatch(address):
        raise InputError(f"invalid address {address!r}", "--workers", remedy)
    try:
        from distributed import Client
    except ImportError:
        raise MachineError("--workers needs Dask", pip_install("distributed")) from None
    try:
        client: Any = Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        message = f"no Dask scheduler answers at {address}: {error}"
        raise MachineError(message, remedy) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=TIMEOUT_S)
        except TimeoutError:
            message = f"the scheduler at {address} has no workers"
            raise MachineError(message, f"start one: dask worker {address}") from None
        with DaskExecutor(client) as executor:
            yield executor, sum(client.nthreads().values())


class DaskExecutor(Executor):
    """An executor that runs tasks on the workers of a Dask client. The caller closes the client."""

    # Dask's own executor (`Client.get_executor`) reports a task as cancelled while it still runs, and waits
    # forever if no workers are left.

    def __init__(self, client: Any, without_workers_s: float = WITHOUT_WORKERS_S) -> None:
        """Use a connected Dask client. If no worker is available for `without_workers_s` seconds, open tasks
        fail with BrokenExecutor."""
        self._client = client
        self._without_workers_s = without_workers_s
        self._name = f"fastopen-{uuid4().hex}"
        self._numbers = itertools.count()
        self._open: set[Future[Any]] = set()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_workers, daemon=True)
        self._watch.start()

    def submit(self, work: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run `work(*args, **kwargs)` on a worker, and return its future. Raises RuntimeError after the
        shutdown, or if the scheduler is gone."""
        if self._over.is_set():
            raise RuntimeError("the executor is shut down")
        if self._client.status != "running":
            raise RuntimeError("no connection to the scheduler")
        key = f"{self._name}-{next(self._numbers)}"
        # `pure=False`, because a load that is repeated must run again, not return a known result.
        theirs = self._client.submit(work, *args, **kwargs, key=key, pure=False)
        future: Future[Result] = Future()
        self._open.add(future)

        def over(_: Any) -> None:
            # Fetch the result, in Dask's thread for callbacks. If the worker died in the meantime, this waits
            # until another worker has run the task again.
            if theirs.cancelled():
                future.cancel()
                # Wake callers of `concurrent.futures.wait`.
                future.set_running_or_notify_cancel()
                return
            # Ignore errors here: the future is already done if it was cancelled or has failed.
            with suppress(Exception):
                try:
                    future.set_result(theirs.result())
                except BaseException as error:
                    future.set_exception(error)

        def cancelled(future: Future[Result]) -> None:
            if future.cancelled():
                with suppress(Exception):
                    theirs.cancel()

        future.add_done_callback(self._open.discard)
        future.add_done_callback(cancelled)
        theirs.add_done_callback(over)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no further tasks. With `cancel_futures`, cancel open tasks. With `wait`, return only when no
        worker is running a task of this executor."""
        self._over.set()
        for future in list(self._open) if cancel_futures else ():
            future.cancel()
        while wait and self._running():
            time.sleep(POLL_S / 10)

    def _running(self) -> bool:
        """Return True if a worker is running a task of this executor; False if the scheduler is gone."""
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


def _runs(name: str, dask_worker: Any) -> bool:
    return any(str(task.key).startswith(name) for task in dask_worker.state.executing)
