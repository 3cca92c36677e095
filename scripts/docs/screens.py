"""Takes the screenshots of the README and the docs.

    python scripts/docs/screens.py RUN    # RUN is the folder of a `troth bench`

Needs Chromium. What a picture shows is kept in it as text, so that `tests/test_pictures.py` can compare it with what
the pages say today.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import sync_playwright

from troth.report.run_page import write_report
from troth.store.store import open_run

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TEXT = "Not a single dull minute: the plot is absurd, the acting wooden, and I loved it anyway."
SHOWN = {
    "report.png": ("header", "#answer", "#leaderboard"), "report_dark.png": ("header", "#answer", "#leaderboard"),
    "examples.png": ("header", "#examples"), "serve.png": ("header", "#ask", "#answer"),
}  # fmt: skip
SAYS = "Description"  # the part of the file that holds the text of what it shows
_WINDOW = {"width": 1200, "height": 1120}
_COLORS = 160  # enough for a page; a third of the size


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's browser."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def report(browser: Any, run: str, theme: str = "light") -> Any:
    """The top of a report: the answer and the leaderboard."""
    page = browser.new_page(viewport=_WINDOW, color_scheme=theme, reduced_motion="reduce")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(open_run(run), path)
        page.goto(path.as_uri())
        page.wait_for_selector(".example")
    return page


def examples(browser: Any, run: str) -> Any:
    """The browser of examples, two steps of the slider on."""
    page = report(browser, run)
    page.get_by_role("slider").fill("2")
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.querySelector('#examples').scrollIntoView()")
    return page


def serve(browser: Any, address: str) -> Any:
    """A typed text, explained, with one word erased."""
    page = browser.new_page(viewport=_WINDOW, reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector(".ask")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_role("button", name="Explain", exact=True).click()
    page.wait_for_selector(".card")
    page.locator(".card").first.get_by_role("button", name="loved", exact=True).click()
    page.wait_for_selector(".probability i")
    page.evaluate(
        "document.activeElement.blur(); document.documentElement.style.scrollBehavior = 'auto'; scrollTo(0, 0)"
    )
    page.mouse.move(0, 0)
    return page


def seen(page: Any, name: str) -> str:
    """The text of the parts that a picture shows; what fits into the window hangs on the machine's fonts."""
    return " ".join(page.locator(part).inner_text() for part in SHOWN[name])


def save(page: Any, name: str) -> None:
    """The window as a file, with what it says in it."""
    about = PngInfo()
    about.add_itxt(SAYS, seen(page, name))
    IMAGES.mkdir(parents=True, exist_ok=True)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(_COLORS, dither=Image.Dither.NONE).save(IMAGES / name, pnginfo=about, optimize=True)
    page.close()


@contextmanager
def served() -> Iterator[str]:
    """The address of `troth serve` with the embedded model."""
    command = [
        sys.executable,
        "-m",
        "troth",
        "serve",
        "--port",
        "0",
        "--json",
        "--runs",
        tempfile.gettempdir() + "/none",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = ""
            while "}" not in said:
                said += server.stdout.readline()
            yield json.loads(said)["url"]
        finally:
            server.terminate()


if __name__ == "__main__":
    with chromium() as browser:
        save(report(browser, sys.argv[1]), "report.png")
        save(report(browser, sys.argv[1], "dark"), "report_dark.png")
        save(examples(browser, sys.argv[1]), "examples.png")
        with served() as address:
            save(serve(browser, address), "serve.png")
