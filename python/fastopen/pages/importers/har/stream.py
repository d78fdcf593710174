"""Parse a HAR piece by piece, one entry at a time. Report damage, or skip it with `lenient`."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.pages import budget
from fastopen.pages.budget import MAX_PIECE_BYTES, mebibytes
from fastopen.pages.importers.notes import Notes

# Minimum and maximum number of characters that are read at once. Longer JSON values need larger pieces.
PIECE: Final = 2**18
_LARGEST_PIECE: Final = 16 * 2**20
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_OBJECT: Final = re.compile(r'\{\s*"')
# Length of the longest token that json rejects if it is cut off: -Infinity, or an escaped pair of surrogates.
_LONGEST_TOKEN: Final = 16
_LONGEST_LEFT: Final = 3
# A failed attempt to parse an entry after damage costs one step of the budget per this many characters.
_CHARACTERS_A_STEP: Final = 256
_DECODER: Final = json.JSONDecoder()


class DamageError(InputError):
    """Raised for malformed JSON. `ended` is True if the text ends within a value."""

    ended = False


class Scanner:
    """A parser at a position in JSON text. `read(size)` returns the next piece of the text; "" at the end."""

    def __init__(self, read: Callable[[int], str], place: str) -> None:
        self._read = read
        self.place = place
        self._text = ""
        self._at = 0
        self._whole = False
        # Characters read so far.
        self.characters = 0
        # Start of the text in memory: number of lines before it, and of characters before it in its line.
        self._lines = 0
        self._columns = 0

    def _more(self) -> None:
        """Drop the text that was parsed, and read more. Raises InputError if one JSON value is too long."""
        gone, kept = self._text[: self._at], self._text[self._at :]
        lines = gone.count("\n")
        self._lines += lines
        self._columns = len(gone) - gone.rfind("\n") - 1 if lines else self._columns + len(gone)
        remedy = "export it without content, or leave that request out"
        # A text with a character beyond Latin-1 takes two or four bytes per character.
        if sys.getsizeof(kept) > MAX_PIECE_BYTES:
            message = f"one of its values is longer than {mebibytes(MAX_PIECE_BYTES)}"
            raise InputError(message, self.place, remedy)
        size = min(max(PIECE, len(kept)), _LARGEST_PIECE)
        # Keep the text within LITTLE characters if possible: is_too_much is slow only for longer texts.
        if PIECE <= json_memory.LITTLE - len(kept) < size:
            size = json_memory.LITTLE - len(kept)
        piece = self._read(size)
        self.characters += len(piece)
        self._whole = not piece
        self._text, self._at = kept + piece, 0
        if json_memory.is_too_much(self._text):
            message = f"one of its values may take more than {mebibytes(json_memory.MAX_BYTES)} of memory"
            raise InputError(message, self.place, remedy)

    def peek(self) -> str:
        """Return the next character that is not white space, without consuming it; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._whole:
                return ""
            self._more()

    def take(self, expected: str, fault: str) -> None:
        """Skip white space and the character `expected`. Raises DamageError with text `fault` if missing."""
        if not self._skipped(expected):
            raise self.fault(fault, self._at)

    def _skipped(self, expected: str) -> bool:
        """Skip white space, and the character `expected` if it is next. Return True if it was."""
        found = self.peek() == expected
        self._at += found
        return found

    def value(self) -> Any:
        """Return the next JSON value. Raises DamageError if malformed, InputError if too large or deep."""
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._whole or not self._may_go_on(error):
                    raise self.fault(error.msg, error.pos) from None
            except RecursionError:
                raise InputError("malformed JSON: nested too deeply", self.place) from None
            except ValueError as error:  # such as an integer of thousands of digits
                raise InputError(f"malformed JSON: {error}", self.place) from None
            else:
                # A number may continue in the next piece: "1" may be the beginning of "1.5" or of "1e-5".
                if end < len(self._text) - _LONGEST_LEFT or self._whole:
                    self._at = end
                    return found
            self._more()

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Return True if the decoder's `error` may disappear when more of the text has been read."""
        return error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _LONGEST_TOKEN

    def fault(self, fault: str, at: int) -> DamageError:
        """Return an error with line and column, for the decoder's message `fault` at the offset `at`."""
        before = self._text[:at]
        lines = before.count("\n")
        column = at - before.rfind("\n") if lines else self._columns + at + 1
        message = f"malformed JSON: {fault.removesuffix(' starting at')}"
        place = f"{self.place}: line {self._lines + lines + 1} column {column}"
        error = DamageError(message, place, "fix that place, or write the file again")
        cut = at >= len(self._text.rstrip()) or fault.startswith("Unterminated")
        error.ended = self._whole and cut
        return error

    def members(self) -> Iterator[str]:
        """Yield the keys of the JSON object that begins here. After a key, the caller must read its value."""
        self.take("{", "Expecting value")
        ended = self._skipped("}")
        while not ended:
            if self.peek() != '"':
                raise self.fault("Expecting property name enclosed in double quotes", self._at)
            key = self.value()
            self.take(":", "Expecting ':' delimiter")
            yield key
            ended = self._skipped("}")
            if not ended:
                self.take(",", "Expecting ',' delimiter")

    def elements(self, damaged: Callable[[int, DamageError], bool]) -> Iterator[Any]:
        """Yield the values of the JSON array that begins here. If a value is damaged, call `damaged` with its
        index and the error. If `damaged` returns True, continue at the next HAR entry, otherwise stop."""
        self.take("[", "Expecting value")
        if self._skipped("]"):
            return
        for index in count():
            started = False
            budget.work(budget.ENTRY_STEPS)
            try:
                found = self.value()
                started = True
                yield found
                if self._skipped("]"):
                    return
                self.take(",", "Expecting ',' delimiter")
            except DamageError as error:
                if not damaged(index, error) or not self._find_entry(0 if started else 1):
                    return

    def _find_entry(self, skipped: int) -> bool:
        """Skip `skipped` characters, then go to the next HAR entry. Return False if no entry follows."""
        self._at += skipped
        while True:
            candidate = _OBJECT.search(self._text, self._at)
            if candidate is None:
                if self._whole:
                    return False
                # The text read so far may end in the middle of a match.
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


