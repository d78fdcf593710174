"""fastopen: what TCP Fast Open does to page load time, measured on the real Linux TCP stack."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastopen.api import Experiment, Run, open_run, run
    from fastopen.common.errors import InputError, MachineError

__all__ = ["Experiment", "InputError", "MachineError", "Run", "open_run", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name of `fastopen` when it is first used. The command line uses none of these names, so
    it starts without the imports."""
    if name in __all__:
        from fastopen import api

        return getattr(api, name)
    raise AttributeError(f"module 'fastopen' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the module's names for completion, including those that are imported on first use."""
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "Any"})
