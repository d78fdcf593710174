"""The error for bad input: what was wrong, where, and what to do about it, in one line."""

from __future__ import annotations


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


def unreadable(path: object, error: OSError) -> InputError:
    """The error for a file or folder that could not be read."""
    return InputError(f"cannot be read: {error.strerror or error}", str(path))


def unwritable(path: object, error: OSError) -> InputError:
    """The error for a file or folder that could not be written."""
    return InputError(f"cannot be written: {error.strerror or error}", str(path))


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
