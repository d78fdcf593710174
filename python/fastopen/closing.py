"""What is to be closed when it is no longer needed."""

from typing import Self


class Closing:
    """A context manager that ends with `close`."""

    def close(self) -> None:
        """Frees what it holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
