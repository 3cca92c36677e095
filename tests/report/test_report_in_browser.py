"""report.html in a real browser: it sorts, erases, filters, fetches nothing, and shows hostile text as text."""

import shutil

import numpy as np
import pytest
from tests.report import page_runs

from troth.core.types import Example
from troth.report import tables

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (the dev extra)")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    store = page_runs.three(folder / page_runs.HOSTILE.replace("/", "∕"), labels=("bad", page_runs.HOSTILE))
    tables.write_report(store, folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def opened(browser, report, request):
    """The report in a fresh window; whatever goes wrong in it fails the test."""
    page = browser.new_page(viewport=getattr(request, "param", {"width": 1280, "height": 900}))
    faults, asked = [], []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(report.as_uri())
    page.wait_for_selector(".example")
    yield page
    assert faults == []
    assert asked == [report.as_uri()]
    page.close()


def explainers(page):
    return page.locator(".board tbody th").all_inner_texts()


def test_a_report_sorts_erases_filters_and_shows_text_as_text(opened):
    page = opened
    assert "Too few examples: with 3" in page.locator(".answer .first").inner_text()
    heading = page.get_by_role("button", name="aopc_comprehensiveness")
    heading.click()
    assert "random" in explainers(page)[-1]
    heading.click()
    assert "random" in explainers(page)[0]
    # Erased by gradient's order: nothing up to 10 %, then one unit, then two; 0.8, 0.4 and 0.2 were stored.
    card = page.locator(".card", has_text="gradient")
    assert "80 %" in card.inner_text()
    assert card.locator(".gone").count() == 0
    slider = page.get_by_role("slider")
    slider.fill("4")
    assert "40 %" in card.inner_text()
    assert card.locator(".gone").all_inner_texts() == ["great"]
    slider.fill("5")
    assert "20 %" in card.inner_text()
    assert card.locator(".gone").all_inner_texts() == ["great", "film"]
    assert card.locator(".unit").all_inner_texts() == ["great", "old", "film", "🎬", "indeed"]
    # b is the wrong one, c the one on which gradient and lime disagree.
    only = page.locator(".filters select").first
    for option, found in (("wrong", "b"), ("disagree", "c"), ("unusual", "b")):
        only.select_option(option)
        assert page.locator(".list a small").all_inner_texts()[0].startswith(found), option
        assert page.locator(".list a").count() == 1
    only.select_option("")
    page.get_by_label("Word or id").fill("three")
    assert page.locator(".example h3").inner_text() == "c"
    assert page_runs.HOSTILE in page.locator(".card").first.inner_text()
    assert page_runs.HOSTILE in page.locator(".example").inner_text()  # the class, too
    assert page.evaluate("document.scripts.length") == 3


def test_an_address_opens_one_example(browser, opened, report):
    opened.locator(".list a").nth(1).click()
    page = browser.new_page()
    page.goto(opened.url)
    page.wait_for_selector(".example")
    assert page.locator(".example h3").inner_text() == "b"
    page.close()


@pytest.mark.full
@pytest.mark.parametrize("opened", [{"width": 390, "height": 800}], indirect=True)
def test_a_phone_shows_it_without_scrolling_sideways(opened):
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.locator(".board").bounding_box()["width"] > 390  # the table scrolls inside
    before = opened.locator(".board tbody th").first.bounding_box()["x"]
    opened.locator(".wide").first.evaluate("place => { place.scrollLeft = 200 }")
    assert opened.locator(".board tbody th").first.bounding_box()["x"] == before  # the first column stays


@pytest.mark.full
def test_the_keyboard_is_enough(opened):
    page = opened
    for _ in range(80):
        page.keyboard.press("Tab")
        kind, text = page.evaluate("[document.activeElement.type, document.activeElement.textContent]")
        if kind == "button" and text.startswith("aopc_comprehensiveness"):
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
        if kind == "range":
            page.keyboard.press("End")
    assert "random" in explainers(page)[0]
    assert "20 %" in page.locator(".card", has_text="gradient").inner_text()


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    opened.emulate_media(color_scheme=scheme)
    found = axe.Axe().run(opened).response["violations"]
    serious = [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
    assert serious == []


@pytest.mark.full
def test_the_first_paint_of_a_thousand_examples_takes_less_than_a_second(browser, tmp_path):
    generator = np.random.default_rng(0)
    examples = [Example(str(place), " ".join(["word"] * 40), label=place % 2) for place in range(1000)]
    rows = {
        name: [page_runs.explanation(one, generator.normal(size=40).tolist()) for one in examples]
        for name in ("gradient", "lime", "attention", "deep_lift", "random")
    }
    scores = [page_runs.erased(0.8, some.tolist()) for some in generator.uniform(size=(1000, 5))]
    curves = {name: {page_runs.CURVED: scores} for name in rows}
    tables.write_report(page_runs.stored(tmp_path / "run", examples, rows, curves), tmp_path / "report.html")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector(".example")
    (paint,) = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)")
    print(f"first paint after {paint:.0f} ms, {(tmp_path / 'report.html').stat().st_size / 1e6:.2f} MB")
    assert paint < 1000
    page.close()
