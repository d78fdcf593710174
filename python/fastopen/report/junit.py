"""Write checks of limits on page load times and savings as JUnit XML, for continuous integration."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from fastopen.analysis.comparison import LimitCheck, LimitVerdict, RunComparison
from fastopen.common.errors import one_line
from fastopen.report.compared import check_words, where_on_the_path


def junit(compared: Sequence[RunComparison], checks: Sequence[Sequence[LimitCheck]]) -> str:
    """Return JUnit XML for limits on changes of page load times and savings. Each comparison of two runs is a
    test suite, and each limit on one result is a test case. The time of a test case is the median page load
    time of the second run. `checks` lists the checked limits of each comparison."""
    suites = ET.Element("testsuites", name="fastopen compare")
    for one, of_one in zip(compared, checks, strict=True):
        suite = ET.SubElement(suites, "testsuite", name=one_line(one.after.place))
        _count(suite, of_one)
        properties = ET.SubElement(suite, "properties")
        for name, value in (("reference", one.before.place), *((s.name, s.values) for s in one.settings)):
            ET.SubElement(properties, "property", name=one_line(name), value=one_line(value))
        for check in of_one:
            _case(suite, one, check)
    _count(suites, [check for of_one in checks for check in of_one])
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _count(element: ET.Element, checks: Sequence[LimitCheck]) -> None:
    counts = {
        "tests": len(checks),
        "failures": sum(check.verdict is LimitVerdict.FAILS for check in checks),
        "errors": sum(check.verdict is LimitVerdict.INVALID for check in checks),
        "skipped": sum(check.verdict in (LimitVerdict.UNCLEAR, LimitVerdict.UNKNOWN) for check in checks),
    }
    for name, number in counts.items():
        element.set(name, str(number))


def _case(suite: ET.Element, compared: RunComparison, check: LimitCheck) -> None:
    cell = check.change
    plt_s = (cell.after.plt_ms_median or 0.0) / 1000
    where = ", ".join(filter(None, (cell.where, cell.before.cell.arm.short_label)))
    case = ET.SubElement(
        suite,
        "testcase",
        classname=one_line(cell.page),
        name=one_line(f"{check.limit.text}: {where}"),
        time=f"{plt_s:.6f}",
    )
    if check.verdict is LimitVerdict.HOLDS:
        return
    tag = {LimitVerdict.FAILS: "failure", LimitVerdict.INVALID: "error"}.get(check.verdict, "skipped")
    outcome = ET.SubElement(case, tag, message=one_line(f"{check.verdict}: {check_words(check)}"))
    if tag != "skipped":
        outcome.set("type", check.verdict.name.lower())
        outcome.text = one_line(where_on_the_path(compared, cell), limit=2000)
