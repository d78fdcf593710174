"""`fastopen browse` over HTTP, without a browser: access, addresses, and runs that cannot be read."""

import asyncio
import csv
import io
import json
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from apps.browse.browse_server import Visitor, browsed
from command_line import FASTOPEN, fastopen
from fastopen.analysis.attribution import analyse_run
from fastopen.apps.browse import kept
from fastopen.apps.browse.kept import Kept
from fastopen.contract import LoadRecord
from fastopen.report.sections import part_html, verdict_html
from fastopen.runs import RunStore
from fastopen.runs.database import APPLICATION_ID, VERSION
from made_up_run import ENVIRONMENT, fill, load_data, made_up_page, made_up_plan, made_up_run

pytestmark = pytest.mark.slow

EVIL = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'
# Repeats that give more loads than a page of the list shows.
REPEATS = 20
# Words in addresses of figures, which take seconds to draw.
SLOW = ("waterfall", "report.html", "/figures/", "whole")


def _broken_runs(folder: Path) -> None:
    """Add runs that cannot be read to a folder of runs."""
    for name in ("damaged", "newer", "foreign"):
        (folder / name).mkdir()
    (folder / "damaged" / "run.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    for name, application, version in (("newer", APPLICATION_ID, VERSION + 1), ("foreign", 7, VERSION)):
        with sqlite3.connect(folder / name / "run.sqlite") as database:
            database.executescript(f"PRAGMA application_id = {application}; PRAGMA user_version = {version};")
        database.close()


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browse") / "runs"
    pages = [made_up_page("small"), made_up_page("other", 3)]
    plan = made_up_plan(pages, (20, 100), repeats=REPEATS)
    made_up_run(folder / "first", plan, late=["small@20ms#1"])
    made_up_run(folder / "second", made_up_plan([made_up_page("small", 14)], (20, 100), repeats=3))
    made_up_run(folder / "ev<i>l & co", made_up_plan([made_up_page(EVIL, 3)], (20,), repeats=2))
    _broken_runs(folder)
    return folder


@pytest.fixture(name="visitor", scope="module")
def _visitor(runs: Path) -> Iterator[Visitor]:
    with browsed(runs) as visitor:
        yield visitor.enter()


def number_of(visitor: Visitor, run: str, load: str) -> str:
    """Return the number of the load of this cell and repeat. It depends on the random order of worlds."""
    rows = csv.DictReader(io.StringIO(visitor.ask(f"/runs/{run}/loads.csv").text))
    return next(row["load"] for row in rows if f"{row['cell']}, repeat {int(row['repeat']) + 1}" == load)


def links(text: str) -> set[str]:
    """Return all addresses to which a page links or that it loads."""
    found = re.findall(r'(?:href|src|action|data-part)="([^"]*)"', text)
    return {one.replace("&amp;", "&") for one in found}


def kind(path: str) -> str:
    """Return the kind of an address: its path with run and numbers replaced, and the keys of its query."""
    place, _, asked = re.sub(r"runs/(first|second|ev[^/?]*)", "runs/one", path).partition("?")
    keys = sorted(re.findall(r"(\w+)=", asked))
    return re.sub(r"\d+", "0", f"{place}?{'&'.join(keys)}")


def test_only_who_has_the_token_may_ask(visitor: Visitor) -> None:
    stranger = Visitor(visitor.base)
    for path in ("/", "/assets/style.css", "/runs/first", "/nowhere", "/?token=guessed"):
        answer = stranger.ask(path)
        assert answer.status == 403
        assert "with its token" in answer.text
        assert not stranger.cookies


def test_the_token_becomes_a_cookie_and_leaves_the_address(visitor: Visitor) -> None:
    newcomer = Visitor(visitor.address)
    token = visitor.address.partition("token=")[2]
    answer = newcomer.ask(f"/runs/first/loads?valid=yes&token={token}&page=2")
    assert (answer.status, answer.headers["Location"]) == (303, "/runs/first/loads?valid=yes&page=2")
    kept = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {one.strip() for one in kept.split(";")}
    assert newcomer.ask("/").status == 200


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "127.0.0.1", "localhost:1", "[::1]:80"])
def test_under_another_name_nobody_is_answered(visitor: Visitor, host: str) -> None:
    answer = visitor.ask("/", Host=host)
    assert answer.status == 403
    assert "runs" not in answer.text.lower()


def test_nothing_can_be_changed(visitor: Visitor) -> None:
    assert {visitor.ask("/", method).status for method in ("POST", "PUT", "DELETE", "PATCH")} == {405}


