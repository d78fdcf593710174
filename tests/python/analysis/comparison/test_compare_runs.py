"""Comparisons of runs: matching cells, their changes, and checks of limits on these changes."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import fastopen
from fastopen.analysis.comparison import (
    Basis,
    LimitVerdict,
    Outcome,
    RunComparison,
    Side,
    checks_of,
    compare_runs,
    parse_limit,
    read_side,
)
from fastopen.analysis.comparison.change import Change, change_of
from fastopen.analysis.statistics import certain_sign
from fastopen.common.errors import InputError
from fastopen.report.compared import check_words, evidence_lines, verdict_line
from fastopen.runs import RunStore
from fastopen.runs.database import FILE
from made_up_run import fill, made_up_page, made_up_plan, made_up_run
from places import ROOT

VIRTUAL: dict[str, Any] = {"engines": ["virtual"], "repeats": 1}
WINDOW_4 = [{"tcp": {"initial_window_segments": 4}}]


def run(folder: Path, *, page: str = "one", requests: int = 12, late: Any = (), **experiment: Any) -> Path:
    """Return the folder of a made-up run, in virtual time unless `experiment` sets other engines."""
    plan = made_up_plan([made_up_page(page, requests)], **{**VIRTUAL, **experiment})
    return made_up_run(folder, plan, late=late)


def compared(before: Path, after: Path) -> RunComparison:
    return compare_runs(read_side(before), read_side(after))


def verdicts(found: RunComparison, limit: str) -> list[LimitVerdict]:
    return [check.verdict for check in checks_of([parse_limit(limit)], found.cells)]


def test_a_run_compared_with_itself_is_the_same_in_every_cell(tmp_path: Path) -> None:
    kept = run(tmp_path / "a")
    found = compared(kept, kept)
    assert {cell.outcome for cell in found.cells} == {Outcome.SAME}
    assert len(found.cells) == 6
    assert (found.settings, found.only_before, found.only_after) == ((), (), ())
    assert verdicts(found, "plt +0%") == [LimitVerdict.HOLDS] * 6


def test_a_setting_that_each_run_has_once_is_named_and_cells_match_by_what_remains(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a"), run(tmp_path / "b", setups=WINDOW_4))
    assert [str(one) for one in found.settings] == ["initial window 10 in A, 4 in B"]
    assert len(found.cells) == 6


def test_settings_of_tls_that_a_cleartext_run_lacks_are_not_differences(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", setups=[{}]), run(tmp_path / "b", setups=[{"tls": {}}]))
    assert [setting.name for setting in found.settings] == ["use of TLS", "security"]


def test_of_a_sweep_the_common_values_are_compared_and_the_others_named(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", rtts_ms=(20, 100)), run(tmp_path / "b", rtts_ms=(100, 200)))
    assert {cell.where for cell in found.cells} == {"100 ms"}
    assert found.settings == ()
    assert [name.partition(",")[0] for name in found.only_before] == ["one at 20 ms"] * 3
    assert [name.partition(",")[0] for name in found.only_after] == ["one at 200 ms"] * 3


def test_the_changes_of_the_critical_path_add_up_to_that_of_the_page_load_time(tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", rtts_ms=(100,)), run(tmp_path / "b", rtts_ms=(110,)))
    for cell in found.cells:
        assert cell.plt is not None
        assert cell.basis is Basis.EXACT
        assert cell.outcome is Outcome.SLOWER
        assert cell.paths is not None
        assert sum(cell.paths[0].changes_ms(cell.paths[1]).values()) == pytest.approx(cell.plt.difference)
        assert sum(piece.change_ns for piece in cell.pieces) == round(cell.plt.difference * 1e6)
    # Without TFO, a handshake and two requests in a row each take an RTT, which is 10 ms longer.
    assert found.cells[0].plt is not None
    assert found.cells[0].plt.difference > 30


def test_a_page_under_another_name_is_known_by_its_url_and_what_changed_of_it_is_named(
    tmp_path: Path,
) -> None:
    found = compared(run(tmp_path / "a"), run(tmp_path / "b", page="two", requests=13))
    assert len(found.cells) == 6
    names = [setting.name for setting in found.settings]
    assert names == ["the name of http://a.test/", "page one"]
    assert found.settings[1].before.startswith("12 requests")


def test_loads_pair_where_they_drew_the_same(tmp_path: Path) -> None:
    same: dict[str, Any] = {"engines": ["host"], "repeats": 6, "rtts_ms": (20,)}
    first = run(tmp_path / "a", **same)
    paired = compared(first, run(tmp_path / "b", setups=WINDOW_4, **same))
    assert {cell.basis for cell in paired.cells} == {Basis.PAIRED}
    samples = compared(first, run(tmp_path / "c", **{**same, "seed": 8}))
    assert {cell.basis for cell in samples.cells} == {Basis.SAMPLES}
    assert "seed 7 in A, 8 in B" in map(str, samples.settings)


def test_a_load_without_samples_is_not_a_pair_of_the_first_sample(tmp_path: Path) -> None:
    alike: dict[str, Any] = {"repeats": 6, "rtts_ms": (20,)}
    plain = run(tmp_path / "a", **{**alike, "repeats": 1})
    drawn = run(tmp_path / "b", vary={}, **alike)
    assert {cell.basis for cell in compared(plain, drawn).cells} == {Basis.SAMPLES}
    other = run(tmp_path / "c", vary={"rtt": 0.2}, **alike)
    assert {cell.basis for cell in compared(drawn, other).cells} == {Basis.SAMPLES}
    again = run(tmp_path / "d", vary={}, setups=WINDOW_4, **alike)
    assert {cell.basis for cell in compared(drawn, again).cells} == {Basis.PAIRED}


def sign_of(change: Change) -> int | None:
    """Return the sign of a change if its interval lies on one side of zero, otherwise None."""
    assert change.interval is not None
    return certain_sign(change.stated, change.interval, 0.0)


def test_a_change_of_noisy_loads_fails_only_where_the_whole_interval_is_beyond() -> None:
    before = dict(enumerate([100.0, 101, 102, 103, 104, 105, 106]))
    sure = change_of(before, {n: ms + 20 for n, ms in before.items()}, Basis.SAMPLES, relative=True)
    assert sure is not None
    assert sure.interval is not None
    assert sign_of(sure) == 1
    assert sure.interval[0] > 10
    few = change_of({0: 100.0}, {0: 120.0}, Basis.SAMPLES, relative=True)
    assert few is not None
    assert few.percent == 20
    assert few.interval is None
    hardly = change_of(before, {n: ms + 1 for n, ms in before.items()}, Basis.SAMPLES, relative=True)
    assert hardly is not None
    assert sign_of(hardly) is None


def test_pairs_show_what_samples_cannot() -> None:
    before = {number: 100.0 + 10 * number for number in range(8)}
    after = {number: ms * 1.01 for number, ms in before.items()}
    paired = change_of(before, after, Basis.PAIRED, relative=True)
    samples = change_of(before, after, Basis.SAMPLES, relative=True)
    assert paired is not None
    assert samples is not None
    assert paired.percent == pytest.approx(1)
    assert sign_of(paired) == 1
    assert sign_of(samples) is None


@pytest.mark.parametrize(
    ("basis", "drawn", "loads", "words"),
    [
        (Basis.PAIRED, False, 6, "95\N{NO-BREAK SPACE}% sure"),
        (Basis.PAIRED, False, 3, "75\N{NO-BREAK SPACE}% sure"),
        (Basis.PAIRED, True, 6, "range +"),
        (Basis.PAIRED, True, 3, "range +10.0 to +12.0"),
        (Basis.PAIRED, True, 2, "too few loads"),
        (Basis.SAMPLES, False, 6, "95\N{NO-BREAK SPACE}% sure"),
        (Basis.SAMPLES, False, 3, "range +"),
    ],
)
def test_a_limits_interval_has_the_confidence_of_its_loads_or_is_a_range(
    basis: Basis, drawn: bool, loads: int, words: str, tmp_path: Path
) -> None:
    before = dict.fromkeys(range(loads), 100.0)
    after = {number: 110.0 + number for number in before}
    plt = change_of(before, after, basis, relative=True, drawn=drawn)
    folder = run(tmp_path / "a", rtts_ms=(20,))
    cell = replace(compared(folder, folder).cells[0], basis=basis, plt=plt)
    (check,) = checks_of([parse_limit("plt +1%")], [cell])
    assert words in check_words(check)
    assert check.verdict is (LimitVerdict.UNCLEAR if loads == 2 else LimitVerdict.FAILS)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("plt +1%", LimitVerdict.FAILS),
        ("plt + 90 %", LimitVerdict.HOLDS),
        ("plt +1ms", LimitVerdict.FAILS),
        ("plt +1s", LimitVerdict.HOLDS),
        ("plt -1%", LimitVerdict.HOLDS),
        ("saving -0.5", LimitVerdict.HOLDS),
        ("saving +0.5 points", LimitVerdict.FAILS),
    ],
)
def test_a_limit_holds_or_fails(limit: str, expected: LimitVerdict, tmp_path: Path) -> None:
    found = compared(run(tmp_path / "a", rtts_ms=(20,)), run(tmp_path / "b", rtts_ms=(40,)))
    own = [
        check for check in checks_of([parse_limit(limit)], found.cells) if check.change.name == "one, warm"
    ]
    assert [check.verdict for check in own] == [expected]


@pytest.mark.parametrize("text", ["", "plt", "plt 1%", "plt +1points", "saving -0.5%", "lcp +1%", "plt +1%;"])
def test_what_is_no_limit_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(InputError, match="write 'plt"):
        parse_limit(text)


def test_a_cell_that_lost_its_valid_loads_fails_every_limit(tmp_path: Path) -> None:
    before = run(tmp_path / "a", rtts_ms=(20,))
    with RunStore.open(before) as store:
        jobs = list(store.jobs())
    found = compared(before, run(tmp_path / "b", rtts_ms=(20,), late=jobs))
    assert verdicts(found, "plt +1%") == [LimitVerdict.HOLDS, LimitVerdict.HOLDS, LimitVerdict.INVALID]


def test_the_command_says_first_what_differs_and_exits_with_1_where_a_limit_fails(tmp_path: Path) -> None:
    before, after = run(tmp_path / "a", rtts_ms=(20,)), run(tmp_path / "b", rtts_ms=(40,), setups=WINDOW_4)
    good = fastopen("compare", before, before, "--fail-on", "plt +1%")
    assert good.returncode == 0, good.stderr
    assert "Nothing changed: 3 cells the same to the nanosecond." in good.stdout
    junit, page = tmp_path / "junit.xml", tmp_path / "compared.html"
    bad = fastopen(
        *("compare", before, after, "--fail-on", "plt +1%", "--fail-on", "saving -90"),
        *("--junit", junit, "--html", page),
    )
    assert bad.returncode == 1
    assert bad.stdout.index("What differs: RTT 20") < bad.stdout.index("PLT A")
    assert "plt +1%: fails in 3 of 3 cells" in bad.stdout
    assert "on the critical path" in bad.stdout
    (suite,) = ET.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "3", "0")
    failed = suite.findall("testcase/failure")
    assert len(failed) == 3
    assert all("on the critical path" in (one.text or "") for one in failed)
    html = page.read_text()
    assert "B is slower in 3 of 3 cells" in html
    assert "<script" not in html
    # Without limits, the same comparison does not fail.
    assert fastopen("compare", before, after).returncode == 0


def with_results(side: Side, **figures: Any) -> Side:
    """Return a copy of the run in which these fields of the last cell's results are replaced."""
    *cells, last = side.results.cells
    return replace(side, results=replace(side.results, cells=[*cells, replace(last, **figures)]))


