"""The audit of published tables: figures that it must report, and figures that it must accept."""

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import fastopen
from fastopen.analysis.audit import QUESTIONS, AuditFinding, audit, read_table
from fastopen.common.errors import InputError
from fastopen.common.resources import packaged_folder
from made_up_run import made_up_page, made_up_plan, made_up_run

HEADER = "experiment,page,rtt_ms,down_mbit,plt_off,plt_tfo,unit_as_printed,improvement_percent_as_printed"


def published() -> Path:
    folder = packaged_folder("experiments")
    assert folder is not None
    return folder / "published.csv"


def findings(path: Path, *rows: str, header: str = HEADER) -> list[AuditFinding]:
    """Audit a table of these rows, with the experiment `e` as the first column. Return the findings."""
    path = path / "table.csv"
    path.write_text("\n".join([header, *(f"e,{row}" for row in rows)]) + "\n")
    return audit(read_table(path).cells)


def kinds(found: list[AuditFinding]) -> list[tuple[int, str]]:
    return [(int(finding.cell.rtt_ms), finding.kind) for finding in found]


@pytest.fixture(name="of_published", scope="module")
def _of_published() -> dict[str, set[tuple[str, str, int, int]]]:
    """Map each kind of finding in published.csv to its cells: (experiment, page, RTT in ms, Mbit/s down)."""
    found: dict[str, set[tuple[str, str, int, int]]] = defaultdict(set)
    for finding in audit(read_table(published()).cells):
        cell = finding.cell
        assert cell.down_mbit is not None
        found[finding.kind].add((cell.experiment, cell.page, int(cell.rtt_ms), int(cell.down_mbit)))
    return found


Found = dict[str, set[tuple[str, str, int, int]]]
CS244 = {("cs244-2015", "44 resources over 7 domains", rtt, 4) for rtt in (20, 100, 200)}
AMAZON = ("purdue-method1-bandwidth", "amazon", 20, 5)
WIKIPEDIA = ("palguyev", "en.wikipedia.org TCP page", 200, 4)


def test_the_five_improvements_that_contradict_their_times_are_found(of_published: Found) -> None:
    assert of_published["improvement"] == {*CS244, AMAZON, WIKIPEDIA}
    assert of_published["swapped_columns"] == CS244
    assert of_published["sign"] == {AMAZON, WIKIPEDIA}
    assert of_published["rounding"] == {("purdue-method2-bandwidth", "wsj", 20, 15)}


def test_the_three_tables_whose_seconds_are_milliseconds_are_found_whole(of_published: Found) -> None:
    cells = read_table(published()).cells
    expected = {
        (cell.experiment, cell.page, int(cell.rtt_ms), 4)
        for cell in cells
        if cell.experiment in ("meissner", "palguyev", "myurls")
    }
    assert of_published["units"] == expected
    assert len(expected) == 24


def test_savings_that_no_six_requests_could_make_are_found(of_published: Found) -> None:
    mit = {cell for cell in of_published["bound"] if cell[1] == "www.web.mit.edu"}
    assert mit == {("meissner", "www.web.mit.edu", rtt, 4) for rtt in (100, 200)}
    said = {
        int(finding.cell.rtt_ms): finding.detail
        for finding in audit(read_table(published()).cells)
        if finding.kind == "bound" and finding.cell.page == "www.web.mit.edu"
    }
    assert "54.2 RTTs" in said[200]
    assert "6 requests can open 6 connections in a row at most" in said[100]


def test_one_cell_of_the_papers_table_raises_a_question(of_published: Found) -> None:
    assert of_published["slope"] == {("radhakrishnan2011", "wikipedia TCP page", 200, 4)}


def test_the_papers_table_and_the_delay_sweeps_have_no_fault(of_published: Found) -> None:
    faults = (cells for kind, cells in of_published.items() if kind not in QUESTIONS)
    struck = {cell[0] for cells in faults for cell in cells}
    assert struck.isdisjoint({"radhakrishnan2011", "purdue-method1", "purdue-method2"})


def test_digits_decide_how_far_an_improvement_may_be_off(tmp_path: Path) -> None:
    # 9.46 and 8.47 give 10.47 %, but with other digits that round to them, 9.464 and 8.466, it is 10.55 %.
    to_the_nearest = "q,200,4,1.000,0.916,s,8"
    assert findings(tmp_path, to_the_nearest, "p,200,4,9.46,8.47,s,11") == []
    assert kinds(findings(tmp_path, to_the_nearest, "p,200,4,9.460,8.471,s,11")) == [(200, "rounding")]
    assert kinds(findings(tmp_path, to_the_nearest, "p,200,4,9.46,8.47,s,12")) == [(200, "improvement")]


