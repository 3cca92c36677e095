"""A real browser for tests: Debian's Chromium, and a watch over what a page asks for and what goes wrong in it."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE = {"width": 390, "height": 800}
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (the dev extra)")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@contextmanager
def watched(browser, address, viewport=DESK, only=None):
    """The page at an address; faults on its console, dialogs, and requests to elsewhere than `only` fail the test."""
    page = browser.new_page(viewport=viewport)
    faults, asked = [], []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(address)
    yield page
    assert faults == [], faults
    assert [url for url in asked if not url.startswith((only or address, "data:"))] == []
    page.close()


def serious_faults(page):
    """What axe finds of the two worst kinds."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


def focused_by_keyboard(page, wanted, most=120):
    """Presses Tab until what has the focus fits; fails where nothing does."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(f"(({wanted})(document.activeElement))"):
            return
    raise AssertionError(f"no Tab leads to {wanted}")