def test_a_nanosecond_is_a_change_and_the_largest_is_named(tmp_path: Path) -> None:
    side = read_side(run(tmp_path / "a", rtts_ms=(20,)))
    (plt_ms,) = side.results.cells[-1].plts_ms.values()
    later = with_results(side, plts_ms={0: plt_ms + 1e-6}, plt_ms_median=plt_ms + 1e-6)
    found = compare_runs(side, later)
    outcomes = [cell.outcome for cell in found.cells]
    assert outcomes == [Outcome.SAME, Outcome.SAME, Outcome.HARDLY]
    assert "; most: one at 20 ms, warm: " in verdict_line(found)


def test_the_version_of_a_client_is_named_where_both_runs_used_it(tmp_path: Path) -> None:
    side = read_side(run(tmp_path / "a", rtts_ms=(20,)))
    without, old, new = (
        replace(
            side, results=replace(side.results, environment={**side.results.environment, "clients": clients})
        )
        for clients in ({}, {"curl": {"version": "7"}}, {"curl": {"version": "8"}})
    )
    assert compare_runs(without, new).settings == ()
    assert [str(setting) for setting in compare_runs(old, new).settings] == ["curl 7 in A, 8 in B"]


def test_evidence_alone_is_a_change_too(tmp_path: Path) -> None:
    side = read_side(run(tmp_path / "a", rtts_ms=(20,)))
    found = compare_runs(side, with_results(side, syn_data_connections=0, retransmitted=1.0))
    assert {cell.outcome for cell in found.cells} == {Outcome.SAME}
    assert verdict_line(found) == "B is the same in 3; the evidence changed in 1 of 3 cells."
    (line,) = evidence_lines(found)
    assert re.fullmatch(
        r"Evidence of one at 20 ms, warm: SYN data on (\d+) of \1 in A, SYN data on 0 of \1 in B;"
        r" 0 segments retransmitted in A, 1 segment retransmitted in B\.",
        line,
    )
    in_real_time = read_side(run(tmp_path / "b", rtts_ms=(20,), engines=["host"]))
    same = compare_runs(in_real_time, with_results(in_real_time, retransmitted=2.0))
    assert not any(cell.evidence_changed for cell in same.cells)


