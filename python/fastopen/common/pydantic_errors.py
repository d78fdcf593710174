"""Convert pydantic's validation errors into InputErrors for users."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import FailFast, ValidationError
from pydantic_core import PydanticCustomError

from fastopen.common.errors import InputError, InputErrorGroup, any_of, one_line

# The maximum number of errors to list. Each takes 700 bytes of memory.
MOST_LISTED: Final = 20_000
MOST_SHOWN: Final = 10
_PLAIN: Final = {"missing": "missing", "extra_forbidden": "unknown key"}
_KINDS: Final[Mapping[Any, str]] = {dict: "an object", list: "a list", tuple: "a list"}
_TYPES: Final = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("model_type", "dict_type", "dataclass_type"), "a table of keys and values"),
    "list_type": "a list",
    "string_type": "a text",
    "bool_type": "true or false",
}
Item = TypeVar("Item")
Items = Annotated[list[Item], FailFast()]
"""A list whose validation stops at the first invalid item, so that a long list of `{}` has few errors."""


def conflict(message: str, remedy: str, *keys: str) -> PydanticCustomError:
    """Return the error for a pydantic validator to raise if the settings `keys` cannot be used together.
    `message` describes the conflict, and `remedy` a way to solve it."""
    context = {"message": message, "remedy": remedy, "keys": keys}
    return PydanticCustomError("conflict", "{message}: {remedy}", context)


def input_error(error: ValidationError, place: str) -> InputError:
    """Return an InputError about `error` in the file or option `place`, with at most ten lines."""
    problems = input_errors(error, place)
    if len(problems) == 1:
        return problems[0]
    if len(problems) > MOST_SHOWN:
        problems[MOST_SHOWN - 1 :] = [InputError(f"{len(problems) - MOST_SHOWN + 1:,} more problems", place)]
    return InputErrorGroup(problems)


def input_errors(error: ValidationError, place: str) -> list[InputError]:
    """Return an InputError for each problem in `error`, which is about the file or option `place`."""
    problems = problems_of(error)
    # If an item of a tuple is invalid, pydantic also reports that the tuple is too short.
    own = [one for one in problems if one["type"] != "too_short" or not one["input"]]
    return [_input_error(problem, place) for problem in own or problems]


def problems_of(error: ValidationError) -> list[Any]:
    """Return pydantic's dictionary for each problem. For more than MOST_LISTED problems, return only one
    dictionary, which states their number."""
    count = error.error_count()
    if count <= MOST_LISTED:
        return list(error.errors(include_url=False))
    return [{"type": "value_error", "loc": (), "msg": f"invalid {error.title}: {count:,} problems"}]


def _input_error(problem: Mapping[str, Any], place: str) -> InputError:
    if problem["type"] == "conflict":
        found = problem["ctx"]
        return InputError(found["message"], place or ", ".join(found["keys"]), found["remedy"])
    if problem["type"] == "resource":
        return InputError(problem["ctx"]["problem"], f"{place}: {problem['ctx']['place']}")
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    joined = ": ".join(part for part in (place, "".join(parts).lstrip(".")) if part)
    remedy = "remove it, or correct its name" if problem["type"] == "extra_forbidden" else ""
    return InputError(_plain(problem), joined, remedy)


def _plain(problem: Mapping[str, Any]) -> str:
    kind, value, known = problem["type"], problem.get("input"), problem.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "too_short" and not value:
        return "is empty; list at least one"
    message = str(problem["msg"])
    if kind == "value_error":
        # Typer lists the accepted values of an option after "is not one of".
        message, _, words = message.removeprefix("Value error, ").partition(" is not one of ")
        known_words = any_of(words.rstrip(".").replace("'", "").split(", "))
        return f"unknown value {message}; use {known_words}" if words else message
    message = message.partition(", unable to parse")[0].replace("Input should be", "must be")
    shown = one_line(_KINDS.get(type(value)) or repr(value), 80)
    if kind in _TYPES:
        return f"{shown} is not {_TYPES[kind]}"
    if kind == "literal_error" and " or " in str(known["expected"]):
        return f"unknown value {shown}; use {known['expected'].replace(chr(39), '')}"
    if kind in ("greater_than_equal", "less_than_equal"):
        small = "ge" in known
        limit = f"small; use {known['ge']:n} or more" if small else f"large; use {known['le']:n} or less"
        return shown.strip("'") + f" is too {limit}"
    name, _, newest = str(known.get("expected", "")).strip("'").rpartition("/")
    number = shown.strip("'").removeprefix(f"{name}/")
    if name and number.isdecimal() and newest.isdecimal() and int(number) > int(newest):
        return f"{shown} is newer than this fastopen reads ({newest}); update fastopen"
    return f"{shown}: {message[0].lower()}{message[1:]}"
