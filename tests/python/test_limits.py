"""Check that sizes and counts of style faults do not exceed the limits in tests/limits.toml.

A commit that raises a limit must give a reason. If a count has fallen well below its limit, lower the limit.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fastopen.cli.discovery import Commands
from places import ROOT

LIMITS: Final = tomllib.loads((ROOT / "tests" / "limits.toml").read_text())
BUDGETS: Final = LIMITS.pop("words_of_page")
PACKAGE: Final = ROOT / "python" / "fastopen"
REFERENCE: Final = ("docs/dev/contract.md", "docs/factors.md")
"""Pages whose text is mostly generated."""
BESIDE: Final = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "kernel/README.md")
"""Documents outside of docs/, which `words_of_documents` leaves out."""
PATTERNS: Final = {
    "what_as_a_noun": r"\b(?:of|for|from|by|to|with|says?|tells?) what\b|^What \w+ \w+",
    "documents_that_say": r"\b(?:documents?|pages?|tables?|rows?|files?|lines?|it) (?:says?|tells?)\b"
    r"|\bis (?:said|told)\b",
    "alone": r"\balone\b",
    "in_place_of": r"\bin place of\b",
    "held_against": r"\bheld against\b",
    "old_words": r"\b(?:anew|mended|besides|told apart|foretell)\b",
}
ODD_START: Final = re.compile(r"(?:Of|What|Whether|How|Where|Which|The same|Those|As)\b")
SENTENCE_WORDS: Final = 40
CELL_WORDS: Final = 25


def documents() -> list[Path]:
    """Return the hand-written documents, except notes on measurements."""
    names = ("README.md", *BESIDE)
    every = [*(ROOT / name for name in names), *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("tests/*/*.md")]
    return [path for path in every if "measurements" not in path.parts and name_of(path) not in REFERENCE]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return the text of a document without generated parts, code, comments and the targets of links."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<!-- (?:generated|measured)\b.*?<!-- end: [^>]*-->", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(path: Path) -> Iterator[str]:
    """Yield the sentences of paragraphs and lists, not of tables and headings."""
    text = "\n".join(line for line in prose(path).splitlines() if not line.startswith(("|", "#")))
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`\"'*])", " ".join(block.split()))


def cells(path: Path) -> Iterator[str]:
    """Yield the cells of tables."""
    for line in prose(path).splitlines():
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line)


def words_in_tables_percent() -> float:
    """Return the share of words in cells of tables, generated ones included."""
    texts = [
        path.read_text(encoding="utf-8") for path in {*documents(), *(ROOT / name for name in REFERENCE)}
    ]
    lines = [line for text in texts for line in text.splitlines()]
    in_cells = sum(len(line.replace("|", " ").split()) for line in lines if line.startswith("|"))
    return round(100 * in_cells / sum(len(line.split()) for line in lines), 1)


def docstrings() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found = ast.get_docstring(node)
                if found:
                    yield found


def commands() -> Iterator[Any]:
    for one in Commands().commands.values():
        yield from getattr(one, "commands", {"": one}).values()


def lines_of(pattern: str, part: str) -> int:
    paths = [path for path in ROOT.glob(pattern) if part in path.parts]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def counts() -> dict[str, float]:
    """Return the current count for each limit."""
    texts = {name_of(path): prose(path) for path in documents()}
    text = "\n".join(texts.values())
    words = len(text.split())
    starts = list(docstrings())
    per_10000 = {
        name: round(10_000 * len(re.findall(pattern, text, re.MULTILINE)) / words, 2)
        for name, pattern in PATTERNS.items()
    }
    no_entry = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
    return {
        "lines_of_python": lines_of("python/fastopen/**/*.py", "fastopen"),
        "lines_of_rust": lines_of("crates/*/src/**/*.rs", "src"),
        "top_entries": len({path.name for path in PACKAGE.iterdir()} - no_entry),
        "commands": len(list(commands())),
        "options": sum(len([one for one in command.params if one.name != "help"]) for command in commands()),
        "words_of_documents": sum(
            len(text.split()) for name, text in texts.items() if name.startswith(("README", "docs/"))
        ),
        "words_in_tables_percent": words_in_tables_percent(),
        "readme_lines": len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()),
        "long_sentences": sum(
            len(one.split()) > SENTENCE_WORDS for path in documents() for one in sentences(path)
        ),
        "long_cells": sum(len(one.split()) > CELL_WORDS for path in documents() for one in cells(path)),
        "odd_docstrings_percent": round(
            100 * sum(bool(ODD_START.match(one)) for one in starts) / len(starts), 1
        ),
        "glossary_terms": sum(
            line.startswith("- **")
            for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
        ),
        **per_10000,
    }


COUNTS: Final = counts()


def test_all_that_is_counted_has_a_limit() -> None:
    assert LIMITS.keys() == COUNTS.keys()


@pytest.mark.parametrize("name", COUNTS)
def test_it_does_not_grow(name: str) -> None:
    assert COUNTS[name] <= LIMITS[name], f"{name}: raise tests/limits.toml with a reason, or take back"


@pytest.mark.parametrize("name", COUNTS)
def test_a_limit_follows_what_has_fallen(name: str) -> None:
    slack = 1 if isinstance(COUNTS[name], int) else 0.1
    assert LIMITS[name] <= 1.1 * COUNTS[name] + slack, f"{name}: lower tests/limits.toml to {COUNTS[name]}"


WORDS: Final = {
    name_of(path): len(prose(path).split()) for path in documents() if "decisions" not in path.parts
}


def test_each_page_has_a_budget_of_words() -> None:
    assert BUDGETS.keys() == WORDS.keys()


@pytest.mark.parametrize("name", sorted(WORDS))
def test_a_page_keeps_to_its_budget(name: str) -> None:
    """Budgets are round numbers, and follow a page that has become shorter."""
    assert WORDS[name] <= BUDGETS.get(name, 0) <= 1.1 * WORDS[name] + 50


if __name__ == "__main__":
    for _name, _count in COUNTS.items():
        print(f"{_name} = {_count:g}")
    print("\n[words_of_page]")
    for _name, _count in sorted(WORDS.items()):
        print(f'"{_name}" = {-(-_count // 50) * 50}')
