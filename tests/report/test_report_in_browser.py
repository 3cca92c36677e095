"""report.html in a real browser: it sorts, erases, filters, fetches nothing, and shows hostile text as text."""

import numpy as np
import pytest
from tests.report import page_runs

from browsing import DESK, PHONE, focused_by_keyboard, serious_faults, watched
from browsing import browser as browser
from troth.core.sheet import plain_sheet
from troth.core.types import Example
from troth.report import run_page
from troth.report.exhibits import Exhibit
from troth.validity.checking import Check
from troth.validity.randomization import Randomization


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    store = page_runs.three(folder / page_runs.HOSTILE.replace("/", "∕"), labels=("bad", page_runs.HOSTILE))
    run_page.write_report(store, folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def opened(browser, report, request):
    """The report in a fresh window; whatever goes wrong in it fails the test."""
    with watched(browser, report.as_uri(), getattr(request, "param", DESK)) as page:
        page.wait_for_selector(".example")
        yield page


def explainers(page):
    return page.locator(".board tbody th").all_inner_texts()


def test_a_report_sorts_erases_filters_and_shows_text_as_text(opened):
    page = opened
    assert page.locator(".headline").inner_text() == "Too few examples"
    assert page.locator(".why").inner_text().startswith("3 cannot show")
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
    unsigned = page.locator(".card", has_text="how much, not which way").locator("h4")
    assert unsigned.all_inner_texts() == ["random"]
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
@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_a_phone_shows_it_without_scrolling_sideways(opened):
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.locator(".board").bounding_box()["width"] > 390  # the table scrolls inside
    before = opened.locator(".board tbody th").first.bounding_box()["x"]
    opened.locator(".wide").first.evaluate("place => { place.scrollLeft = 200 }")
    assert opened.locator(".board tbody th").first.bounding_box()["x"] == before  # the first column stays


@pytest.mark.full
def test_the_keyboard_is_enough(opened):
    page = opened
    focused_by_keyboard(page, "one => one.textContent.startsWith('aopc_comprehensiveness')")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "random" in explainers(page)[0]
    focused_by_keyboard(page, "one => one.type === 'range'")
    page.keyboard.press("End")
    assert "20 %" in page.locator(".card", has_text="gradient").inner_text()


@pytest.mark.full
def test_a_word_is_explained_on_hover_and_on_focus_and_escape_hides_it(opened):
    page = opened
    tip = page.locator(".term", has_text="95 % intervals").get_by_role("tooltip")
    assert not tip.is_visible()
    page.locator(".term", has_text="95 % intervals").hover()
    assert "bootstrap" in tip.inner_text()
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    focused_by_keyboard(page, "one => one.textContent.startsWith('95 % intervals')")
    assert tip.is_visible()
    page.keyboard.press("Escape")
    assert not tip.is_visible()


@pytest.mark.full
@pytest.mark.parametrize("opened", [DESK, PHONE], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened, scheme):
    opened.emulate_media(color_scheme=scheme)
    assert serious_faults(opened) == []


@pytest.mark.full
def test_a_study_shows_its_figure(browser, tmp_path):
    sheet = plain_sheet("Table <b>1</b>", ["method", "ours"], [["lime", 0.5], ["random", 0.25]], ["A note."])
    picture = b'<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><script>alert(1)</script></svg>'
    run_page.write_report(
        page_runs.three(tmp_path / "run"), tmp_path / "report.html", exhibits=[Exhibit("t", sheet, {".svg": picture})]
    )
    with watched(browser, (tmp_path / "report.html").as_uri()) as page:
        page.wait_for_selector("img.figure")
        assert page.evaluate("document.querySelector('img.figure').naturalWidth") == 30
        assert page.locator("h2", has_text="Table <b>1</b>").count() == 1
        page.get_by_role("button", name="ours").click()
        page.get_by_role("button", name="ours").click()
        assert page.locator("section", has_text="Table <b>1</b>").locator("tbody th").all_inner_texts() == [
            "random",
            "lime",
        ]


@pytest.mark.full
def test_a_check_is_the_same_page(browser, tmp_path):
    p = np.array([[0.9, 0.5, 0.2], [0.8, 0.4, 0.01]])
    p_values = {"random": p, "lime": p}
    found = Check("m", page_runs.HOSTILE, "mask_token", 9, 0.5, (0.0, 0.5, 1.0), ("a", "b"), p_values, smallest=0.001)
    run_page.write_check(tmp_path / "check.html", found, 0.05)
    with watched(browser, (tmp_path / "check.html").as_uri()) as page:
        page.wait_for_selector(".headline")
        assert page_runs.HOSTILE in page.locator(".kicker").inner_text()
        assert "Out of distribution when erased" in page.locator(".headline").inner_text()
        assert page.locator("polyline.line").count() == 2
        page.locator(".legend").get_by_role("button", name="lime").click()
        assert page.locator("polyline.line").count() == 1
        # Simes's over two examples: 2 × 0.01.
        assert page.locator(".board tbody tr").last.inner_text().split() == ["100", "%", "0.020", "0.020"]
        assert serious_faults(page) == []
    results = [
        Randomization("gradient", "all", 0.25, 0.1, 0.4, (0.25,)),
        Randomization("lime", "all", 0.5, 0.3, 0.7, ()),
    ]
    run_page.write_randomization(tmp_path / "shuffled.html", "2 examples", results, "Near 0 is good.")
    with watched(browser, (tmp_path / "shuffled.html").as_uri()) as page:
        page.wait_for_selector(".whisker")
        assert page.locator(".dots tbody th").all_inner_texts() == ["gradient", "lime"]
        assert "[0.30, 0.70]" in page.locator(".dots").inner_text()


@pytest.mark.full
@pytest.mark.parametrize("opened", [{"width": 794, "height": 1123}], indirect=True)
def test_it_fits_on_paper_whatever_the_theme(opened):
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 794
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.get_by_role("navigation").is_visible()


@pytest.mark.full
def test_without_scripts_there_are_plain_tables(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert "gradient" in page.locator("table").first.inner_text()
    context.close()


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
    run_page.write_report(page_runs.stored(tmp_path / "run", examples, rows, curves), tmp_path / "report.html")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector(".example")
    (paint,) = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)")
    print(f"first paint after {paint:.0f} ms, {(tmp_path / 'report.html').stat().st_size / 1e6:.2f} MB")
    assert paint < 1000
    page.close()
