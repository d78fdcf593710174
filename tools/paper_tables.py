"""Write the measured parts of docs/paper.md and docs/measurements/published-tables.md.

They are the output of `fastopen reproduce NAME --explain` for each experiment.

tools/paper_tables.py [NAME...]: update these experiments, or all, which took 15 minutes on two cores.
tools/paper_tables.py --print NAME: print the part of this experiment instead.
tools/paper_tables.py --print: search all experiments, and print docs/paper.md with a new summary instead."""

import re
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

from fastopen.common.errors import InputError
from fastopen.experiments import load_rigs, packaged_experiments
from fastopen.report.explained import explained_grids, sentences
from fastopen.report.markdown import escaped, table
from fastopen.workflows.explain import Explained, explain
from fastopen.workflows.known_times import KnownTimes

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENT = DOCS / "paper.md"
TABLES = DOCS / "measurements" / "published-tables.md"


def section(found: Explained) -> Iterator[str]:
    """Yield the lines of an experiment's part of the documents: tables and sentences on its rigs."""
    cells, *others = explained_grids(found)
    # The table's title is left out, because the document has its own heading.
    yield from [*table(cells)][1:]
    yield ""
    yield escaped(" ".join(sentences(found)))
    for grid in others:
        yield f"\n{escaped(grid.title)}:\n"
        yield from [*table(grid)][1:]


def summary_row(found: Explained) -> str:
    """Return the row of an experiment in the summary table of docs/paper.md."""
    base, best = found.base, found.best
    cells = (
        f"[{found.space.base.name}](#{found.space.base.name})",
        *map(str, (len(found.cells), base.agreeing, found.sourced.agreeing)),
        *map(str, (best.agreeing, found.predicted, found.predicted_pages)),
        *map(str, (base.times_agreeing, found.sourced.times_agreeing, best.times_agreeing)),
    )
    return f"| {' | '.join(cells)} |"


def with_totals(text: str) -> str:
    """Return the document with new sums of all experiments in the last row of the summary table."""
    rows = [line.split("|")[2:-1] for line in text.splitlines() if line.startswith("| [")]
    sums = [sum(int(figure) for figure in column) for column in zip(*rows, strict=True)]
    total = f"| all | {' | '.join(map(str, sums))} |"
    return re.sub(r"^\| all \|.*$", total, text, flags=re.MULTILINE)


def replaced(text: str, name: str, body: str) -> str:
    """Return the text with the part between the marks of `name` replaced by `body`."""
    pattern = rf"(<!-- measured[^\n]* {re.escape(name)} -->\n).*?(<!-- end: measured -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{body}\n{match[2]}", text, flags=re.DOTALL)


def with_row(text: str, found: Explained) -> str:
    """Return the document with a new row for an experiment in the summary table, and with new sums."""
    rows = re.compile(rf"^\| \[{re.escape(found.space.base.name)}\]\(.*$", flags=re.MULTILINE)
    return with_totals(rows.sub(summary_row(found).replace("\\", r"\\"), text))


def searched(names: list[str]) -> Iterator[Explained]:
    """Yield the result of a search for the rig that agrees best with each named experiment, or with each that
    declares rigs. Searches share loads, but use none of earlier runs, so all figures are measured now."""
    known = KnownTimes()
    for name in packaged_experiments():
        try:
            space = load_rigs(name)
        except InputError:
            continue
        if not names or name in names:
            print(name, file=sys.stderr)
            yield explain(space, known=known)


def main(names: list[str]) -> None:
    """Search the rigs of the named experiments, and update both documents after each experiment."""
    for found in searched(names):
        name, body = found.space.base.name, "\n".join(section(found))
        TABLES.write_text(replaced(TABLES.read_text(encoding="utf-8"), name, body), encoding="utf-8")
        text = replaced(DOCUMENT.read_text(encoding="utf-8"), name, body)
        DOCUMENT.write_text(with_row(text, found), encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--print"]:
            print(reduce(with_row, searched([]), DOCUMENT.read_text(encoding="utf-8")))
        case ["--print", name]:
            print("\n".join(section(explain(load_rigs(name)))))
        case names:
            main(names)
