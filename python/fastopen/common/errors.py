"""Define the errors for bad input, and for requests that this machine cannot satisfy."""

import difflib
import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final


class InputError(Exception):
    """Unusable input from the user. The command line prints the error and exits with status 2.

    The text is one line: `PLACE: MESSAGE; REMEDY`. `place` names the file and the entry in it, such as
    `my.har: log.entries[17].request.url`. `message` describes the fault. `remedy` is an action for the user,
    or empty if the message implies it."""

    def __init__(self, message: str, place: str = "", remedy: str = "") -> None:
        super().__init__(message, place, remedy)
        self.message = one_line(message)
        self.place = one_line(place)
        self.remedy = one_line(remedy)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class InputErrorGroup(InputError):  # noqa: N818  # named like ExceptionGroup
    """Several InputErrors, one on each line. `message`, `place` and `remedy` are those of the first."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        first = problems[0]
        super().__init__(first.message, first.place, first.remedy)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@contextmanager
def collected(problems: list[InputError]) -> Iterator[None]:
    """Catch an InputError raised in the `with` block. Append it, or each error of a group, to `problems`."""
    try:
        yield
    except InputError as error:
        problems += error.problems if isinstance(error, InputErrorGroup) else [error]


def raise_all(problems: Sequence[InputError]) -> None:
    """Raise a single problem as it is, or several as an InputErrorGroup. If there are none, do nothing."""
    if problems:
        raise problems[0] if len(problems) == 1 else InputErrorGroup(problems)


def did_you_mean(asked: str, known: Iterable[str], otherwise: str, kind: str = "") -> str:
    """Return the question `did you mean NAME?`, with `kind` before NAME. NAME lists the entries of `known`
    that begin with the unknown name `asked`. If there are none, or more than eight, NAME is the entry that is
    most similar to `asked`. Ignore capitals. If no entry is similar, return `otherwise`."""
    names = {name.lower(): name for name in known}
    begun = [name for name in names if asked and name.startswith(asked.lower())]
    least = 0.66 if asked.isalpha() and len(asked) < 5 else 0.7
    close = difflib.get_close_matches(asked.lower(), names, n=1, cutoff=least)
    near = begun if 0 < len(begun) <= 8 else close
    return f"did you mean {kind}{any_of(names[one] for one in near)}?" if near else otherwise


def any_of(names: Iterable[str]) -> str:
    """Return the names as alternatives: `a`, `a or b`, `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def pip_install(package: str) -> str:
    """Return the shell command that installs `package` into the Python environment that runs fastopen."""
    # Extras, such as `fastopen[record]`, would not work, because fastopen is not on a package index.
    return shlex.join([sys.executable, "-m", "pip", "install", package])


def unreadable(path: object, error: OSError) -> InputError:
    """Return the error to show if reading the file or folder `path` failed with `error`."""
    if error.errno == errno.ENOENT:
        return InputError("does not exist", str(path), "check the path")
    if error.errno == errno.EISDIR:
        return InputError("is a folder", str(path), "give a file")
    return InputError(f"cannot be read: {error.strerror or error}", str(path), "check its permissions")


def one_line(text: str, limit: int = 500) -> str:
    """Return `text` on one line, with control characters replaced by spaces, cut to `limit` characters."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


class MachineError(Exception):
    """A request that this machine cannot satisfy. The command line prints the error and exits with status 3.

    `message` describes the problem. `remedy` is a way to solve it, or empty if there is none. If a remedy has
    several lines, its first line introduces the rest."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = one_line(message)
        self.remedy = "\n  ".join(map(one_line, remedy.splitlines()))

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


# Error numbers that mean that the path is valid, but the machine cannot write there.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENFILE, errno.EMFILE)


def unwritable(path: object, error: OSError) -> InputError | MachineError:
    """Return the error to show for a file or folder that could not be written: a MachineError if the machine
    is at fault, for example because the disk is full, otherwise an InputError."""
    message = f"cannot be written: {error.strerror or error}"
    folder = os.path.dirname(str(path))
    if error.errno == errno.ENOENT and folder and not os.path.isdir(folder):
        return InputError("no such folder", folder, "create it or choose another file")
    # The error may be about a file in the folder `path`, or about a folder above it.
    place = error.filename2 or error.filename or path
    if error.errno == errno.EISDIR:
        return InputError("is a folder", str(place), "give a file")
    if error.errno == errno.EEXIST:
        return InputError("is a file", str(place), "give a folder")
    if error.errno in _FULL:
        return MachineError(f"{path}: {message}", "free some space there, or use another place")
    return InputError(message, str(path), "use another place, or allow writing there")


@contextmanager
def os_errors_as(convert: Callable[[object, OSError], Exception], path: object) -> Iterator[None]:
    """Replace an OSError in the `with` block by `convert(path, error)`, such as `unreadable(path, error)`."""
    try:
        yield
    except OSError as error:
        raise convert(path, error) from None


def unusable(error: OSError) -> InputError | MachineError:
    """Return the error to show for a file that could not be read or written. It is a MachineError if the
    machine is at fault, for example because the disk is full. Otherwise it is an InputError."""
    if error.errno in _FULL:
        return unwritable(error.filename, error)
    return InputError(f"cannot be used: {error.strerror}", str(error.filename))