def _charged(scanner: Scanner, document: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a function that limits the memory of the JSON object `document`. Call it with each parsed value.
    It returns the value, or raises InputError if all values so far take up too much memory."""
    # Measuring is slow, so it starts only after so much text that the limit could be exceeded.
    enough = budget.room() // json_memory.A_CHARACTER
    measured = False

    def kept(value: Any) -> Any:
        nonlocal measured
        if not measured and scanner.characters > enough:
            measured = True
            budget.keep(json_memory.bytes_of(document))
        if measured:
            budget.keep(json_memory.bytes_of(value))
        return value

    return kept


def read_json(scanner: Scanner, strip: Callable[[object], object], notes: Notes, *, lenient: bool) -> Any:
    """Return the parsed JSON document. In a HAR, replace each entry by the result of `strip`, to save memory.
    Raises InputError if the document is damaged. With `lenient`, skip damaged parts and count them in
    `notes`, but raise InputError if there is no HAR entry before the damage."""
    if scanner.peek() != "{":
        found = scanner.value()
        scanner.end()
        return found
    whole: dict[str, Any] = {}
    kept = _charged(scanner, whole)

    def damaged(index: int, error: DamageError) -> bool:
        if not lenient:
            within = error.place.removeprefix(f"{scanner.place}: ")
            place = f"{scanner.place}: log.entries[{index}]: {within}"
            remedy = "export it again, or skip the rest with --lenient"
            raise InputError(error.message, place, remedy) from None
        notes.add("cut" if error.ended else "broken")
        return not error.ended

    try:
        for key in scanner.members():
            if key != "log" or scanner.peek() != "{":
                whole[key] = kept(scanner.value())
                continue
            log = whole["log"] = {}
            for inner in scanner.members():
                if inner == "entries" and scanner.peek() == "[":
                    log[inner] = []
                    log[inner].extend(kept(strip(raw)) for raw in scanner.elements(damaged))
                else:
                    log[inner] = kept(scanner.value())
        scanner.end()
    except DamageError as error:
        # Pages need little data that follows the entries, so ignore damage in it if there are entries.
        found = whole.get("log")
        if not lenient or not isinstance(found, dict) or not found.get("entries"):
            raise
        if error.ended and not notes["cut"]:
            notes.add("cut")
    return whole
