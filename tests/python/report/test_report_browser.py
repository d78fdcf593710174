"""The report in a real browser, opened from its file: nothing on the console, no requests, and controls that
work with mouse and keyboard.

FASTOPEN_SCREENSHOTS=DIR saves screenshots in DIR.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fastopen.analysis.attribution import analyse_run
from fastopen.report.page import html
from fastopen.runs import RunStore
from made_up_run import fill, made_up_page, made_up_plan
from real_browser import NEEDED, PATIENCE_MS, SCREENS, launched

pytestmark = NEEDED
EVIL = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'


def written(path: Path, *names: str) -> Path:
    """Write a report of two pages, one of which has too many requests to show their names."""
    pages = [made_up_page(name, requests) for name, requests in zip(names, (12, 70), strict=True)]
    plan = made_up_plan(pages, (20, 100), repeats=6)
    with RunStore.create(None, plan, {"kernel": "6.18.0", "started": "2026-01-01"}) as store:
        fill(store, plan, late=[f"{names[0]}@20ms#1"])
        path.write_text(html(analyse_run(store)))
    return path


@pytest.fixture(name="report", scope="module")
def _report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report") / "report.html", "small", "large")


@pytest.fixture(name="browser", scope="module")
def _browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@contextmanager
def opened(browser: Browser, report: Path, **settings: Any) -> Iterator[Page]:
    """Open the report and wait until it is drawn. Any console message or request fails the test."""
    context = browser.new_context(**(settings or SCREENS["desktop"]))
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    if settings.get("java_script_enabled", True):
        page.wait_for_selector("html.drawn", state="attached")
    yield page
    context.close()
    assert said == []
    assert asked == [report.as_uri()]


def waterfall(page: Page) -> str:
    """Return the description of the load that the first waterfall shows."""
    return page.locator('[data-load="0"]').get_attribute("data-drawn") or ""


@pytest.mark.parametrize("screen", SCREENS)
def test_it_opens_from_a_file_and_nothing_is_wider_than_the_screen(
    browser: Browser, report: Path, tmp_path: Path, screen: str
) -> None:
    with opened(browser, report, **SCREENS[screen]) as page:
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= SCREENS[screen]["viewport"]["width"]
        folder = Path(os.environ.get("FASTOPEN_SCREENSHOTS", tmp_path))
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"report-{screen}.png", full_page=True)
        expect(page.locator("#verdict h2")).to_be_in_viewport()
        drawn = page.locator(".chart svg")
        assert drawn.count() == 7
        room = page.locator("figure").first.bounding_box()
        assert room is not None
        for number in range(drawn.count()):
            box = drawn.nth(number).bounding_box()
            assert box is not None
            assert box["width"] <= room["width"] + 1, number


def test_titles_of_many_settings_and_long_names_of_requests_fit_a_phone(
    browser: Browser, tmp_path: Path
) -> None:
    short = made_up_page("long", 12)
    named = short.model_dump()
    for number, resource in enumerate(named["resources"][1:]):
        resource["url"] = f"http://a.test/{number}-Transmission_Control_Protocol-diagram.svg.png"
    client = made_up_plan([short]).experiment.setups[0].client.model_dump()
    tcp = [
        {"congestion_control": control, "initial_window_segments": 10} for control in ("cubic", "bbr", "reno")
    ]
    setups = [{"tcp": one, "client": client} for one in tcp]
    plan = made_up_plan([type(short).model_validate(named)], (20, 100), 6, (4, 20), setups=setups)
    with RunStore.create(None, plan, {"kernel": "6.18.0", "started": "2026-01-01"}) as store:
        fill(store, plan)
        (tmp_path / "report.html").write_text(html(analyse_run(store)))
    with opened(browser, tmp_path / "report.html", **SCREENS["phone"]) as page:
        for drawn in page.locator(".chart svg").all():
            box, room = drawn.bounding_box(), drawn.locator("xpath=ancestor::figure").bounding_box()
            assert box is not None
            assert room is not None
            assert box["width"] <= room["width"] + 1


def test_in_the_dark_text_is_light_in_figures_too(browser: Browser, report: Path) -> None:
    colour = "(one) => getComputedStyle(one).fill.match(/\\d+/g).map(Number)"
    with opened(browser, report, **SCREENS["dark"]) as page:
        assert min(page.locator(".chart svg text").first.evaluate(colour)) > 200
    with opened(browser, report, **SCREENS["desktop"]) as page:
        assert max(page.locator(".chart svg text").first.evaluate(colour)) < 60


def test_loads_are_chosen_by_click(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        assert "small at 20 ms" in waterfall(page)
        page.get_by_role("button", name="Next").click()
        expect(page.locator("#chosen")).to_have_text("small, 100 ms")
        page.get_by_role("combobox", name="Page", exact=True).select_option("large")
        expect(page.locator("#chosen")).to_have_text("large, 100 ms")
        expect(page.locator('[data-load="0"] svg')).to_contain_text("no TFO")
        drawn = re.compile("large at 100 ms")
        expect(page.locator('[data-load="0"]')).to_have_attribute("data-drawn", drawn)
        page.get_by_role("button", name="Previous").click()
        page.get_by_role("button", name="Previous").click()
        expect(page.locator("#chosen")).to_have_text("small, 100 ms")


def test_a_click_on_a_bar_shows_its_loads(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        bars = page.locator('[data-figure="improvement"] svg path[aria-roledescription="bar"]')
        bars.last.click()
        expect(page.locator("#chosen")).to_have_text("large, 100 ms")
        expect(page.locator("#loads h2")).to_be_in_viewport()


def test_loads_are_chosen_by_the_keyboard_alone(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the verdict")).to_be_focused()
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "choose-page":
                break
        expect(page.get_by_role("combobox", name="Page", exact=True)).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(page.locator("#chosen")).to_have_text("large, 20 ms")
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#chosen")).to_have_text("large, 100 ms")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#chosen")).to_have_text("large, 20 ms")


def test_pointing_at_a_mark_shows_its_figures(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        # Point beside the interval, which is in the middle of the bar.
        page.locator('[data-figure="improvement"] svg path[aria-roledescription="bar"]').last.hover(
            position={"x": 4, "y": 4}
        )
        tooltip = page.locator("#vg-tooltip-element")
        expect(tooltip).to_contain_text("TFO, warm cookies")
        expect(tooltip).to_contain_text("saved %")


def until(page: Page, happened: Callable[[], bool]) -> None:
    """Wait for a condition. Playwright's own waiting needs scripts that the page's policy forbids."""
    for _ in range(PATIENCE_MS // 20):
        if happened():
            return
        page.wait_for_timeout(20)
    pytest.fail("it did not happen")


def test_the_wheel_zooms_only_with_the_shift_key_held(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        chart = page.locator('[data-figure="plt-by-rtt"] svg')
        before = chart.text_content()
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 100)
        top = page.evaluate("scrollY")
        page.mouse.wheel(0, 50)
        until(page, lambda: page.evaluate("scrollY") != top)
        assert chart.text_content() == before
        page.keyboard.down("Shift")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Shift")
        until(page, lambda: chart.text_content() != before)


def test_on_paper_nothing_is_folded_away(browser: Browser, report: Path, tmp_path: Path) -> None:
    with opened(browser, report) as page:
        page.evaluate(
            "addEventListener('beforeprint', () => {"
            " window.open_on_paper = document.querySelectorAll('details:not([open])').length === 0 })"
        )
        folder = Path(os.environ.get("FASTOPEN_SCREENSHOTS", tmp_path))
        assert page.pdf(path=folder / "report.pdf", format="A4").startswith(b"%PDF")
        assert page.evaluate("window.open_on_paper")
        assert page.locator("details:not([open])").count() > 0


def test_without_scripts_it_can_still_be_read(browser: Browser, report: Path) -> None:
    with opened(browser, report, **SCREENS["desktop"], java_script_enabled=False) as page:
        expect(page.locator("#verdict h2")).to_be_visible()
        assert page.locator(".chart svg").count() == 7
        expect(page.locator("#choice")).to_be_hidden()


def test_a_page_named_like_a_script_runs_none(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path / "evil.html", EVIL, "other")) as page:
        expect(page.locator("#chosen")).to_contain_text("</script>")
        assert page.evaluate("window.broken") is None