def test_json_has_both_figures_of_each_cell_and_the_critical_path(tmp_path: Path) -> None:
    before, after = run(tmp_path / "a", rtts_ms=(20,)), run(tmp_path / "b", rtts_ms=(40,))
    done = fastopen("compare", before, after, before, "--json", "--fail-on", "plt +1%")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["format"] == "fastopen-comparison/1"
    assert document["failed"]
    first, second = document["comparisons"]
    assert first["differs"] == [{"name": "RTT", "before": "20 ms", "after": "40 ms"}]
    cell = first["cells"][0]
    path = cell["critical_path_ms"].values()
    assert sum(b - a for a, b in path) == pytest.approx(cell["plt_ms"]["difference"])
    assert [check["verdict"] for check in second["checks"]] == ["holds"] * 3


def test_runs_that_share_no_cell_are_calibrated_in_words(tmp_path: Path) -> None:
    one = run(tmp_path / "a")
    page = made_up_page("two", hosts=("z.test",))
    other = made_up_run(tmp_path / "b", made_up_plan([page], **VIRTUAL))
    done = fastopen("compare", one, other)
    assert done.returncode == 2
    assert (
        "have no page and network in common: the first has page one, the second has page two" in done.stderr
    )
    sweeps = run(tmp_path / "c", rtts_ms=(30, 60))
    done = fastopen("compare", one, sweeps)
    assert done.returncode == 2
    assert (
        "have no page and network in common: RTT ms 20, 100 in the first, 30, 60 in the second" in done.stderr
    )


