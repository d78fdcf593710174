"""List the commands for manual pages, and generate the tables of commands, pages, decisions and others."""

import ast
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fastopen.analysis.audit.kinds import MEANING
from fastopen.cli.discovery import COMMAND_PANELS, Commands
from fastopen.contract import certificates
from fastopen.experiments import load_experiment, packaged_experiments
from fastopen.pages.library import load_pages, packaged_pages
from fastopen.runs.flat_tables import TABLES

ROOT: Final = Path(__file__).resolve().parents[1]
DECISIONS: Final = ROOT / "docs" / "decisions"
# In the order of the data flow. tests/python/test_layers.py checks that imports follow it.
PACKAGES: Final = (
    *("common", "pages", "contract", "experiments", "engines", "runs"),
    *("analysis", "workflows", "report", "api", "cli", "apps"),
)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the full name of each command, such as `kernel build`, and the command."""
    every = Commands().commands
    for name in every:
        group = getattr(every[name], "commands", {"": every[name]})
        yield from ((f"{name} {inner}".strip(), command) for inner, command in group.items())


def command_table() -> str:
    """Return a Markdown table of the commands and their tasks, under the headings of `fastopen --help`."""
    rows = ["| command | task |", "|---|---|"]
    every: dict[str, Any] = dict(Commands().commands)
    panels = {name: one.rich_help_panel for name, one in every.items()}
    for panel in COMMAND_PANELS:
        rows.append(f"| **{panel}** | |")
        for name, command in commands():
            if panels[name.split()[0]] == panel:
                taken = (one for one in command.params if one.param_type_name == "argument")
                usage = " ".join([name, *(_placeholder(one) for one in taken)])
                rows.append(f"| `{usage}` | {command.help.partition(chr(10))[0]} |")
    return "\n".join(rows) + "\n"


def _placeholder(argument: Any) -> str:
    word = argument.name.upper().removesuffix("S" if argument.nargs < 0 else "")
    word += "..." if argument.nargs < 0 else ""
    return word if argument.required else f"[{word}]"


def experiment_table() -> str:
    """Return a Markdown table of the packaged experiments: name and title."""
    rows = (f"| `{name}` | {load_experiment(name).title} |" for name in sorted(packaged_experiments()))
    return "\n".join(["| name | what it repeats |", "|---|---|", *rows]) + "\n"


def page_table() -> str:
    """Return a Markdown table of the packaged pages: requests, URL, source, initiators, licence, digest."""
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["license"]
    pages = (one.page for one in load_pages(sorted(packaged_pages())))
    rows = (
        f"| `{one.name}` | {len(one.resources)} | `{one.url}` | {one.source} | {one.initiators} | {licence} |"
        f" `{one.digest()[:16]}` |"
        for one in pages
    )
    head = "| page | requests | URL | source | initiators | licence | digest |"
    return "\n".join([head, "|---|---:|---|---|---|---|---|", *rows]) + "\n"


def export_list() -> str:
    """Return a Markdown list of the tables of an export, with their columns in order."""
    items = (f"- `{name}`: {', '.join(f'`{column}`' for column in TABLES[name])}" for name in TABLES)
    return "\n".join(textwrap.fill(item, 110, subsequent_indent="  ") for item in items) + "\n"


def audit_table() -> str:
    """Return a Markdown table of the findings that an audit can report: kind and meaning."""
    rows = (f"| `{kind}` | {meaning} |" for kind, meaning in MEANING.items())
    return "\n".join(["| kind | finding |", "|---|---|", *rows]) + "\n"


def decision_table() -> str:
    """Return a Markdown table of the decisions in docs/decisions, sorted by title: title and status."""
    rows = []
    for path in DECISIONS.glob("[a-z]*.md"):
        title, _, status, *_ = path.read_text(encoding="utf-8").splitlines()
        rows.append(f"| [{title.removeprefix('# ')}]({path.name}) | {status.removeprefix('Status: ')} |")
    return "\n".join(["| decision | status |", "|---|---|", *sorted(rows)]) + "\n"


def package_table() -> str:
    """Return a table of the folders of python/fastopen. Raises ValueError if they differ from PACKAGES."""
    package = ROOT / "python" / "fastopen"
    if {path.parent.name for path in package.glob("*/__init__.py")} != {*PACKAGES}:
        raise ValueError("tools/command_documents.py: PACKAGES are not the folders of python/fastopen")
    rows = []
    for name in PACKAGES:
        text = ast.get_docstring(ast.parse((package / name / "__init__.py").read_text(encoding="utf-8")))
        rows.append(f"| `{name}` | {(text or '').partition(chr(10))[0]} |")
    return "\n".join(["| folder of `python/fastopen` | contents |", "|---|---|", *rows]) + "\n"


def certificate_table() -> str:
    """Return a table with a row for each kind of certificates: sizes of key, signature and chain in bytes."""
    rows = ["| `--certificates` | public key | signature | chain | source |", "|---|---:|---:|---:|---|"]
    algorithms = {"merkle-tree": certificates.ML_DSA_44}
    for kind, chain in certificates.CHAIN_BYTES.items():
        of = algorithms.get(kind) or getattr(certificates, kind.upper().replace("-", "_"))
        figures = f"{of.public_key_bytes:,} | {of.signature_bytes:,} | {chain:,}"
        rows.append(f"| `{kind}` | {figures} | {of.source} |")
    return "\n".join(rows) + "\n"
