"""The report as HTML, Markdown, LaTeX and CSV: complete, and safe with any page name."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fastopen.analysis.attribution import RunAnalysis, analyse_run
from fastopen.analysis.statistics import BrowserMetrics
from fastopen.cli.app import app
from fastopen.contract import Client
from fastopen.experiments import Plan
from fastopen.pages import Page
from fastopen.report import latex, markdown
from fastopen.report.csv_sheet import csv_text
from fastopen.report.embedding import library, script_json
from fastopen.report.findings import page_findings
from fastopen.report.findings.browser import paint_grid
from fastopen.report.method import method_paragraphs
from fastopen.report.page import html
from fastopen.report.result_tables import all_grids, cells_grid
from fastopen.report.summary import summarise_run
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan, made_up_run

pytestmark = pytest.mark.slow

EVIL = '</script><script>window.broken = 1</script>"\'><img src=x onerror="window.broken=1">'
PAGES = [made_up_page("small", 6), made_up_page("large", 30)]


def source_of(plan: Plan, **others: Any) -> RunAnalysis:
    with RunStore.create(None, plan, {"kernel": "6.18.0", "started": "2026-01-01"}) as store:
        fill(store, plan, **others)
        return analyse_run(store)


def evil_page() -> Page:
    """Return a page whose name, source and URLs would break markup or be executed if not escaped."""
    page = made_up_page(EVIL, 6)
    urls = [f"http://a.test/'-alert(1)-'&lt;b&gt;%3C/script%3E{number}" for number in range(6)]
    resources = tuple(
        one.model_copy(update={"url": url}) for one, url in zip(page.resources, urls, strict=True)
    )
    return page.model_copy(update={"source": EVIL, "resources": resources})


class Elements(HTMLParser):
    """Counts the elements of a document, and collects the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


@pytest.fixture(name="analysis", scope="module")
def _source() -> RunAnalysis:
    plan = made_up_plan(PAGES, (20, 100), repeats=6)
    return source_of(plan, late=["small@20ms#1"])


def test_the_page_says_the_verdict_before_anything_else(analysis: RunAnalysis) -> None:
    text = html(analysis)
    verdict = text.index('<section id="verdict" class="good">')
    assert verdict < text.index('<section id="results">') < text.index('<section id="figures">')
    assert text.index('<section id="answers">') < text.index('<section id="method">')
    first = text[verdict : verdict + 300]
    assert "worth turning on for these 2 pages (cleartext, HTTP/1.1): on a repeat visit it saves" in first
    assert "; 94\N{NO-BREAK SPACE}% intervals within +" in first


def test_the_first_screen_says_what_was_measured_and_tables_have_the_answer_first(
    analysis: RunAnalysis,
) -> None:
    text = html(analysis).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "small and large; RTT 20 and 100 ms, 4 Mbit/s down, 256 kbit/s up; loader"
        in text[: text.index("</h2>")]
    )
    first = text[text.index("<thead>") : text.index("</thead>")]
    assert first.index("warm saves") < first.index("PLT off")


def test_the_method_names_what_is_not_usual_of_the_networks_and_nothing_else() -> None:
    limit = {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000}
    network = {"rtt_us": 20_000, "down": limit, "up": limit}
    networks = [{**network, "mtu_bytes": size} for size in (1280, 1500)]
    plan = made_up_plan(PAGES[:1], (20,), repeats=1, networks=networks)
    text = "".join(method_paragraphs(source_of(plan)))
    assert "and no random loss, an MTU of 1280 and 1500 bytes. Half of" in text


