"""Audit the published cells of an experiment: which of them cannot be as they were printed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from fastopen.analysis.audit import Finding, audit, read_table
from fastopen.analysis.audit.findings import QUESTIONS
from fastopen.common.errors import InputError
from fastopen.common.resources import packaged_folder
from fastopen.experiments import PublishedCell
from fastopen.experiments.published import FILE

# What is wrong with the times themselves, or asked about them; the rest is wrong with the print.
OF_TIMES: Final = ("monotony", "growth", "bound", "below_rtt", "below_rate", *QUESTIONS)


def published_findings(cells: Sequence[PublishedCell]) -> Mapping[PublishedCell, tuple[Finding, ...]]:
    """Return what the audit finds of cells, of their times."""
    folder = packaged_folder("experiments")
    if folder is None:
        raise InputError("the file of published figures is missing", FILE, "install fastopen again")
    wanted = {(one.experiment, one.page, one.rtt_ms, one.down_mbit): one for one in cells}
    found: defaultdict[PublishedCell, list[Finding]] = defaultdict(list)
    for finding in audit(read_table(folder / FILE).cells):
        cell = finding.cell
        key = (cell.experiment, cell.page, float(cell.rtt_ms), float(cell.down_mbit or 0))
        if key in wanted and finding.kind in OF_TIMES:
            found[wanted[key]].append(finding)
    return {cell: tuple(findings) for cell, findings in found.items()}