def test_a_table_that_rounds_down_everywhere_is_left_alone(tmp_path: Path) -> None:
    down = ["p,20,4,1.000,0.901,s,9", "q,20,4,1.000,0.802,s,19", "r,20,4,1.000,0.708,s,29"]
    assert findings(tmp_path, *down) == []
    assert kinds(findings(tmp_path, *down, "t,20,4,1.000,0.608,s,40")) == [(20, "rounding")] * 3


def test_a_slowdown_that_is_printed_as_one_is_left_alone(tmp_path: Path) -> None:
    assert findings(tmp_path, "p,20,4,1.00,1.10,s,-10") == []


def test_a_gain_that_is_printed_as_a_slowdown_is_found(tmp_path: Path) -> None:
    assert kinds(findings(tmp_path, "p,20,4,1.000,0.900,s,-10.0")) == [(20, "improvement"), (20, "sign")]


def test_milliseconds_that_are_seconds_are_found(tmp_path: Path) -> None:
    rows = ["p,20,4,1.54,1.48,ms,4", "p,100,4,2.60,2.34,ms,10"]
    assert kinds(findings(tmp_path, *rows)) == [(20, "units"), (100, "units")]


def test_one_cell_in_another_unit_than_its_table_is_found(tmp_path: Path) -> None:
    rows = ["p,20,4,1.54,1.48,s,4", "p,100,4,2600,2340,s,10", "p,200,4,4.10,3.66,s,11"]
    assert kinds(findings(tmp_path, *rows)) == [(100, "units")]


def test_a_page_that_is_slow_over_a_very_thin_link_is_no_fault_of_units(tmp_path: Path) -> None:
    assert findings(tmp_path, "p,500,0.064,390.0,385.0,s,1") == []


def test_loads_that_get_faster_with_the_rtt_are_found(tmp_path: Path) -> None:
    rows = ["p,20,4,2.00,1.90,s,5", "p,100,4,1.50,2.50,s,-67"]
    assert kinds(findings(tmp_path, *rows)) == [(100, "monotony")]


SLOPE = [(200, "slope")]


@pytest.mark.parametrize(
    ("off", "tfo", "found"),
    [
        # With 3.10 s, the slope would be half of the previous slope; rounding moves this limit by 0.016 s.
        (("2.00", "3.50", "5.50"), ("1.80", "2.60", "2.80"), SLOPE),
        (("2.00", "3.50", "5.50"), ("1.80", "2.60", "3.08"), SLOPE),
        (("2.00", "3.50", "5.50"), ("1.80", "2.60", "3.09"), []),
        (("2.00", "3.50", "5.50"), ("1.80", "2.60", "3.40"), []),
        (("2.00", "3.00", "3.20"), ("1.80", "2.60", "3.80"), SLOPE),
        # The slopes of both series fall, so the page or the network is the cause.
        (("2.00", "3.50", "3.80"), ("1.80", "2.60", "2.80"), []),
        # The other series must keep more than half of its slope, even with the worst rounding.
        (("2.00", "2.80", "3.32"), ("1.80", "2.60", "2.80"), SLOPE),
        (("2.00", "2.80", "3.31"), ("1.80", "2.60", "2.80"), []),
        # If the time did not grow before, there is no slope to halve.
        (("2.00", "2.00", "2.50"), ("1.80", "2.60", "2.80"), []),
        (("2.00", "2.01", "2.50"), ("1.80", "2.60", "2.80"), []),
        (("2.00", "2.02", "2.50"), ("1.80", "2.60", "2.80"), SLOPE),
    ],
)
def test_a_slope_that_falls_in_one_series_raises_a_question(
    tmp_path: Path, off: tuple[str, ...], tfo: tuple[str, ...], found: list[tuple[int, str]]
) -> None:
    rows = [f"p,{rtt},4,{a},{b},s," for rtt, a, b in zip((20, 100, 200), off, tfo, strict=True)]
    assert kinds(findings(tmp_path, *rows)) == found
    assert kinds(findings(tmp_path, *reversed(rows))) == found


def test_fewer_digits_allow_more_slopes(tmp_path: Path) -> None:
    rows = ["p,20,4,2.0,1.8,s,", "p,100,4,3.5,2.6,s,"]
    assert kinds(findings(tmp_path, *rows, "p,200,4,5.5,2.9,s,")) == SLOPE
    assert findings(tmp_path, *rows, "p,200,4,5.5,3.0,s,") == []