def test_every_page_loads_from_here_alone_and_leads_somewhere(visitor: Visitor) -> None:
    broken = ("/runs/damaged", "/runs/newer", "/runs/foreign")
    # Visit one address of each kind.
    seen: set[str] = set()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if kind(path) in seen or any(
            word in path for word in ("waterfall", "report.html", "/figures/", "whole")
        ):
            continue
        seen.add(kind(path))
        answer = visitor.ask(path)
        assert answer.status == (422 if path.startswith(broken) else 200), path
        assert "default-src 'none'; script-src 'self';" in answer.headers["Content-Security-Policy"]
        if answer.headers["Content-Type"].startswith("text/html"):
            found = {one.partition("#")[0] for one in links(answer.text)} - {"data:,", ""}
            assert all(one.startswith("/") and not one.startswith("//") for one in found), path
            assert "<script>" not in answer.text
            waiting += sorted(found)
    assert len(seen) > 30


def test_the_list_is_searched_by_any_word(visitor: Visitor) -> None:
    def named(search: str) -> list[str]:
        text = visitor.ask(f"/?q={search}").text
        return re.findall(r'<th scope="row"><a href="/runs/([^"?]*)', text)

    assert len(named("")) == 6
    assert named("FIRST") == ["first"]
    assert named("other+finished") == ["first"]
    assert named("nothing+such") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [("damaged", "damaged"), ("newer", "of a newer fastopen"), ("foreign", "not a fastopen run")],
)
def test_a_run_that_cannot_be_read_says_why_in_the_list_and_by_itself(
    visitor: Visitor, name: str, said: str
) -> None:
    line = next(one for one in visitor.ask("/").text.split("<tr>") if f"/runs/{name}" in one)
    assert said in line
    for path in ("", "/loads", "/loads/1", "/part/verdict", "/cells.csv"):
        answer = visitor.ask(f"/runs/{name}{path}")
        assert answer.status == 422
        assert said in answer.text


@pytest.mark.parametrize("name", ["..", "..%2Ffirst", "%2Fetc", "first%2F", "none", "%FF", "."])
def test_a_name_that_is_no_run_leads_nowhere(visitor: Visitor, name: str) -> None:
    assert visitor.ask(f"/runs/{name}/loads").status == 404


def test_a_run_shows_verdict_results_and_sections_of_the_report(visitor: Visitor) -> None:
    text = visitor.ask("/runs/first").text
    assert "240 loads" in text
    for part in ("verdict", "results", "answers", "evidence", "method"):
        assert f"/runs/first/part/{part}" in text
        assert f'<section id="{part}"' in visitor.part(f"/runs/first/part/{part}").text
    # Requested without the script's header, the same address is a whole page.
    assert "<!DOCTYPE html>" in visitor.ask("/runs/first/part/verdict").text


