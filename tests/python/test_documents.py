"""Documents name everything that they must name, and their links, commands and options exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from fastopen.cli.discovery import Commands
from fastopen.contract.records import Record
from fastopen.experiments import FACTORS, packaged_experiments
from fastopen.pages.library import packaged_pages
from places import ROOT

PAGES: Final = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("dev/*.md"))]
NO_COMMAND: Final = ("COMMAND", "import", "my-name")
"""Words after `fastopen` that are not commands, but placeholders, names or Python."""
DECISIONS: Final = sorted((ROOT / "docs" / "decisions").glob("[a-z]*.md"))


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def documents() -> list[Path]:
    """Return all documents of this project."""
    inner = ("", "decisions", "dev", "measurements")
    folders = (ROOT, *(ROOT / "docs" / name for name in inner), ROOT / "kernel", ROOT / "tests" / "contract")
    return [path for folder in folders for path in sorted(folder.glob("*.md"))]


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, such as `kernel build` for a command of a group."""
    every = Commands().commands
    for name in every:
        group = getattr(every[name], "commands", {"": every[name]})
        yield from ((f"{name} {inner}".strip(), command) for inner, command in group.items())


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_a_command_is_in_the_table_of_commands(name: str) -> None:
    table = [line for line in text("docs/cli.md").splitlines() if line.startswith("| `")]
    first, *inner = name.split()
    assert any(re.search(rf"`{first}\b[^|]*{' '.join(inner)}", line.split("|")[1]) for line in table)


@pytest.mark.parametrize(
    ("name", "command"), [*commands()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_option_has_a_help_text(name: str, command: Any) -> None:
    """`--help` is the only list of options, so that an option without a text would be documented nowhere."""
    assert (command.help or "").strip(), name
    options = [one for one in command.params if one.param_type_name == "option"]
    words = {one.opts[0]: re.sub(r"\(.*?\)", "", one.help or "").strip() for one in options}
    assert [option for option, said in words.items() if not said] == []


def test_every_factor_is_in_its_table() -> None:
    listed = text("docs/factors.md")
    assert [factor.name for factor in FACTORS if f"`{factor.name}`" not in listed] == []


def test_every_kind_of_client_is_in_the_table_of_clients() -> None:
    kinds = next(factor for factor in FACTORS if factor.name == "client").quantity.accepted
    assert [kind for kind in kinds if f"| `{kind}` |" not in text("docs/clients.md")] == []


def test_every_key_of_a_record_is_in_the_contract() -> None:
    told = text("docs/dev/contract.md")
    keys = {key for model in get_args(Record) for key in model.model_fields}
    assert sorted(key for key in keys if f"`{key}`" not in told) == []


def command_lines(path: Path) -> Iterator[str]:
    """Yield every command line of fastopen in a document's blocks and text."""
    whole = path.read_text(encoding="utf-8").replace("\\\n", "")
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", whole, re.M | re.S):
        yield from re.findall(r"(?:^|[ /])(fastopen [a-z].*)$", block, re.M)
    yield from re.findall(r"`(fastopen [^`]*)`", whole)


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_line_has_a_command_and_options_that_exist(path: Path) -> None:
    known = dict(commands())
    first = {*NO_COMMAND, *(name.split()[0] for name in known)}
    for line in command_lines(path):
        lexer = shlex.shlex(re.split(r" -- |\$\(", line)[0], posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = [*takewhile(lambda word: word not in (";", "&&", "|", ">"), lexer)][1:]
        name = next((one for one in (" ".join(words[:2]), *words[:1]) if one in known), None)
        # The changelog also has old names of commands.
        assert path.name == "CHANGELOG.md" or words[0].startswith("-") or words[0] in first, line
        if name is not None:
            every = {option for one in known[name].params for option in (*one.opts, *one.secondary_opts)}
            options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
            assert [one for one in options if one not in {*every, "--help"}] == [], line


def test_contributing_names_what_is_there() -> None:
    """Check names of files, functions and constants, except placeholders."""
    folders = [ROOT / name for name in ("python/fastopen", "crates", "tools", "tests/python")]
    sources = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".rs")]
    code = "\n".join([f"/{path.name}\n{path.read_text()}" for path in sources])
    names = {*re.findall(r"`(?:[\w/]+/)?(\w+\.(?:py|rs))`", text("CONTRIBUTING.md"))}
    names |= {*re.findall(r"`(_\w+|\w+_\w+|[A-Z]\w+)`", text("CONTRIBUTING.md"))}
    names -= {"NAME.py", "NAME.rs", "my_name.py", "REPOSITORY"}
    assert [name for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", code)] == []


@pytest.mark.parametrize("name", sorted(packaged_experiments()))
def test_a_packaged_experiment_is_named(name: str) -> None:
    assert f"`{name}`" in text("docs/cli.md")


@pytest.mark.parametrize("name", sorted(packaged_pages()))
def test_a_packaged_page_is_named(name: str) -> None:
    assert f"`{name}`" in text("docs/pages.md")


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_to_what_is_there(path: Path) -> None:
    for target, anchor in re.findall(
        r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8")
    ):
        file = (path.parent / target) if target else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_begins_with_a_short_sentence(path: Path) -> None:
    _, _, first, *_ = path.read_text(encoding="utf-8").split("\n", 2)
    sentence = re.split(r"[.:](?:\s|$)", first.partition("\n\n")[0])[0]
    assert re.match(r"\[?[A-Z]", sentence)
    assert len(sentence.split()) <= 30


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_list_of_documents_leads_to_each(path: Path) -> None:
    link = path.relative_to(ROOT / "docs")
    assert path.name == "README.md" or f"]({link})" in text("docs/README.md")


def test_decisions_are_few() -> None:
    assert len(DECISIONS) <= 25


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_a_decision_is_short_has_a_status_and_is_in_the_index(path: Path) -> None:
    decision = path.read_text(encoding="utf-8")
    assert len(decision.split()) <= 300
    title, _, status, *_ = decision.splitlines()
    assert re.fullmatch(r"Status: (accepted|replaced by \[.*\]\(.*\))", status)
    assert f"[{title.removeprefix('# ')}]({path.name}) | {status.removeprefix('Status: ')} |" in text(
        "docs/decisions/README.md"
    )


def test_comments_of_rust_are_as_wide_as_its_code_may_be() -> None:
    """rustfmt does not wrap comments."""
    (width,) = re.findall(r"max_width = (\d+)", text("rustfmt.toml"))
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "crates").rglob("*.rs"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.lstrip().startswith("//") and len(line) > int(width)
    ]
    assert wide == []