def test_slopes_are_of_neighbouring_rtts(tmp_path: Path) -> None:
    rows = ["p,20,4,2.00,1.80,s,", "p,100,4,3.50,2.60,s,", "p,200,4,5.50,2.80,s,", "p,300,4,7.50,3.80,s,"]
    assert kinds(findings(tmp_path, *rows)) == SLOPE
    assert findings(tmp_path, rows[0], rows[2], rows[3]) == []
    assert findings(tmp_path, rows[0], rows[2]) == []


def test_a_slope_next_to_a_cell_that_is_known_to_be_wrong_raises_no_question(tmp_path: Path) -> None:
    near, at, far = "p,20,4,2.00,1.80,s,", "p,100,4,3.50,2.60,s,", "p,200,4,5.50,2.80,s,"
    assert kinds(findings(tmp_path, near, at, "p,200,4,4.90,2.50,s,")) == [(200, "monotony")]
    late = kinds(findings(tmp_path, near, at, "p,200,4,15.50,2.80,s,"))
    assert late == [(200, "growth"), (200, "bound")]
    grown = ["p,20,4,2.00,1.80,s,", "p,50,4,9.00,2.60,s,", "p,200,4,12.00,8.80,s,"]
    assert {kind for _, kind in kinds(findings(tmp_path, *grown))} == {"growth", "bound"}
    for rows in (
        [near.replace("2.00,1.80", "2000,1800"), at, far],
        [near, at.replace("3.50,2.60", "3500,2600"), far],
        [near, at, far.replace("5.50,2.80", "5500,2800")],
    ):
        assert [kind for _, kind in kinds(findings(tmp_path, *rows))] == ["units"]


def test_loads_over_other_rates_are_not_compared_by_rtt(tmp_path: Path) -> None:
    assert findings(tmp_path, "p,20,1,9.00,8.80,s,2", "p,100,8,2.00,1.90,s,5") == []


def test_loads_that_end_before_a_packet_can_come_back_are_found(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, "p,200,4,0.35,0.30,s,14")
    assert finding.kind == "below_rtt"
    assert "1.75 RTTs" in finding.detail
    assert kinds(findings(tmp_path, "p,200,4,0.40,0.15,s,62"))[0] == (200, "below_rtt")


def test_requests_and_bytes_that_a_table_names_bound_its_times(tmp_path: Path) -> None:
    header = HEADER + ",requests,bytes"
    assert findings(tmp_path, "p,100,4,2.00,1.60,s,20,4,800000", header=header) == []
    assert kinds(findings(tmp_path, "p,100,4,2.00,1.60,s,20,3,800000", header=header)) == [(100, "bound")]
    assert kinds(findings(tmp_path, "p,100,4,2.00,1.60,s,20,4,900000", header=header)) == [
        (100, "below_rate")
    ]


FLIGHTS = HEADER + ",first_flight_off,first_flight_tfo"


@pytest.mark.parametrize(
    ("flights", "most"),
    [
        ("tls,tls+tfo", 333),
        ("tls,tls+early", 333),
        ("tls,tls+tfo+early", 666),
        ("tls+early,tls+tfo+early", 500),
        ("tls1.2,tls1.2+tfo", 250),
        ("quic,quic+early", 500),
        (",", 500),
    ],
)
def test_a_first_flight_saves_no_more_than_its_share_of_round_trips(
    tmp_path: Path, flights: str, most: int
) -> None:
    for saved, found in ((most, []), (most + 25, [(50, "bound")])):
        row = f"p,50,4,1000,{1000 - saved},ms,,{flights}"
        assert kinds(findings(tmp_path, row, header=FLIGHTS)) == found, row


def test_no_first_flight_is_answered_before_its_round_trips(tmp_path: Path) -> None:
    for flights, off, tfo in (
        ("tls,tls+tfo", 300, 200),
        ("tls,tls+tfo+early", 300, 100),
        ("quic,quic+early", 200, 100),
    ):
        assert findings(tmp_path, f"p,100,4,{off},{tfo},ms,,{flights}", header=FLIGHTS) == []
        kind = (100, "below_rtt")
        sooner = f"p,100,4,{off},{tfo - 10},ms,,{flights}"
        assert kind in kinds(findings(tmp_path, sooner, header=FLIGHTS))


def test_more_than_handshakes_differs_between_tcp_and_quic(tmp_path: Path) -> None:
    assert findings(tmp_path, "p,50,4,1000,400,ms,,tls,quic", header=FLIGHTS) == []


def test_flights_are_series_of_their_own(tmp_path: Path) -> None:
    rows = ["p,50,4,1000,900,ms,,tls,tls+tfo", "p,50,4,1000,800,ms,,tls,tls+early"]
    assert findings(tmp_path, *rows, header=FLIGHTS) == []


