"""The memory of decoded JSON: a byte of text can become thirty (`[],` is a list of 56 bytes).

Figures are those of CPython 3.11 on 64 bits, `sys.getsizeof` with the pointers to the values.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

# Of one text, whoever wrote it. The largest record of a load is said to take 158 MiB (runs/limits.py says
# what it has), a page of 10,000 resources 20 MB. If all of it is wrong, pydantic's errors take twice as much
# again.
MAX_BYTES: Final = 160 * 2**20
# What a character becomes at most: of `[[…]]` two are a list with room for four, of `{"":[0]}` eight are an
# object, a list and a number (44 bytes each).
A_CHARACTER: Final = 48
# So long a text takes no more than that, whatever it holds.
LITTLE: Final = MAX_BYTES // A_CHARACTER
# An object of up to five members, a list with room for four, a value or member of more, half a string.
_OBJECT: Final = 232
_LIST: Final = 88
_VALUE: Final = 72
_QUOTE: Final = 30
_TUPLE: Final = 56
_NUMBER: Final = 32
# Below this all strings of a text can be cut out of it: what is between them is an object each meanwhile.
_FEW_QUOTES: Final = 2**20
_STRING: Final = re.compile(r'"[^"]*"?')


def is_too_much(text: str | bytes) -> bool:
    """Return True if a JSON text may take more than MAX_BYTES when it is decoded."""
    return len(text) > LITTLE and may_take(text) > MAX_BYTES


def may_take(text: str | bytes) -> int:
    """An upper limit of the bytes that a JSON text takes when it is decoded, at most 2.5 times too high."""
    most = _estimate(text)
    if most <= MAX_BYTES:
        return most
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    # Programs in long strings have brackets, commas and escaped quotes too.
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
    """The bytes that a decoded value takes, with all that is in it."""
    taken = 0
    size = sys.getsizeof
    found = [value]
    for one in found:  # which grows meanwhile
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
            # Of header fields, a subclass of list, the texts are shared: whoever keeps them takes them off.
            taken += size(one) + len(one) * _TUPLE if isinstance(one, list) else _NUMBER
    return taken
