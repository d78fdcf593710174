"""Workers of a Dask cluster: an executor of theirs, by the address of their scheduler."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final

from fastopen.errors import MachineError

TIMEOUT_S: Final = 10


@contextmanager
def workers_at(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor of the workers that the scheduler at `address` has, and how many tasks they run at once.

    Raises MachineError where Dask is not installed, no scheduler answers, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MachineError("--workers needs Dask", "pip install 'fastopen[dask]'") from None
    try:
        client: Any = Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers at {address}: {error}"
        raise MachineError(message, "name it as dask scheduler prints it: tcp://HOST:8786") from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise MachineError(f"the scheduler at {address} has no workers", f"dask worker {address}")
        # Loads are no function of their arguments to Dask: what was done is asked for again after a fault.
        yield client.get_executor(pure=False), threads
