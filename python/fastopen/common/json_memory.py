"""The memory of decoded JSON: a byte of text can become thirty (`[],` is a list of 56 bytes)."""

import re
import sys
from typing import Any, Final

# The limit for one text of any origin. The largest record of a load is estimated at 158 MiB (see
# runs/limits.py), a page of 10,000 resources at 20 MB. If every value is invalid, pydantic's errors take
# twice as much again.
MAX_BYTES: Final = 160 * 2**20
# The most bytes that a character becomes: two characters of `[[…]]` are a list with room for four values,
# eight of `{"":[0]}` an object, a list and a number (44 bytes a character).
A_CHARACTER: Final = 48
# A text of at most this length cannot exceed the limit.
LITTLE: Final = MAX_BYTES // A_CHARACTER
# Bytes of an object of up to five members, a list with room for four, a further value or member, and half a
# string.
_OBJECT: Final = 232
_LIST: Final = 88
_VALUE: Final = 72
_QUOTE: Final = 30
_TUPLE: Final = 56
_NUMBER: Final = 32
# With fewer quotes than this, all strings can be cut out of a text. The pieces between them are objects for
# a moment.
_FEW_QUOTES: Final = 2**20
_STRING: Final = re.compile(r'"[^"]*"?')


def is_too_much(text: str | bytes) -> bool:
    """Return True if a JSON text may take more than MAX_BYTES when it is decoded."""
    return len(text) > LITTLE and may_take(text) > MAX_BYTES


def may_take(text: str | bytes) -> int:
    """Return an upper bound of the bytes that a JSON text takes when decoded, at most 2.5 times too high."""
    most = _estimate(text)
    if most <= MAX_BYTES:
        return most
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    # Strings may contain programs, with brackets, commas and escaped quotes.
    text = text.replace("\\\\", "").replace('\\"', "")
    quotes = text.count('"')
    return _estimate(_STRING.sub("", text)) + quotes * _QUOTE if quotes < _FEW_QUOTES else most


def _estimate(text: str | bytes) -> int:
    if isinstance(text, bytes):
        counts = [text.count(mark) for mark in (b"{", b"[", b",", b'"')]
    else:
        counts = [text.count(mark) for mark in ("{", "[", ",", '"')]
    return sum(count * size for count, size in zip(counts, (_OBJECT, _LIST, _VALUE, _QUOTE), strict=True))


def taken_by(value: Any) -> int:
    """Return the bytes that a decoded value takes, with its contents."""
    taken = 0
    size = sys.getsizeof
    found = [value]
    for one in found:  # `found` grows during the loop
        kind = type(one)
        if kind is str:
            taken += size(one)
        elif kind is dict:
            taken += size(one)
            found += one.values()
        elif kind is list:
            taken += size(one)
            found += one
        else:
            # Texts in header fields, a subclass of list, are shared. The caller subtracts them when it drops
            # the fields.
            taken += size(one) + len(one) * _TUPLE if isinstance(one, list) else _NUMBER
    return taken
