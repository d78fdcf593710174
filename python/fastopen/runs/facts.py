"""Validate a run's facts `environment` and `options`, because any program may have written them."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class Facts(BaseModel):
    """A document whose declared keys are validated. Other keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)


class Environment(Facts):
    started: Annotated[str, AfterValidator(_moment)] | None = None
    versions: dict[str, str] = {}
    clients: dict[str, str | dict[str, Any] | None] | None = None
    virtual_kernel: dict[str, str] | None = None
    memory_bytes: int | None = None
    resumed: list[dict[str, Any]] = []
    merged: list[dict[str, Any]] = []


class Arguments(BaseModel):
    """Keyword arguments of a function. Other keys are refused, because the function would get them too."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)


class Until(Arguments):
    half_width_percent: float
    max_repeats: int


class Watched(Arguments):
    packets: bool = False
    tcp_trace: bool = False


class Options(Facts):
    until: Until | None = None
    inputs: list[str] = []
    library: list[str] = []
    lenient: bool = False
    max_unpacked: int | None = None
    watched: Watched = Watched()
    bodies: dict[str, str] = {}
    shard: str | None = None


SHAPES: Final[dict[str, type[BaseModel]]] = {"environment": Environment, "options": Options}
