"""A HAR out of a file that is read piece by piece, entry by entry. Damage is named and skipped."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.pages import budget
from fastopen.pages.budget import MAX_PIECE_BYTES, mebibytes
from fastopen.pages.importers.notes import Notes

# How much text is read at once, in characters, and where it is much already.
PIECE: Final = 2**18
_LARGEST_PIECE: Final = 16 * 2**20
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_OBJECT: Final = re.compile(r'\{\s*"')
# The longest thing whose beginning json refuses: -Infinity, or an escaped pair of surrogates.
_LONGEST_TOKEN: Final = 16
_LONGEST_LEFT: Final = 3
# Where an entry is looked for, what is tried in vain has its price: json reads so many characters in a step.
_CHARACTERS_A_STEP: Final = 256
_DECODER: Final = json.JSONDecoder()


class DamageError(InputError):
    """JSON that is none; `ended` says whether the text ended too early."""

    ended = False


class Scanner:
    """JSON values out of text that comes in pieces. `read` gives the next piece, "" at the end."""

    def __init__(self, read: Callable[[int], str], place: str) -> None:
        self._read = read
        self._place = place
        self._text = ""
        self._at = 0
        self._whole = False
        # That were read, of the whole text.
        self.characters = 0
        # Where the kept text begins in the file: lines before it, and characters of its first line before it.
        self._lines = 0
        self._columns = 0

    def _more(self) -> None:
        """Read on, as much again as is kept. Raises InputError if a value is too long or takes too much."""
        gone, kept = self._text[: self._at], self._text[self._at :]
        lines = gone.count("\n")
        self._lines += lines
        self._columns = len(gone) - gone.rfind("\n") - 1 if lines else self._columns + len(gone)
        remedy = "export it without content, or leave that request out"
        # A text with one character beyond Latin-1 has two or four bytes for each.
        if sys.getsizeof(kept) > MAX_PIECE_BYTES:
            message = f"one value of it is longer than {mebibytes(MAX_PIECE_BYTES)}"
            raise InputError(message, self._place, remedy)
        size = min(max(PIECE, len(kept)), _LARGEST_PIECE)
        # What is in a text that is no longer than this need not be counted.
        if PIECE <= json_memory.LITTLE - len(kept) < size:
            size = json_memory.LITTLE - len(kept)
        piece = self._read(size)
        self.characters += len(piece)
        self._whole = not piece
        self._text, self._at = kept + piece, 0
        if json_memory.is_too_much(self._text):
            message = f"one value of it may take more than {mebibytes(json_memory.MAX_BYTES)} of memory"
            raise InputError(message, self._place, remedy)

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._whole:
                return ""
            self._more()

    def take(self, expected: str, fault: str) -> None:
        """Goes past a character that has to be here."""
        if self.peek() != expected:
            raise self.fault(fault, self._at)
        self._at += 1

    def value(self) -> Any:
        """The value that begins here, whole."""
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._whole or not self._may_go_on(error):
                    raise self.fault(error.msg, error.pos) from None
            except RecursionError:
                raise InputError("malformed JSON: nested too deeply", self._place) from None
            except ValueError as error:  # an integer of thousands of digits
                raise InputError(f"malformed JSON: {error}", self._place) from None
            else:
                # A number may go on: "1" may be the beginning of "1.5" or of "1e-5".
                if end < len(self._text) - _LONGEST_LEFT or self._whole:
                    self._at = end
                    return found
            self._more()

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Return True if the text that is not read yet may put it right."""
        return error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _LONGEST_TOKEN

    def fault(self, fault: str, at: int) -> DamageError:
        """An error at a place of the kept text, with line and column of the file."""
        before = self._text[:at]
        lines = before.count("\n")
        column = at - before.rfind("\n") if lines else self._columns + at + 1
        error = DamageError(
            f"malformed JSON: {fault.removesuffix(' starting at')}",
            f"{self._place}: line {self._lines + lines + 1} column {column}",
            "fix that place, or write the file again",
        )
        error.ended = self._whole and at >= len(self._text.rstrip())
        error.ended |= self._whole and fault.startswith("Unterminated")
        return error

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; whoever gets one takes its value before the next."""
        self.take("{", "Expecting value")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                raise self.fault("Expecting property name enclosed in double quotes", self._at)
            key = self.value()
            self.take(":", "Expecting ':' delimiter")
            yield key
            if self.peek() == "}":
                self._at += 1
                return
            self.take(",", "Expecting ',' delimiter")

    def elements(self, damaged: Callable[[int, DamageError], bool]) -> Iterator[Any]:
        """Yield the values of a list. `damaged` returns True to go on with the next entry of a HAR."""
        self.take("[", "Expecting value")
        if self.peek() == "]":
            self._at += 1
            return
        index = 0
        while True:
            started = False
            budget.work(budget.ENTRY_STEPS)
            try:
                found = self.value()
                started = True
                yield found
                if self.peek() == "]":
                    self._at += 1
                    return
                self.take(",", "Expecting ',' delimiter")
            except DamageError as error:
                if not damaged(index, error) or not self._find_entry(0 if started else 1):
                    return
            index += 1

    def _find_entry(self, skipped: int) -> bool:
        """Goes to the next object with a request in it; False if there is none."""
        self._at += skipped
        while True:
            candidate = _OBJECT.search(self._text, self._at)
            if candidate is None:
                if self._whole:
                    return False
                # The pattern may lie across the end of what is read.
                self._at = max(self._at, len(self._text) - _LONGEST_TOKEN)
                self._more()
                continue
            self._at = candidate.start()
            end = len(self._text)
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                end = error.pos
                if not self._whole and self._may_go_on(error):
                    self._more()
                    continue
            except (RecursionError, ValueError):
                pass
            else:
                if "request" in found and "response" in found:
                    return True
            budget.work(1 + (end - self._at) // _CHARACTERS_A_STEP)
            self._at += 1

    def end(self) -> None:
        if self.peek():
            raise self.fault("Extra data", self._at)


class _Memory:
    """Takes the memory of what is kept of a document off the budget.

    Values are walked through only once the text read so far can have become more than there is room for.
    """

    def __init__(self, scanner: Scanner, document: dict[str, Any]) -> None:
        self._scanner = scanner
        self._document = document
        self._enough = budget.room() // json_memory.A_CHARACTER
        self._measured = False

    def kept(self, value: Any) -> Any:
        if self._measured:
            budget.keep(json_memory.taken_by(value))
        elif self._scanner.characters > self._enough:
            self._measured = True
            budget.keep(json_memory.taken_by(self._document) + json_memory.taken_by(value))
        return value


def read_json(
    scanner: Scanner, place: str, strip: Callable[[object], object], notes: Notes, *, lenient: bool
) -> Any:
    """The document; of a HAR the entries are stripped of their bodies as they come. Raises InputError.

    With `lenient`, damaged entries are left out and counted, and a file that ends early has ended.
    """
    if scanner.peek() != "{":
        found = scanner.value()
        scanner.end()
        return found
    whole: dict[str, Any] = {}
    memory = _Memory(scanner, whole)

    def damaged(index: int, error: DamageError) -> bool:
        if not lenient:
            where = error.place.removeprefix(f"{place}: ")
            raise InputError(
                error.message,
                f"{place}: log.entries[{index}]: {where}",
                "export it again, or skip the rest with --lenient",
            ) from None
        notes.add("cut" if error.ended else "broken")
        return not error.ended

    try:
        for key in scanner.members():
            if key != "log" or scanner.peek() != "{":
                whole[key] = memory.kept(scanner.value())
                continue
            log = whole["log"] = {}
            for inner in scanner.members():
                if inner == "entries" and scanner.peek() == "[":
                    entries: list[object] = []
                    log[inner] = entries
                    entries.extend(memory.kept(strip(raw)) for raw in scanner.elements(damaged))
                else:
                    log[inner] = memory.kept(scanner.value())
        scanner.end()
    except DamageError as error:
        # What follows the entries is of no use without them, and of little with them.
        found = whole.get("log")
        if not lenient or not isinstance(found, dict) or not found.get("entries"):
            raise
        if error.ended and not notes["cut"]:
            notes.add("cut")
    return whole