def test_the_verdict_waits_for_no_record_of_a_load(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(kept, "analyse_run")
    results = asyncio.run(Kept(runs).results("first"))
    monkeypatch.undo()
    with RunStore.open(runs / "first") as store:
        assert verdict_html(results) == part_html("verdict", analyse_run(store))


def test_loads_are_listed_in_pages_filtered_and_in_order(visitor: Visitor) -> None:
    def shown(query: str) -> list[tuple[int, float]]:
        text = visitor.ask(f"/runs/first/loads?{query}").text
        rows = re.findall(r'/loads/(\d+)">.*?<td class="number">([\d.]+)</td>', text, re.S)
        return [(int(number), float(plt)) for number, plt in rows]

    assert [number for number, _ in shown("")] == [*range(1, 51)]
    assert [number for number, _ in shown("page=5")] == [*range(201, 241)]
    assert shown("page=99") == shown("page=5")
    slowest = [plt for _, plt in shown("order=slowest")]
    assert slowest == sorted(slowest, reverse=True)
    assert len(shown("cell=0")) == REPEATS
    assert len(shown("valid=no")) == 1
    assert "link_late: a packet left the link down" in visitor.ask("/runs/first/loads?valid=no").text
    assert len(shown("q=LINK_LATE")) == 1
    assert len(shown("q=other@100ms")) == 50
    assert shown("q=100%25") == []
    for nonsense in ("page=-3", "page=x", "order=none", "valid=2", "cell=x", f"page={10**20}"):
        assert shown(nonsense) == shown("")
    assert visitor.ask("/runs/first/loads?cell=99").status == 404


def test_what_is_listed_comes_as_a_file(visitor: Visitor) -> None:
    answer = visitor.ask("/runs/first/loads.csv?cell=2&valid=yes")
    rows = [*csv.DictReader(io.StringIO(answer.text))]
    assert len(rows) == REPEATS - 1
    assert {row["cell"] for row in rows} == {"small at 20 ms, warm"}
    assert answer.headers["Content-Disposition"] == 'attachment; filename="first-loads.csv"'
    assert "small" in visitor.ask("/runs/first/cells.csv").text


def test_any_load_has_its_path_its_evidence_and_its_files(visitor: Visitor, runs: Path) -> None:
    text = visitor.ask("/runs/first/loads/7").text
    assert "Piece by piece" in text
    assert "client syn data acked" in text
    assert "/runs/first/loads/7/waterfall" in text
    record = json.loads(visitor.ask("/runs/first/loads/7/record.json").text)
    with RunStore.open(runs / "first") as store:
        row = store.loads()[6]
        assert record == json.loads(store.load_json(row.job, row.load))
    requests = [*csv.DictReader(io.StringIO(visitor.ask("/runs/first/loads/7/requests.csv").text))]
    assert len(requests) == len(record["requests"])
    for number in ("0", "241", "999999999"):
        assert visitor.ask(f"/runs/first/loads/{number}").status == 422


def test_each_bar_of_a_waterfall_says_as_its_tooltip_what_the_request_waited_for(visitor: Visitor) -> None:
    drawing = visitor.part("/runs/first/loads/7/waterfall").text
    bars = drawing.count('aria-roledescription="bar"')
    assert bars
    said = re.findall(r"<title>(\d+ \S+): ([\w ]+), ([\d.]+) to ([\d.]+) ms</title></path>", drawing)
    assert len(said) == bars
    assert {kind for _, kind, *_ in said} >= {"request wait", "transfer"}


def test_a_load_is_selected_and_compared_with_any_other(visitor: Visitor) -> None:
    selected = visitor.ask("/runs/second/loads?selected=first&selected_load=3").text
    assert "Selected: first" in selected
    assert "/compare/loads?a=first&amp;a_load=3&amp;b=second&amp;b_load=1" in selected
    off, warm = (
        number_of(visitor, "first", f"small at 20 ms, {arm}, repeat 1") for arm in ("no TFO", "warm")
    )
    text = visitor.ask(f"/compare/loads?a=first&a_load={off}&b=first&b_load={warm}").text
    assert "small at 20 ms, no TFO, repeat 1" in text
    assert text.count('<div class="bar">') == 2
    assert "largest change first" in text


def test_the_waterfalls_of_two_loads_are_one_drawing_of_one_page_and_two_of_two(visitor: Visitor) -> None:
    off, warm = (
        number_of(visitor, "first", f"small at 20 ms, {arm}, repeat 1") for arm in ("no TFO", "warm")
    )
    asked = f"a=first&a_load={off}&b=first&b_load={warm}"
    of_one = visitor.part(f"/compare/loads/waterfall?{asked}").text
    of_two = visitor.part(f"/compare/loads/waterfall?a=first&a_load={off}&b=second&b_load=3").text
    assert (of_one.count("<svg"), of_two.count("<svg")) == (1, 2)
    assert "A, no TFO" in of_one
    assert "B, warm" in of_one
    svg = visitor.ask(f"/compare/loads/waterfall.svg?{asked}")
    assert svg.headers["Content-Type"] == "image/svg+xml"
    assert svg.text.startswith("<svg")


def test_runs_are_compared_as_the_command_compares_them(visitor: Visitor, runs: Path) -> None:
    part = visitor.part("/compare?a=first&b=second&limit=plt+%2B1%25").text
    said = fastopen("compare", runs / "first", runs / "second", "--fail-on", "plt +1%").stdout
    verdict = re.search(r"<h2>(.*?)</h2>", part)
    assert verdict is not None
    assert " ".join(verdict[1].split()) in " ".join(said.split())
    assert "Limits" in part
    assert visitor.part("/compare?a=first&b=second&limit=nonsense").status == 422
    assert visitor.part("/compare?a=first&b=damaged").status == 422
    assert visitor.ask("/compare?a=first").status == 400


def test_what_a_run_brings_is_text(visitor: Visitor) -> None:
    name = "ev%3Ci%3El%20%26%20co"
    paths = [
        "/",
        f"/runs/{name}",
        f"/runs/{name}/loads",
        f"/runs/{name}/loads/1",
        f"/runs/{name}/part/results",
    ]
    paths += [f"/runs/{name}/loads/1/waterfall", f"/runs/{name}/figures", f"/?q={EVIL.replace(' ', '+')}"]
    paths += [f"/?selected={name}", f"/compare?a={name}&b={name}&limit=%3Cscript%3E"]
    for path in paths:
        text = visitor.ask(path).text
        assert "<script>window" not in text, path
        assert "<img" not in text, path
        assert "ev<i>l" not in text, path
    assert "ev&lt;i&gt;l &amp; co" in visitor.ask("/").text


def test_a_run_that_is_written_meanwhile_says_how_far_it_is(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("small", 3)], (20,), repeats=4)
    with browsed(tmp_path) as visitor:
        visitor.enter()
        with RunStore.create(tmp_path / "live", plan, ENVIRONMENT) as store:
            assert "0 of 12 loads" in visitor.ask("/runs/live").text
            planned = plan.jobs[0]
            for number, load in enumerate(planned.job.loads):
                data = {**load_data(planned, load.cookies, number), "id": load.id}
                data.update(transport=load.transport, cookies=load.cookies)
                raw = json.dumps(data)
                store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
            progress = visitor.part("/runs/live/progress").text
            assert "3 of 12 loads" in progress
            assert "data-ended" not in progress
            assert "small at 20 ms, warm, repeat 1" in progress
            assert '<td class="words">running</td>' in visitor.ask("/").text
            assert visitor.part("/runs/live/part/verdict").status == 200
            assert visitor.ask("/runs/live/loads/3").status == 200
            store.set_status("finished")
        assert "data-ended" in visitor.part("/runs/live/progress").text
        assert "running" not in visitor.ask("/").text


