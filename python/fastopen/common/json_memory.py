"""Estimate the memory that JSON takes up after decoding, which is up to 48 bytes for each character."""

import re
import sys
from typing import Any, Final

# The limit on the memory of one decoded JSON text. The estimate for the largest record of a load is 158 MiB
# (see runs/database.py), and for a page of 10,000 resources 20 MB. If every value is invalid, pydantic's
# errors take up twice as much memory in addition.
MAX_BYTES: Final = 160 * 2**20
# The maximum memory for one character of text, in bytes. In `[[[…]]]`, each pair of brackets becomes a list
# with room for four values (88 bytes). `{"":[0]}` becomes an object, a list and a number (352 bytes).
A_CHARACTER: Final = 48
# A text of at most this many characters cannot exceed the limit.
LITTLE: Final = MAX_BYTES // A_CHARACTER
# The bytes of an object with up to five members, of a list with room for four values, of each additional
# value or member, and of a quote (half of an empty string).
_SIZES: Final = {"{": 232, "[": 88, ",": 72, '"': 30}
# The bytes of a tuple of two values, and of a number.
_TUPLE: Final = 56
_NUMBER: Final = 32
# Texts with more quotes keep their strings, because `re.sub` needs memory for each string that it removes.
_FEW_QUOTES: Final = 2**20
_STRING: Final = re.compile(r'"[^"]*"?')


def is_too_much(text: str | bytes) -> bool:
    """Return True if a JSON text may take up more than MAX_BYTES of memory after decoding."""
    return len(text) > LITTLE and estimated_bytes(text) > MAX_BYTES


def estimated_bytes(text: str | bytes) -> int:
    """Estimate how many bytes of memory a JSON text takes up after decoding, not counting the characters of
    its strings. The estimate is usually twice the true size, and sometimes more."""
    most = _estimate(text)
    if most <= MAX_BYTES:
        return most
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    # Strings may contain program code, whose brackets, commas and escaped quotes must not count.
    text = text.replace("\\\\", "").replace('\\"', "")
    quotes = text.count('"')
    return _estimate(_STRING.sub("", text)) + quotes * _SIZES['"'] if quotes < _FEW_QUOTES else most


def _estimate(text: str | bytes) -> int:
    if isinstance(text, bytes):
        return sum(text.count(mark.encode()) * size for mark, size in _SIZES.items())
    return sum(text.count(mark) * size for mark, size in _SIZES.items())


def bytes_of(value: Any) -> int:
    """Return the size of a decoded JSON value in memory, in bytes, including all values that it contains."""
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
            # HAR headers are a list subclass. Their strings are shared, so the HAR importer counts them.
            taken += size(one) + len(one) * _TUPLE if isinstance(one, list) else _NUMBER
    return taken