def test_a_newer_run_and_what_is_no_run_are_refused(tmp_path: Path) -> None:
    one, newer = run(tmp_path / "a"), run(tmp_path / "b")
    database = sqlite3.connect(newer / FILE)
    database.execute("PRAGMA user_version = 99")
    database.close()
    done = fastopen("compare", one, newer)
    assert done.returncode == 2
    assert "of a newer fastopen" in done.stderr
    assert fastopen("compare", one, tmp_path).returncode == 2
    alone = fastopen("compare", one)
    assert alone.returncode == 2
    assert "compare needs two runs" in alone.stderr
    done = fastopen("compare", one, one, "--junit", tmp_path / "x.xml")
    assert done.returncode == 2
    assert "--junit: has no limits to write" in done.stderr


def test_a_run_that_was_not_finished_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    one = run(tmp_path / "a", rtts_ms=(20,))
    plan = made_up_plan([made_up_page("one")], rtts_ms=(20,), **VIRTUAL)
    with RunStore.create(tmp_path / "b", plan, {}) as store:
        fill(store, plan)
        store.set_status("interrupted")
    done = fastopen("compare", one, tmp_path / "b")
    assert done.returncode == 0
    assert "this run is interrupted" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_git_bisect_finds_the_kernel_that_loads_more_slowly(tmp_path: Path) -> None:
    """Use a stub of fastopen, because building kernels takes minutes. The stub copies one of two finished
    runs. In each commit of the sources, the file `kind` names the run, or is `broken` to fail the build."""
    runs = {rtt: run(tmp_path / f"run{rtt}", rtts_ms=(rtt,)) for rtt in (20, 40)}
    stub = tmp_path / "bin" / "fastopen"
    stub.parent.mkdir()
    stub.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        '"kernel build") [ "$(cat kind)" != broken ] || exit 3\n'
        'printf \'{\\n  "name": "k",\\n}\\n\' ;;\n'
        f'"run "*) while [ "$1" != --output ]; do shift; done; cp -r {tmp_path}/run"$(cat kind)" "$2" ;;\n'
        f'compare*) exec {sys.executable} -c "from fastopen.cli import main; main()" "$@" ;;\n'
        "esac\n"
    )
    stub.chmod(0o755)
    tree = tmp_path / "linux"
    tree.mkdir()
    path = f"{stub.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def git(*arguments: object) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        command = ["git", *identity, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    git("init", "-q")
    for number, kind in enumerate(("20", "20", "broken", "20", "40", "40")):
        (tree / "kind").write_text(kind)
        (tree / "number").write_text(str(number))
        git("add", ".")
        git("commit", "-q", "-m", f"commit {number}")
    git("bisect", "start", "HEAD", "HEAD~5")
    recipe = ROOT / "examples" / "bisect-kernel"
    found = git("bisect", "run", recipe, runs[20], "plt +1%", "my.har")
    assert "is the first bad commit" in found
    assert "commit 4" in found
    # A fault that no commit causes ends the bisection instead of skipping all commits.
    git("bisect", "reset")
    git("bisect", "start", "HEAD", "HEAD~5")
    with pytest.raises(subprocess.CalledProcessError) as ended:
        git("bisect", "run", recipe, tmp_path / "missing", "plt +1%", "my.har")
    assert "exit code 128" in ended.value.stderr
    assert "missing" in ended.value.stderr
    assert not list((tmp_path / "cache" / "fastopen").iterdir())


def test_a_page_with_a_hostile_name_stays_text(tmp_path: Path) -> None:
    name = "</script><b>[bold]&]]>"
    before = run(tmp_path / "a", page=name, rtts_ms=(20,))
    after = run(tmp_path / "b", page=name, rtts_ms=(40,))
    junit, page = tmp_path / "junit.xml", tmp_path / "compared.html"
    done = fastopen("compare", before, after, "--fail-on", "plt +1%", "--junit", junit, "--html", page)
    assert done.returncode == 1
    assert name in done.stdout
    assert "<b>" not in page.read_text()
    assert ET.parse(junit).getroot()[0].findall("testcase")[0].get("classname") == name
