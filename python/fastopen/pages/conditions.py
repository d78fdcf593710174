"""Evaluate conditions on the properties of a page, such as `connections > 20 and hosts < 50`.

Python's parser parses the condition, and this module evaluates the syntax tree. A condition may contain names
of properties, numbers, strings, comparisons, `and`, `or`, `not` and `+ - * /`. For strings, `in` and `not in`
test for a substring.
"""

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from fastopen.common.errors import InputError, any_of, did_you_mean

Facts = Mapping[str, Any]
Kind = Literal["number", "text", "condition"]
Reader = Callable[[Facts], Any]
# Maximum length of a condition: more than a person writes, and not too much for the parser's stack.
LENGTH_MAX: Final = 2000
EXAMPLE: Final = "write it like 'connections > 20 and hosts < 50'"

_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TEXT_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.In: lambda part, whole: part in whole,
    ast.NotIn: lambda part, whole: part not in whole,
}
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # Division by zero gives NaN, because every comparison with NaN except `!=` is false.
    ast.Div: lambda above, below: above / below if below else math.nan,
}


class Condition:
    """A condition on a page's properties, such as `hosts < 50`. Calling the condition with a mapping from
    names of properties to values returns True if the page meets the condition."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        """Parse the condition `text`. `kinds` maps the name of each page property to its type. Raises
        InputError if the syntax is invalid, or if a property is unknown or has the wrong type."""
        self.text = text
        self._kinds = kinds
        kind, self._meets = self._read(self._parsed())
        if kind != "condition":
            raise self._fault(
                f"{text.strip()} is a {kind}, not a condition", f"write it like {text.strip()} > 20"
            )

    def __call__(self, facts: Facts) -> bool:
        return bool(self._meets(facts))

    def _parsed(self) -> ast.expr:
        if len(self.text) > LENGTH_MAX:
            raise self._fault(f"longer than {LENGTH_MAX} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                return ast.parse(self.text.strip(), mode="eval").body
        except SyntaxError as error:
            at = f" at character {error.offset}" if error.offset else ""
            assigned = (error.text or "")[(error.offset or 0) - 1 :].startswith("=")
            remedy = "== compares" if assigned else EXAMPLE
            raise self._fault(f"cannot be understood{at}: {self.text.strip()!r}", remedy) from None
        except (ValueError, RecursionError, MemoryError):
            raise self._fault("cannot be understood", EXAMPLE) from None

    def _read(self, node: ast.expr) -> tuple[Kind, Reader]:
        match node:
            case ast.Name(id=name) if name in self._kinds:
                return self._kinds[name], lambda facts: facts[name]
            case ast.Name(id=name):
                remedy = did_you_mean(name.lower(), self._kinds, f"use {any_of(self._kinds)}")
                raise self._fault(f"unknown page property {name!r}", remedy)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return "number", lambda _: number
            case ast.Constant(value=str() as text):
                return "text", lambda _: text
            case ast.BoolOp(op=op, values=values):
                parts = [self._reader_of(one, "condition") for one in values]
                every = all if isinstance(op, ast.And) else any
                return "condition", lambda facts: every(part(facts) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._reader_of(operand, "condition")
                return "condition", lambda facts: not inner(facts)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number_of = self._reader_of(operand, "number")
                return "number", lambda facts: -number_of(facts)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                work_out = _ARITHMETIC[type(op)]
                first, second = self._reader_of(left, "number"), self._reader_of(right, "number")
                return "number", lambda facts: work_out(first(facts), second(facts))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return "condition", self._comparison([left, *others], ops)
        remedy = "use comparisons such as 'connections > 20', and the operators and, or, not, + - * /"
        raise self._fault(f"unsupported expression {self._written(node)!r}", remedy)

    def _comparison(self, nodes: list[ast.expr], ops: list[ast.cmpop]) -> Reader:
        """Return a function that evaluates a comparison, or a chain of them such as `10 < hosts <= 20`."""
        read = [self._read(node) for node in nodes]
        links = []
        for number, op in enumerate(ops):
            (left_kind, left), (right_kind, right) = read[number : number + 2]
            compare = (_COMPARISONS | (_TEXT_COMPARISONS if right_kind == "text" else {})).get(type(op))
            if compare is None or "condition" in (left_kind, right_kind):
                raise self._fault(f"{self._written(nodes[number])} cannot be compared in this way", EXAMPLE)
            if left_kind != right_kind:
                sides = (f"{self._written(nodes[at])} is a {read[at][0]}" for at in (number, number + 1))
                raise self._fault(" and ".join(sides), "compare numbers with numbers, and 'texts' with texts")
            links.append((left, compare, right))
        return lambda facts: all(compare(left(facts), right(facts)) for left, compare, right in links)

    def _reader_of(self, node: ast.expr, wanted: Kind) -> Reader:
        kind, reader = self._read(node)
        if kind != wanted:
            raise self._fault(f"{self._written(node)} is a {kind}, not a {wanted}", EXAMPLE)
        return reader

    def _written(self, node: ast.expr) -> str:
        return ast.get_source_segment(self.text.strip(), node) or ast.unparse(node)

    def _fault(self, message: str, remedy: str = "") -> InputError:
        return InputError(message, "--where", remedy)