def test_the_method_names_the_rates_of_each_network() -> None:
    """The link of 1 Mbit/s has two RTTs, and the other link has another RTT."""

    def network(rtt_ms: int, mbit: int) -> dict[str, Any]:
        limit = {"rate_bit_per_s": mbit * 1_000_000, "queue_bytes": 96_000}
        return {"rtt_us": rtt_ms * 1000, "down": limit, "up": limit}

    networks = [network(20, 8), network(100, 1), network(200, 1)]
    text = "".join(method_paragraphs(source_of(made_up_plan(PAGES[:1], repeats=1, networks=networks))))
    links = (
        text.partition("round-trip times of ")[2].partition(". Half of")[0].replace("\N{NO-BREAK SPACE}", " ")
    )
    assert [(link.partition(" ms")[0], link.count("8 Mbit/s")) for link in links.split("; ")] == [
        ("20", 2),
        ("100 and 200", 0),
    ]


def method_of(*setups: dict[str, Any]) -> str:
    plan = made_up_plan(PAGES[:1], (20,), repeats=1, setups=list(setups))
    return "\n".join(method_paragraphs(source_of(plan)))


LOADER: Final = Client.model_validate({}).model_dump()
CHROMIUM: Final = Client.model_validate({"kind": "chromium"}).model_dump()


def test_the_method_counts_connections_by_the_version_of_http() -> None:
    one, two = {"client": LOADER, "origins": {"http": "1.1"}}, {"client": LOADER, "origins": {"http": "2"}}
    assert "at most 6 connections a host and 256 in all" in method_of(one)
    assert "one connection a host and 256 in all" in method_of(two)
    both = method_of(one, two)
    assert "at most 6 connections a host (one with HTTP/2) and 256 in all" in both
    assert "The origins answered with HTTP/1.1 and HTTP/2" in both


def test_the_method_describes_each_client_by_what_it_is() -> None:
    text = method_of({"client": LOADER}, {"client": CHROMIUM})
    assert "One client was the loader in its browser profile" in text
    assert "Another client was unmodified chromium" in text
    assert "profile: at most" not in text[text.index("Another client") :]


def test_the_method_gives_every_value_of_what_varies() -> None:
    slow, fast = {"initial_window_segments": 4}, {"initial_window_segments": 10}
    clear, encrypted = {"tcp": slow, "tls": None}, {"tcp": fast, "tls": {"key_share": "x25519"}}
    text = method_of({"client": LOADER, **clear}, {"client": LOADER, **encrypted})
    assert "initial window 4 and 10" in text
    assert (
        "HTTP/1.1, cleartext and TLS 1.3, all URLs over TLS, key share x25519, and recorded think times"
        in text
    )
    assert "Tables have a row for each of 2 settings: cleartext, " in text


