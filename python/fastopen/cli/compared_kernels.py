"""The end of a run on several kernels. It has its own module because few runs compare."""

from collections.abc import Mapping

from fastopen.analysis.comparison import Check, Side, compare_runs
from fastopen.cli.commands.compare import print_comparisons
from fastopen.cli.output import print_json
from fastopen.report import results_document
from fastopen.report.compared_document import comparison_document


def print_kernels(of_kernel: Mapping[str, Side], *, as_json: bool) -> None:
    before, *others = of_kernel.values()
    compared = [compare_runs(before, after) for after in others]
    checks: list[list[Check]] = [[] for _ in compared]
    if not as_json:
        print_comparisons(compared, checks)
        return
    print_json(
        {
            "format": "fastopen-kernels/1",
            "kernels": list(of_kernel),
            "comparison": comparison_document(compared, checks),
            "results": {name: results_document(side.results) for name, side in of_kernel.items()},
        }
    )
