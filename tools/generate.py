#!/usr/bin/env python3
"""Write all text that is generated from the code: schemas, boundary cases, tables and figures in documents.

    .venv/bin/python tools/generate.py           # writes files that are out of date
    .venv/bin/python tools/generate.py --check   # only lists these files; exit status 1 if there are any

An entry of OUTPUTS is a whole file, or the part between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
Figures of docs/facts.toml are inserted between the marks `<!--fact:NAME-->` and `<!--/-->` of documents."""

import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import client_documents as clients
import command_documents as commands
import contract_cases
import contract_documents as contract
import factor_documents as factors
import invalid_documents as invalid

ROOT: Final = Path(__file__).resolve().parents[1]
FACT: Final = re.compile(r"<!--fact:(\w+)-->.*?<!--/-->")


@dataclass(frozen=True)
class Output:
    """A generated text: a whole file or, if `part` is set, the text between the comments that name `part`."""

    path: str
    text: Callable[[], str]
    part: str | None = None

    def apply(self, before: str) -> str:
        """Return the file's text, updated. Raises ValueError if the comments that name `part` are missing."""
        if self.part is None:
            return self.text()
        start, end = f"<!-- generated: {self.part} -->\n", f"<!-- end: {self.part} -->\n"
        head, found, rest = before.partition(start)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{self.path}: has no {start.strip()} ... {end.strip()}")
        return f"{head}{start}{self.text()}{end}{tail}"


OUTPUTS: Final = (
    Output("tests/contract/job.schema.json", contract.job_schema),
    Output("tests/contract/record.schema.json", contract.record_schema),
    Output("tests/contract/job-cases.jsonl", contract_cases.job_cases),
    Output("tests/contract/record-cases.jsonl", contract_cases.record_cases),
    Output("docs/dev/contract.md", contract.page_tables, "page"),
    Output("docs/dev/contract.md", contract.job_tables, "job"),
    Output("docs/dev/contract.md", contract.record_tables, "records"),
    Output("docs/clients.md", clients.client_table, "clients"),
    Output("docs/invalid-loads.md", invalid.entries, "kinds"),
    Output("docs/factors.md", factors.factor_tables, "factors"),
    Output("docs/factors.md", factors.network_table, "networks"),
    Output("docs/cli.md", commands.command_table, "commands"),
    Output("docs/cli.md", commands.experiment_table, "experiments"),
    Output("docs/pages.md", commands.page_table, "pages"),
    Output("docs/json.md", commands.export_list, "exports"),
    Output("docs/audit.md", commands.audit_table, "audit"),
    Output("docs/post-quantum.md", commands.certificate_table, "certificates"),
    Output("docs/dev/design.md", commands.package_table, "packages"),
    Output("docs/decisions/README.md", commands.decision_table, "decisions"),
)


def with_facts(text: str, facts: dict[str, str]) -> str:
    """Return the text with figures from `facts` between its marks. Raises KeyError for an unknown name."""
    return FACT.sub(lambda mark: f"<!--fact:{mark[1]}-->{facts[mark[1]]}<!--/-->", text)


def main() -> int:
    """Write files that are out of date, or list them with --check. Return 1 if --check finds any, else 0."""
    check = sys.argv[1:] == ["--check"]
    stale: list[str] = []
    texts: dict[str, str] = {}
    for output in OUTPUTS:
        path = ROOT / output.path
        before = texts.get(output.path) or (path.read_text() if path.exists() else "")
        texts[output.path] = output.apply(before)
    facts = tomllib.loads((ROOT / "docs" / "facts.toml").read_text())
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        name = str(path.relative_to(ROOT))
        texts[name] = with_facts(texts.get(name) or path.read_text(), facts)
    for name, text in texts.items():
        path = ROOT / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    for name in stale:
        print(f"{name}: out of date (tools/generate.py writes it again)" if check else f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
