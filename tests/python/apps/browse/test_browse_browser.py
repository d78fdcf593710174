"""`fastopen browse` in a real browser: with mouse or keyboard, on a phone, in dark mode, without scripts.

FASTOPEN_SCREENSHOTS=DIR saves screenshots in DIR.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.browse.browse_server import Visitor, browsed
from fastopen.runs import RunStore
from made_up_run import ENVIRONMENT, fill, made_up_page, made_up_plan, made_up_run
from real_browser import NEEDED, PATIENCE_MS, SCREENS, launched

pytestmark = NEEDED
EVIL = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browse") / "runs"
    made_up_run(folder / "first", made_up_plan([made_up_page("small")], (20, 100), repeats=20))
    made_up_run(folder / "second", made_up_plan([made_up_page("small", 14)], (20, 100), repeats=3))
    made_up_run(folder / "evil", made_up_plan([made_up_page(EVIL, 3)], (20,), repeats=2))
    return folder


@pytest.fixture(name="visitor", scope="module")
def _visitor(runs: Path) -> Iterator[Visitor]:
    with browsed(runs) as visitor:
        yield visitor


@pytest.fixture(name="browser", scope="module")
def _browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@contextmanager
def opened(browser: Browser, visitor: Visitor, path: str = "/", **settings: Any) -> Iterator[Page]:
    """Open an address and wait for all parts. Fails on a console message or request to another server."""
    context = browser.new_context(**(settings or SCREENS["desktop"]))
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda asked: said.append(asked.url) if not at_home(asked.url, visitor) else None)
    page.goto(visitor.address)
    if path != "/":
        page.goto(visitor.base + path)
    if settings.get("java_script_enabled", True):
        page.wait_for_selector("html.filled", state="attached")
    yield page
    context.close()
    assert said == []


def at_home(url: str, visitor: Visitor) -> bool:
    """Return True for a URL of the tested server, and for the empty icon that pages embed."""
    return url.startswith((visitor.base + "/", "data:,"))


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_no_page_is_wider_than_the_screen(
    browser: Browser, visitor: Visitor, tmp_path: Path, screen: str
) -> None:
    folder = Path(os.environ.get("FASTOPEN_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        "runs": "/?selected=second",
        "run": "/runs/first",
        "loads": "/runs/first/loads?selected=first&selected_load=1",
        "load": "/runs/first/loads/2",
        "loads compared": "/compare/loads?a=first&a_load=1&b=second&b_load=2",
        "compare": "/compare?a=first&b=second",
    }
    with opened(browser, visitor, **SCREENS[screen]) as page:
        for name, path in paths.items():
            page.goto(visitor.base + path)
            page.wait_for_selector("html.filled", state="attached")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= SCREENS[screen]["viewport"]["width"], name
            page.screenshot(path=folder / f"browse-{name}-{screen}.png", full_page=True)


def test_in_the_dark_text_is_light_in_drawings_too(browser: Browser, visitor: Visitor) -> None:
    colour = "(one) => getComputedStyle(one).fill.match(/\\d+/g).map(Number)"
    with opened(browser, visitor, "/runs/first/loads/1", **SCREENS["dark"]) as page:
        assert min(page.locator(".chart svg text").first.evaluate(colour)) > 200


def test_from_the_list_to_two_loads_compared_by_click(browser: Browser, visitor: Visitor) -> None:
    with opened(browser, visitor) as page:
        page.get_by_role("link", name="first", exact=True).click()
        expect(page.locator("#verdict h2")).to_be_visible()
        page.get_by_role("link", name="small at 20 ms, no TFO").click()
        page.get_by_role("link", name="select load").first.click()
        page.get_by_role("link", name="All cells").click()
        page.get_by_label("Order").select_option("slowest")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="compare").first.click()
        expect(page.locator(".bars .bar")).to_have_count(2)
        expect(page.locator("#waterfall svg")).to_contain_text("A, no TFO")


def test_what_is_folded_away_is_fetched_when_it_is_opened(browser: Browser, visitor: Visitor) -> None:
    with opened(browser, visitor, "/runs/first") as page:
        expect(page.locator("#evidence")).to_have_count(0)
        page.get_by_role("heading", name="Evidence", exact=True).click()
        expect(page.locator("#evidence table").first).to_be_visible()
        page.get_by_role("heading", name="Figures", exact=True).click()
        expect(page.locator(".chart svg").first).to_be_visible()


def test_the_keyboard_alone_searches_and_steps_through_loads(browser: Browser, visitor: Visitor) -> None:
    with opened(browser, visitor, "/runs/first/loads") as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()

        def shows(steps: str) -> None:
            expect(page.locator(".pager").first).to_contain_text(steps)
            # The page's script listens for keys only when the page is filled.
            expect(page.locator("html.filled")).to_be_attached()

        page.keyboard.press("n")
        shows("51 to 100 of 120")
        page.keyboard.press("p")
        shows("1 to 50 of 120")
        page.keyboard.press("/")
        page.keyboard.type("@100ms#3")
        page.keyboard.press("Enter")
        shows("of 3")
        page.keyboard.press("/")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('tbody th') !== null"):
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Critical path")).to_be_visible()


def test_a_run_in_work_moves_on_and_ends_by_itself(browser: Browser, tmp_path: Path) -> None:
    plan = made_up_plan([made_up_page("small", 3)], (20,), repeats=2)
    with (
        browsed(tmp_path) as visitor,
        RunStore.create(tmp_path / "live", plan, ENVIRONMENT) as store,
        opened(browser, visitor) as page,
    ):
        page.goto(f"{visitor.base}/runs/live")
        expect(page.locator(".progress")).to_contain_text("0 of 6 loads")
        fill(store, plan)
        expect(page.locator("main > p").first).to_contain_text("finished, 6 loads")
        expect(page.locator(".progress")).to_have_count(0)


def test_without_scripts_each_part_is_a_page(browser: Browser, visitor: Visitor) -> None:
    settings = {**SCREENS["desktop"], "java_script_enabled": False}
    with opened(browser, visitor, "/runs/first", **settings) as page:
        page.get_by_role("link", name="Show it").first.click()
        expect(page.locator("#verdict h2")).to_be_visible()


def test_a_page_named_like_a_script_runs_none(browser: Browser, visitor: Visitor) -> None:
    with opened(browser, visitor) as page:
        for path in ("/", "/runs/evil", "/runs/evil/loads", "/runs/evil/loads/1", "/runs/evil/figures"):
            page.goto(visitor.base + path)
            page.wait_for_selector("html.filled", state="attached")
            assert page.evaluate("window.broken") is None