def test_a_cell_that_stands_twice_with_other_figures_is_found(tmp_path: Path) -> None:
    assert kinds(findings(tmp_path, "p,20,4,1.00,0.90,s,10", "p,20,4,1.10,0.99,s,10")) == [(20, "duplicate")]
    assert findings(tmp_path, "p,20,4,1.00,0.90,s,10", "p,20,4,1.00,0.90,s,10") == []


def test_what_was_not_printed_is_not_judged(tmp_path: Path) -> None:
    assert findings(tmp_path, "p,20,,1.00,1.10,s,") == []


@given(
    round_trips=st.integers(2, 200),
    handshakes=st.integers(0, 100),
    rest_ms=st.integers(0, 20_000),
    rtts=st.lists(st.integers(1, 1000), min_size=1, max_size=5, unique=True),
    digits=st.integers(0, 3),
    unit=st.sampled_from(["s", "ms"]),
)
def test_any_table_of_what_round_trips_make_is_left_alone(
    tmp_path_factory: pytest.TempPathFactory,
    round_trips: int,
    handshakes: int,
    rest_ms: int,
    rtts: list[int],
    digits: int,
    unit: str,
) -> None:
    handshakes = min(handshakes, round_trips // 2)
    rows = []
    for rtt in rtts:
        off = rest_ms + round_trips * rtt
        tfo = off - handshakes * rtt
        factor = 1000 if unit == "s" else 1
        printed = [f"{time / factor:.{digits + (3 if unit == 's' else 0)}f}" for time in (off, tfo)]
        rows.append(f"p,{rtt},4,{','.join(printed)},{unit},{100 * (off - tfo) / off:.{digits}f}")
    assert findings(tmp_path_factory.mktemp("t"), *rows) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        (HEADER, "has no rows"),
        (HEADER + "\ne,p,20,4,1,0.9,s", "line 2: 7 fields, but the header has 8"),
        (HEADER + "\ne,p,20,4,,0.9,s,10", "line 2: plt_off: empty"),
        (HEADER + "\ne,,20,4,1,0.9,s,10", "line 2: page: empty"),
        (HEADER + "\n\ne,p,20,4,1,0.9,s,10\ne,p,x,4,1,0.9,s,10", "line 4: rtt_ms: 'x' is not a number"),
        (HEADER + "\ne,p,20,4,1,nan,s,10", "line 2: plt_tfo: 'nan' is not a number"),
        (HEADER + "\ne,p,20,4,1,1e999999,s,10", "line 2: plt_tfo: '1e999999' is not a number"),
        (HEADER + "\ne,p,20,4,1,%,s,10", "line 2: plt_tfo: not a number"),
        (HEADER + "\ne,p,20,4,0,0.9,s,10", "line 2: plt_off: 0 is not more than 0"),
        (HEADER + "\ne,p,-20,4,1,0.9,s,10", "line 2: rtt_ms: -20 is less than 0"),
        (HEADER + "\ne,p,20,0,1,0.9,s,10", "line 2: down_mbit: 0 is not more than 0"),
        (HEADER + "\ne,p,20,4,1,0.9,min,10", "line 2: unit_as_printed: unknown unit of time 'min'"),
        (FLIGHTS + "\ne,p,20,4,1,0.9,s,10,tls,0rtt", "line 2: first_flight_tfo: unknown first flight '0rtt'"),
        (HEADER + '\ne,"p', "line 2: malformed CSV"),
        (HEADER.replace("rtt_ms", "rtt"), "line 1: missing column rtt_ms"),
        (HEADER + ",page", "line 1: column 'page' appears twice"),
        (HEADER + ",request", "line 1: unknown column 'request'; did you mean requests?"),
    ],
)
def test_rubbish_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_table(path)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(InputError, match="does not exist; check the path"):
        read_table(tmp_path / "nothing.csv")


def test_numbers_keep_the_digits_that_were_printed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "\ne,p,20,4,1.50,0.9,s,40.0%\n")
    (cell,) = read_table(tmp_path / "t.csv").cells
    assert (str(cell.off), cell.half_digit, str(cell.improvement)) == ("1.50", Decimal("0.005"), "40.0")


def run(*arguments: object) -> CompletedProcess[str]:
    return fastopen("audit", *arguments)