def test_the_method_names_the_kind_of_certificates_and_the_value_none() -> None:
    setup = {"client": LOADER, "tls": {"certificates": "ecdsa"}}
    limit = {"rate_bit_per_s": 4_000_000, "queue_bytes": 96_000}
    network = {"rtt_us": 20_000, "down": limit, "up": limit, "names": "do53"}
    networks = [{**network, "resolver_rtt_us": us} for us in (None, 50_000)]
    plan = made_up_plan(PAGES[:1], (20,), repeats=1, setups=[setup], networks=networks)
    text = "".join(method_paragraphs(source_of(plan)))
    assert "ecdsa certificates" in text
    assert "none and 50 ms" in text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_asks_for_nothing_outside_itself(analysis: RunAnalysis) -> None:
    elements = Elements(html(analysis))
    for tag, attributes in elements.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "action", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)
    (policy,) = (a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy


def test_what_a_page_brings_is_text_in_html() -> None:
    harmless = Elements(html(source_of(made_up_plan([made_up_page("p", 6)]))))
    text = html(source_of(made_up_plan([evil_page()])))
    elements = Elements(text)
    assert elements.count("script") == harmless.count("script") == 3
    assert elements.count("img") == 0
    assert elements.count("b") == 0
    data = json.loads(elements.scripts[0])
    assert data["loads"][0]["page"] == EVIL
    assert "&lt;/script&gt;&lt;script&gt;window.broken" in text


def test_every_table_has_a_caption_and_every_section_a_heading(analysis: RunAnalysis) -> None:
    elements = Elements(html(analysis))
    assert elements.count("table") == elements.count("caption") > 4
    assert elements.count("h1") == 1
    sections = [attributes for tag, attributes in elements.tags if tag == "section"]
    assert all("id" in one or "aria-label" in one for one in sections)
    assert elements.count("figure") == elements.count("figcaption") == 5 + 2
    assert sum(tag == "svg" for tag, _ in elements.tags) == 7


def test_drawings_in_one_page_do_not_share_ids(analysis: RunAnalysis) -> None:
    identifiers = [a["id"] for _, a in Elements(html(analysis)).tags if a.get("id")]
    assert len(identifiers) == len(set(identifiers))


def test_invalid_loads_are_listed_with_their_reason(analysis: RunAnalysis) -> None:
    text = html(analysis)
    assert "Loads that do not count" in text
    assert "a packet left the link down 9.1 ms later than due" in text


def test_a_run_without_a_valid_load_still_has_a_report() -> None:
    plan = made_up_plan(PAGES[:1], (20,), repeats=1, arms=["warm"])
    analysis = source_of(plan, late=["small@20ms#0"])
    assert "No load is valid" in summarise_run(analysis.results).headline
    assert '<section id="loads">' not in html(analysis)
    assert "No load is valid" in markdown.markdown(analysis)
    assert list(csv.DictReader(io.StringIO(csv_text(cells_grid(analysis)))))


def test_the_library_is_whole_and_cannot_end_its_element() -> None:
    assert 500_000 < len(library()) < 2_000_000
    assert "</script" not in library()
    assert "import(" not in library()


def test_the_library_is_put_together_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = library()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("fastopen.report.embedding._bundled", lambda: script)
    library.cache_clear()
    assert library() == script
    (kept,) = (tmp_path / "fastopen" / "report").iterdir()
    assert kept.read_text() == script
    kept.write_text("kept")
    library.cache_clear()
    assert library() == "kept"
    library.cache_clear()


def test_a_cache_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fastopen").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("fastopen.report.embedding._bundled", lambda: "script")
    library.cache_clear()
    assert library() == "script"
    library.cache_clear()


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_json_in_a_script_is_the_same_json_and_holds_no_markup(value: Any) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_markdown_has_everything_but_the_figures(analysis: RunAnalysis) -> None:
    text = markdown.markdown(analysis)
    for heading in ("## Results", "## Answers", "## Method", "## Environment", "### small", "### large"):
        assert f"\n{heading}\n" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


@given(st.text())
def test_markdown_shows_any_text_as_text(text: str) -> None:
    shown = markdown.escaped(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>|`*_\[\]]", shown)


def test_latex_has_a_table_for_each_grid(analysis: RunAnalysis) -> None:
    grids = list(all_grids(analysis))
    text = latex.latex(grids, ["a title\nwith a line break"])
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(grids)
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert line.count(" & ") >= 5
    assert all(line.startswith("%") for line in text.splitlines()[:2])
    assert "+" in text
    assert "$-$" in text or "-" in text


@given(st.text())
def test_latex_shows_any_text_as_text(text: str) -> None:
    shown = latex.escaped(text)
    bare = re.sub(r"\\text[a-z]+\{\}|\\ldots\{\}|\\[{}$&#%_]|\$-\$|\{[\[\]]\}", "", shown)
    assert not set(bare) & set("\\{}$&#%_^<>|\"'`[]")


def test_the_table_of_a_single_page_names_it_in_latex() -> None:
    text = latex.latex(all_grids(source_of(made_up_plan([made_up_page("front", 6)])), for_paper=True))
    assert r"TCP Fast Open. front; cleartext; 4 Mbit/s down" in text


def test_a_page_called_like_a_command_is_printed_in_latex() -> None:
    named = made_up_page(r"\input{/etc/passwd} 50% & $x_1^2$ #~", 6)
    text = latex.latex(all_grids(source_of(made_up_plan([named]))))
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\} 50\% \& \$x\_1\textasciicircum{}2\$" in text


def test_csv_has_a_row_for_each_cell_with_path_and_interval(analysis: RunAnalysis) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(cells_grid(analysis)))))
    assert len(rows) == 2 * 2 * 3
    warm = rows[2]
    assert (warm["page"], warm["rtt_ms"], warm["cookies"]) == ("small", "20", "warm")
    assert float(warm["improvement_ci95_low"]) <= float(warm["improvement_percent"])
    off = rows[0]
    assert float(off["path_handshake_ms"]) == pytest.approx(40)
    assert float(off["path_handshakes"]) == 2


