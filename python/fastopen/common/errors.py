"""Errors for bad input and for what a machine cannot do: what, where and the remedy, in one line."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final


class InputError(Exception):
    """Something the user gave us cannot be used. The command line prints it and exits with 2.

    `place` names the file and the entry in it (`my.har: log.entries[17].request.url`), `message` what is
    wrong there, `remedy` what the user can do (empty where the message already says it).
    """

    def __init__(self, message: str, place: str = "", remedy: str = "") -> None:
        super().__init__(message, place, remedy)
        self.message = one_line(message)
        self.place = one_line(place)
        self.remedy = one_line(remedy)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text} ({self.remedy})" if self.remedy else text


class InputErrorGroup(InputError):  # noqa: N818  # as ExceptionGroup
    """Several things that cannot be used, a line each."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        first = problems[0]
        super().__init__(first.message, first.place, first.remedy)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@contextmanager
def collected(problems: list[InputError]) -> Iterator[None]:
    """Keeps what is wrong, so that what follows is looked at as well."""
    try:
        yield
    except InputError as error:
        problems += error.problems if isinstance(error, InputErrorGroup) else [error]


def raise_all(problems: Sequence[InputError]) -> None:
    """Raises InputError with all of them; nothing where there is none."""
    if problems:
        raise problems[0] if len(problems) == 1 else InputErrorGroup(problems)


def nearest(asked: str, known: Iterable[str], otherwise: str, kind: str = "") -> str:
    """A remedy for a name that nothing has: the most similar one that there is, else `otherwise`.

    `kind` stands before the name: `the packaged page `.
    """
    names = list(known)
    begun = [name for name in names if asked and name.startswith(asked)]
    near = difflib.get_close_matches(asked, names, n=1) or (begun if len(begun) == 1 else [])
    return f"did you mean {kind}{near[0]}?" if near else otherwise


def any_of(names: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`: what a remedy offers."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def unreadable(path: object, error: OSError) -> InputError:
    """The error for a file or folder that could not be read."""
    return InputError(f"cannot be read: {error.strerror or error}", str(path))


def one_line(text: str, limit: int = 500) -> str:
    """`text` without line breaks or other control characters, cut to `limit` characters."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


class MachineError(Exception):
    """This machine cannot do what was asked. The command line prints it and exits with 3.

    `message` says what is missing, `remedy` how to get it (empty where nothing helps).
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = one_line(message)
        self.remedy = one_line(remedy)

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


# The place is right, and the machine cannot do it.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENFILE, errno.EMFILE)


def unwritable(path: object, error: OSError) -> InputError | MachineError:
    """The error for a file or folder that could not be written."""
    message = f"cannot be written: {error.strerror or error}"
    if error.errno in _FULL:
        return MachineError(f"{path}: {message}", "make room there, or name another place")
    return InputError(message, str(path))