def test_the_command_prints_each_cell_with_its_reasons() -> None:
    done = run(published())
    assert (done.returncode, done.stderr) == (0, "")
    assert "radhakrishnan2011  1 of 12 cells" in done.stdout
    assert "purdue-method1  nothing found" in done.stdout
    assert "meissner  9 of 9 cells" in done.stdout
    assert ["all", "cells", "units"] in [line.split()[:3] for line in done.stdout.splitlines()]
    assert "29 of 87 cells are impossible or inconsistent." in done.stdout
    assert "1 other cell raises a question." in done.stdout


def test_the_command_prints_one_json_document(tmp_path: Path) -> None:
    found = json.loads(run(published(), "--json").stdout)["findings"]
    assert len(found) == 46
    assert {tuple(finding) for finding in found} == {("experiment", "page", "rtt_ms", "kind", "detail")}
    other = tmp_path / "t.csv"
    other.write_text(f"{HEADER},seed\ne,p,20,4,1.00,0.90,s,10,x\n")
    done = run(other, "--json")
    assert json.loads(done.stdout) == {"findings": []}
    assert done.stderr == "columns not checked: seed\n"
    assert run(tmp_path / "nothing").returncode == 2


OWN = (
    "page,rtt_ms,loss,tls,security,session,key_share,transport,arm,cookies,setup,"
    "plt_ms_median,improvement_percent,pairs"
)


def own_csv(folder: Path, *rows: str) -> Path:
    """Write a table in the format of `fastopen report -f csv`. Return its path."""
    path = folder / "results.csv"
    path.write_text("\n".join([OWN, *rows]) + "\n")
    return path


def test_own_results_are_silent_where_times_and_savings_agree(tmp_path: Path) -> None:
    rows = (
        "a,20,0.0,,,,,tcp,off,,0,2453.91,,0",
        "a,20,0.0,,,,,tfo,warm,warm,0,2400.42,2.1797,1",
        "a,20,0.0,1.3,tls,none,x25519,tls,off,,1,2500.11,,0",
        "a,20,0.0,1.3,tls,none,x25519,tls+tfo,warm,warm,1,2500.11,0.0,1",
    )
    table = read_table(own_csv(tmp_path, *rows))
    assert audit(table.cells) == []
    assert [cell.experiment for cell in table.cells] == ["warm, tls none", "warm, tls 1.3"]
    assert [cell.flight_tfo for cell in table.cells] == ["tfo", "tls+tfo"]


def test_own_results_with_cleartext_urls_save_as_much_as_a_handshake_of_cleartext(tmp_path: Path) -> None:
    def of_security(security: str) -> list[AuditFinding]:
        row = f"example,100,0.0,1.3,{security},none,x25519"
        rows = (f"{row},tls,off,,0,951.0,,0", f"{row},tls+tfo,warm,warm,0,580.4,38.97,1")
        return audit(read_table(own_csv(tmp_path, *rows)).cells)

    assert of_security("recorded") == []
    assert [found.kind for found in of_security("tls")] == ["bound"]


def test_own_savings_over_pairs_are_no_contradiction_and_a_page_sooner_over_a_longer_rtt_is_found(
    tmp_path: Path,
) -> None:
    rows = (
        "a,20,0.01,,,,,tcp,off,,0,1527.1,,0",
        "a,20,0.01,,,,,tfo,warm,warm,0,2096.2,-5.3,12",
        "a,50,0.01,,,,,tcp,off,,0,1484.1,,0",
        "a,50,0.01,,,,,tfo,warm,warm,0,2239.2,-16.9,12",
    )
    path = own_csv(tmp_path, *rows)
    (found,) = audit(read_table(path).cells)
    assert (found.kind, int(found.cell.rtt_ms), found.cell.line) == ("monotony", 50, 5)
    printed = fastopen("audit", str(path)).stdout
    assert "2 improvements are medians over pairs of loads, which the two times do not give." in printed


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ("a,20,0.0,,,,,tcp,off,,0,x,,0", "a,20,0.0,,,,,tfo,warm,,0,9.0,1.0,1"),
            "line 3: plt_ms_median: 'x'",
        ),
        (("a,20,0.0,,,,,tcp,off,,0,9.0,,0",), "no row with TFO"),
        (("a,20",), "line 2: 2 fields, but the header has 14"),
    ],
)
def test_own_results_that_cannot_be_read_are_refused_with_their_line(
    tmp_path: Path, rows: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_table(own_csv(tmp_path, *rows))


def test_what_report_prints_as_csv_can_be_audited(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan([made_up_page("one")]))
    path = tmp_path / "one.csv"
    path.write_text(fastopen("report", str(run), "-f", "csv").stdout)
    assert len(read_table(path).cells) == 4  # two RTTs, cold and warm
    assert "cells are impossible or inconsistent." in fastopen("audit", str(path)).stdout