def test_no_time_is_said_to_be_left_while_invalid_loads_are_loaded_again(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("small", 3)], (20,), repeats=1)
    planned = plan.jobs[0]
    with browsed(tmp_path) as visitor, RunStore.create(tmp_path / "live", plan, ENVIRONMENT) as store:
        visitor.enter()
        for number, load in enumerate(planned.job.loads, 1):
            data = {**load_data(planned, load.cookies, number), "id": load.id}
            data.update(
                transport=load.transport, cookies=load.cookies, started_unix_ms=10**12 + 5000 * number
            )
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
            progress = visitor.part("/runs/live/progress").text
            assert f"{number} of 3 loads" in progress
            assert (" s left" in progress) == (number == 2)


def test_figures_are_read_again_once_a_run_has_more_loads(tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("small", 3)], (20,), repeats=2)
    with browsed(tmp_path) as visitor:
        visitor.enter()
        with RunStore.create(tmp_path / "live", plan, ENVIRONMENT) as store:
            before = visitor.part("/runs/live/part/results").text
            fill(store, plan)
        after = visitor.part("/runs/live/part/results").text
        assert before != after
        assert "+" in after


def test_two_at_once_have_ports_and_cookies_of_their_own(runs: Path, visitor: Visitor) -> None:
    with browsed(runs) as other:
        other.enter()
        assert other.base != visitor.base
        assert not other.cookies.keys() & visitor.cookies.keys()
        # Cookies are shared between ports, so a browser sends the cookies of both servers.
        both = Visitor(visitor.address, SimpleCookie({**visitor.cookies, **other.cookies}))
        assert both.ask("/").status == 200


def test_a_run_itself_may_be_named(runs: Path) -> None:
    with browsed(runs / "second") as visitor:
        assert "/runs/second" in visitor.enter().ask("/").text
        assert visitor.ask("/runs/second/loads/1").status == 200


def test_a_folder_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    with browsed(tmp_path / "nothing") as visitor:
        assert "fastopen run" in visitor.enter().ask("/").text


def test_a_port_that_is_taken_and_a_folder_that_is_not_there_are_input_errors(
    visitor: Visitor, tmp_path: Path
) -> None:
    done = fastopen("browse", tmp_path, "--port", visitor.host.partition(":")[2])
    assert (done.returncode, done.stdout) == (2, "")
    assert "in use; leave it out to use a free one" in done.stderr
    done = fastopen("browse", tmp_path / "none")
    assert done.returncode == 2
    assert "no such folder" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_nothing_behind(runs: Path, number: int) -> None:
    before = sorted(path for path in runs.rglob("*"))
    with subprocess.Popen(
        [*FASTOPEN, "browse", str(runs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        visitor = Visitor(process.stdout.readline().strip()).enter()
        assert visitor.ask("/runs/first").status == 200
        process.send_signal(number)
        assert process.wait(timeout=180) == 0
        assert process.stderr is not None
        assert process.stderr.read().count("\n") == 1
    assert sorted(path for path in runs.rglob("*")) == before