def test_csv_holds_no_formula() -> None:
    rows = list(
        csv.DictReader(io.StringIO(csv_text(cells_grid(source_of(made_up_plan([made_up_page("=1+1", 6)]))))))
    )
    assert rows[0]["page"] == "'=1+1"


@pytest.mark.parametrize(("form", "begins"), [("markdown", "# "), ("latex", "% "), ("csv", "page,")])
def test_other_forms_go_to_standard_output(tmp_path: Path, form: str, begins: str) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan(PAGES[:1]))
    said = CliRunner().invoke(app, ["report", str(run), "--format", form])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(begins)


def test_the_page_is_written_into_the_folder_of_the_run(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", made_up_plan(PAGES[:1]))
    said = CliRunner().invoke(app, ["report", str(run)])
    assert said.exit_code == 0, said.output
    assert str(run / "report.html") in said.output.replace("\n", "")
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_run_with_many_loads_has_a_small_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastopen.report.page.LOADS_BYTES_MAX", 20_000)
    plan = made_up_plan([made_up_page(f"p{number}", 30) for number in range(8)], repeats=1)
    text = html(source_of(plan))
    shown = re.search(r"Of (\d+) combinations of page and network the first (\d+) are here", text)
    assert shown is not None
    assert int(shown[1]) == 16
    data = json.loads(Elements(text).scripts[0])
    assert len(data["loads"]) == int(shown[2]) < 16


def test_a_paper_gets_the_results_of_all_pages_in_one_table_with_a_label(analysis: RunAnalysis) -> None:
    first, *_ = all_grids(analysis, for_paper=True)
    assert [column.heading for column in first.columns][:2] == ["page", "RTT ms"]
    assert [row[0].text for row in first.rows] == ["small", "small", "large", "large"]
    text = latex.latex(all_grids(analysis, for_paper=True), [], "a_run")
    labels = [line.strip() for line in text.splitlines() if r"\label{" in line]
    assert labels[0] == r"\label{tab:a-run-page-load-time-without-and-with-tcp-fast-open}"
    assert len(labels) == len(set(labels)) == text.count(r"\begin{table}")


def test_the_paints_of_a_browser_stand_in_a_table_of_their_own(analysis: RunAnalysis) -> None:
    assert not paint_grid(analysis.results).rows
    metrics = {
        cell.cell.index: BrowserMetrics(
            requests=None,
            from_cache=None,
            revalidated=None,
            missing_screenshots=(),
            first_paints_ms={0: 100.0 - cell.cell.index, 1: 200.0 - 2 * cell.cell.index},
            largest_paints_ms={0: 300.0},
        )
        for cell in analysis.results.cells[:3]
    }
    painted = replace(analysis.results, browser_metrics=metrics)
    grid = paint_grid(painted)
    assert grid is not None
    assert [[entry.text for entry in row] for row in grid.rows] == [
        ["small", "20 ms", "off", "150", "-", "300", "-", "1"],
        ["small", "20 ms", "cold", "148", "+1.0", "300", "0.0", "1"],
        ["small", "20 ms", "warm", "147", "+2.0", "300", "0.0", "1"],
    ]
    (found,) = (one for one in page_findings(painted, "small") if one.kind == "paint")
    assert found.figures == {
        "first_ms": 150.0,
        "first_saved_percent": pytest.approx(2.0),
        "first_pairs": 2,
        "largest_ms": 300.0,
        "largest_saved_percent": 0.0,
        "largest_pairs": 1,
    }
