"""The system's Chromium for tests of pages, driven by Playwright; none is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from fastopen.contract.clients import CHROMIUM as CHROMIUM_TYPE

CHROMIUM = next(filter(None, map(shutil.which, CHROMIUM_TYPE.executables)), None)
NEEDED = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
# Of a machine that does ten other things; whatever is there sooner is not waited for.
PATIENCE_MS = 180_000
expect.set_options(timeout=PATIENCE_MS)
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    # A browser that root starts has no sandbox to put itself into.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE_MS)
        yield browser
        browser.close()
