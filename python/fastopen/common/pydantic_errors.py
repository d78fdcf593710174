"""Convert pydantic's errors into InputErrors in fastopen's words, each with its place."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import FailFast, ValidationError
from pydantic_core import PydanticCustomError

from fastopen.common.errors import InputError

# The maximum number of errors to list. Each takes 700 bytes.
MOST_LISTED: Final = 20_000
Item = TypeVar("Item")
Items = Annotated[list[Item], FailFast()]
"""A list whose validation stops at the first error: many `{}` would give an error for each missing key."""


def conflict(message: str, remedy: str, *keys: str) -> PydanticCustomError:
    """Return an error for settings that exclude each other. `keys` are the settings' names in a file."""
    return PydanticCustomError(
        "conflict", "{message}: {remedy}", {"message": message, "remedy": remedy, "keys": keys}
    )


def input_error(error: ValidationError, place: str) -> InputError:
    """Return the first problem of `error`, with the number of further ones. `place` is the file or option."""
    problems = input_errors(error, place)
    first, others = problems[0], len(problems) - 1
    if not others or first.remedy:
        return first
    return InputError(first.message, first.place, f"and {others} more problem{'s' if others > 1 else ''}")


def input_errors(error: ValidationError, place: str) -> list[InputError]:
    """Return every problem of `error`. `place` is the file or option."""
    return [_input_error(problem, place) for problem in problems_of(error)]


def problems_of(error: ValidationError) -> list[Any]:
    """Return pydantic's list of errors, or one error with their number if there are more than MOST_LISTED."""
    count = error.error_count()
    if count <= MOST_LISTED:
        return list(error.errors(include_url=False))
    return [{"type": "value_error", "loc": (), "msg": f"no {error.title}: {count:,} problems"}]


def _input_error(problem: Mapping[str, Any], place: str) -> InputError:
    if problem["type"] == "conflict":
        found = problem["ctx"]
        return InputError(found["message"], place or ", ".join(found["keys"]), found["remedy"])
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    joined = ": ".join(part for part in (place, "".join(parts).lstrip(".")) if part)
    return InputError(_plain(problem), joined)


def _plain(problem: Mapping[str, Any]) -> str:
    kind, value = problem["type"], problem.get("input")
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "too_short" and not value:
        return "is empty"
    message = str(problem["msg"])
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    message = message.partition(", unable to parse")[0].replace("Input should be", "must be")
    shown = (
        "an object"
        if isinstance(value, dict)
        else "a list"
        if isinstance(value, list | tuple)
        else repr(value)
    )
    return f"{shown if len(shown) <= 80 else shown[:79] + '…'}: {message[0].lower()}{message[1:]}"
