"""Run the system's Chromium with Playwright, for tests of pages. No browser is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from fastopen.contract.client_kinds import CHROMIUM as CHROMIUM_TYPE

CHROMIUM = next(filter(None, map(shutil.which, CHROMIUM_TYPE.executables)), None)
NEEDED = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
# Long enough for a busy machine. Tests go on as soon as the expected state is there.
PATIENCE_MS = 180_000
expect.set_options(timeout=PATIENCE_MS)
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield a browser without a window."""
    # Chromium refuses to run its sandbox as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE_MS)
        yield browser
        browser.close()
