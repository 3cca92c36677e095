"""The page of troth serve in a real browser: typed texts are explained, erasing a word moves the prediction."""

import json
from html import unescape

import pytest
from tests.report import page_runs

pytest.importorskip("fastapi", reason="needs the serve extra")

import fakes
import troth
from browsing import DESK, PHONE, focused_by_keyboard, serious_faults, watched
from browsing import browser as browser
from retrieval import retriever
from serving import server_of, until
from troth import explain, load_model

HOSTILE = "<script>alert(1)</script>"
TEXT = f"A tender, beautifully acted little film {HOSTILE}."
SLOW = ("leave_one_out", "lime", "kernel_shap", "gradient_shap", "deep_lift", "integrated_gradients")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Every kind of model, one with a hostile name, and a run with one; -> address, queue, models"""
    folder = tmp_path_factory.mktemp("served")
    causal = fakes.saved_causal(folder / "gpt2", "gpt2")
    network, tokenizer = retriever()
    models = {
        "embedded": troth.load_model("embedded"),
        HOSTILE: fakes.encoder("bert", classes=3),
        "writer": load_model(str(causal), continuation="the film was good"),
        "prompted": fakes.prompted(),
        "retriever": load_model(network, tokenizer=tokenizer, continuation="x"),
    }
    page_runs.three(folder / "runs" / page_runs.HOSTILE.replace("/", "∕"), labels=("bad", page_runs.HOSTILE))
    with server_of(models, folder / "runs") as (port, queue):
        yield f"http://127.0.0.1:{port}/", queue, models


@pytest.fixture
def page(browser, served, request):
    with watched(browser, served[0], getattr(request, "param", DESK)) as page:
        page.wait_for_selector(".ask")
        yield page


def ask(page, text, model="embedded", **choices):
    """Fills the form and waits for the answer."""
    page.get_by_label("Text", exact=True).fill(text)
    page.locator("select[name=model]").select_option(model)
    for name, value in choices.items():
        page.locator(f"select[name={name}]").select_option(value)
    with page.expect_response("**/api/compare"):
        page.get_by_role("button", name="Explain", exact=True).click()
    page.get_by_role("button", name="Cancel").wait_for(state="detached")
    page.wait_for_selector(".card")


def choose(page, *names):
    for box in page.locator(".boxes label").all():
        if box.locator("input").is_checked() != (box.inner_text() in names):
            box.click()


def probability(page):
    return page.locator(".prediction .probability").first.inner_text().split()


def test_a_typed_text_is_explained_and_a_word_is_erased(page, served):
    ask(page, TEXT)
    assert page.locator(".card h4").all_inner_texts() == ["integrated_gradients", "leave_one_out"]
    assert HOSTILE in page.locator(".card .colored").first.inner_text()
    assert probability(page)[0] == "positive"
    assert probability(page)[1].startswith("99")
    # The picture shows the scores that the command line gives.
    (expected,) = explain(served[2]["embedded"], TEXT, "leave_one_out")
    word = page.locator(".card").nth(1).get_by_role("button", name="beautifully", exact=True)
    shown = float(word.get_attribute("title").replace("−", "-"))
    assert shown == pytest.approx(expected.scores[expected.units.index("beautifully")], rel=0.06)
    with page.expect_response("**/api/erase"):
        word.click()
    page.wait_for_selector(".probability i")
    assert "1 of" in page.locator(".prediction").inner_text()
    assert "→" in probability(page)
    assert page.locator(".card .gone").all_inner_texts() == ["beautifully", "beautifully"]  # in both pictures
    page.get_by_role("button", name="Restore all").click()
    page.wait_for_selector(".probability i", state="detached")
    assert page.locator(".card .gone").count() == 0


@pytest.mark.full
def test_explainers_are_compared_side_by_side_with_their_proof(page):
    choose(page, "gradient", "random", "leave_one_out")
    ask(page, "A wonderful, tender film.")
    assert page.locator(".card h4").all_inner_texts() == ["leave_one_out", "gradient", "random"]  # as they were chosen
    assert page.locator(".proof").count() == 3
    assert "without its top 20 %" in page.locator(".proof").first.inner_text()


@pytest.mark.full
def test_two_models_are_compared_and_names_are_text(page):
    ask(page, "a good film was bad", other=HOSTILE)
    assert page.locator(".model-answer h2").all_inner_texts() == ["embedded", HOSTILE]
    first, second = page.locator(".model-answer").all()
    before = second.locator(".probability").first.inner_text()
    with page.expect_response("**/api/erase") as asked:
        first.get_by_role("button", name="good", exact=True).first.click()
    assert json.loads(asked.value.request.post_data)["model"] == "embedded"
    first.locator(".probability i").first.wait_for()
    assert second.locator(".probability").first.inner_text() == before  # the other model was not asked


@pytest.mark.full
def test_a_pair(page):
    page.get_by_text("Second text, for models that read two").click()
    page.get_by_label("Second text").fill("the plot was dull")
    page.locator("select[name=segments]").select_option("both")
    ask(page, "a good film", model=HOSTILE)
    colored = page.locator(".card .colored").first
    assert colored.locator(".unit").all_inner_texts() == ["a", "good", "film", "the", "plot", "was", "dull"]
    with page.expect_response("**/api/erase") as asked:
        colored.get_by_role("button", name="dull", exact=True).click()
    assert asked.value.json()["probabilities"][0] != asked.value.json()["whole"]


@pytest.mark.full
def test_a_language_model_has_its_prompt_in_gray_and_its_class_words(page):
    ask(page, "a good film", model="prompted")
    colored = page.locator(".card .colored").first
    assert "is the film good or bad" in page.locator(".prompt").inner_text()  # once, not in every card
    assert colored.locator(".unit").all_inner_texts() == ["a", "good", "film"]  # the prompt cannot be erased


@pytest.mark.full
def test_a_continuation_token_by_token_and_as_a_table(page, served):
    choose(page, "leave_one_out")
    ask(page, "a good film was bad", model="writer")
    tokens = page.locator(".continuation button")
    assert [text.strip() for text in tokens.all_inner_texts()] == ["the", "film", "was", "good"]
    with page.expect_response("**/api/compare") as asked:
        tokens.nth(1).click()
    assert json.loads(asked.value.request.post_data)["target"] == 2
    until(lambda: page.locator(".continuation [aria-pressed=true]").count() == 1)
    page.get_by_role("button", name="Table of all tokens").click()
    page.wait_for_selector(".matrix")
    expected = explain(served[2]["writer"], "a good film was bad", "leave_one_out", target="each")
    rows = page.locator(".matrix tbody tr").all()
    for row, attribution in zip(rows, expected, strict=True):
        shown = [float(text.replace("−", "-")) for text in row.locator("td").all_inner_texts()]
        assert shown == pytest.approx(attribution.scores.tolist(), rel=0.06, abs=1e-4)
    page.get_by_role("button", name="Explain the whole continuation").click()
    page.wait_for_selector(".continuation")


@pytest.mark.full
def test_work_is_cancelled_on_the_server_too(page, served):
    choose(page, *SLOW)
    page.get_by_label("Text", exact=True).fill("many words to think about " * 20)
    page.get_by_role("button", name="Explain", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    until(lambda: served[1].open == 0, seconds=60)
    assert page.locator(".card").count() == 0
    assert page.locator("[role=alert]").count() == 0
    choose(page, "leave_one_out")
    ask(page, "A wonderful film.")  # and it goes on
    assert page.locator(".card").count() == 1


@pytest.mark.full
def test_what_cannot_be_done_is_one_line_and_the_page_goes_on(browser, served):
    # A refusal is noted on the console by the browser itself.
    page = browser.new_page()
    page.goto(served[0])
    page.wait_for_selector(".ask")
    choose(page, "glob_enc", "leave_one_out")
    ask(page, "a film", model="prompted")
    assert "glob_enc" in page.locator(".model-answer [role=alert]").inner_text()
    assert page.locator(".card h4").all_inner_texts() == ["leave_one_out"]  # which is not lost
    choose(page, "glob_enc")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.wait_for_selector(".ask [role=alert]")
    assert "glob_enc" in page.locator("[role=alert]").inner_text()
    assert page.locator(".card").count() == 0  # what was there before would look like the answer
    choose(page, "gradient")
    ask(page, "a film")
    assert page.locator("[role=alert]").count() == 0
    page.close()


@pytest.mark.full
def test_an_example_is_filled_in_and_its_verdict_and_page_are_saved(page):
    page.get_by_role("button", name="Fill in an example").click()
    ask(page, page.get_by_label("Text", exact=True).input_value())
    verdict = page.locator(".verdict").inner_text()
    assert "integrated_gradients" in verdict
    with page.expect_download() as html:
        page.get_by_role("button", name="Save as HTML").click()
    with page.expect_download() as plain:
        page.get_by_role("button", name="Save as JSON").click()
    assert verdict in unescape(html.value.path().read_text(encoding="utf-8"))
    (model,) = json.loads(plain.value.path().read_text(encoding="utf-8"))["models"]
    assert model["comparison"] == [verdict]
    assert [each["explainer"].partition("(")[0] for each in model["explanations"]] == [
        "integrated_gradients",
        "leave_one_out",
    ]


@pytest.mark.full
def test_the_classes_are_those_of_the_model(page):
    classes = page.locator("select[name=target] option")
    assert classes.all_inner_texts()[1:] == ["negative", "positive"]
    page.locator("select[name=model]").select_option("prompted")
    assert "negative" not in classes.all_inner_texts()
    page.locator("select[name=model]").select_option("writer")
    assert classes.count() == 0  # a continuation has none


@pytest.mark.full
@pytest.mark.parametrize("page", [DESK, PHONE], indirect=True)
def test_passages_behind_an_answer(page):
    page.get_by_role("button", name="Passages behind an answer").click()
    page.get_by_role("button", name="Fill in an example").click()
    page.locator("select[name=model]").last.select_option("retriever")
    files = [{"name": f"{name}.txt", "mimeType": "text/plain", "buffer": b"It rains."} for name in ("a", "<b>")]
    page.locator("input[type=file]").set_input_files(files)
    page.get_by_role("button", name="Remove a.txt").click()
    page.get_by_label("Answer; if").fill("Pigs can fly. The secret word of the vault is marigold.")
    page.get_by_role("button", name="Find the passages").click()
    page.wait_for_selector(".cited")
    assert page.locator(".cited .passage").count() == 4
    assert "<b>.txt" in page.locator(".cited .passage").first.inner_text()
    page.locator(".cited label").last.click()
    assert "It rests on [2]" in page.locator(".cited").inner_text()
    page.locator(".cited label").nth(1).click()
    assert "It rests on no passage" in page.locator(".cited").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_faults(page) == []
    page.get_by_role("button", name="A text", exact=True).click()
    assert page.locator(".cited").count() == 0


@pytest.mark.full
def test_a_run_is_opened_and_its_name_is_text(page, served):
    link = page.locator("#runs a").first
    assert HOSTILE.replace("/", "∕") in link.inner_text()
    link.click()
    page.wait_for_selector(".example")
    assert page.locator(".board tbody tr").count() == 3
    assert HOSTILE.replace("/", "∕") in page.locator("h1").inner_text()
    page.get_by_role("link", name="troth", exact=True).click()
    page.wait_for_selector(".ask")


@pytest.mark.full
@pytest.mark.parametrize("page", [PHONE], indirect=True)
def test_a_phone_needs_no_scrolling_sideways(page):
    ask(page, f"{'word ' * 40}{'longer' * 30}", other=HOSTILE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ask(page, "a good film was bad", model="writer", other="")
    page.get_by_role("button", name="Table of all tokens").first.click()
    page.wait_for_selector(".matrix")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.full
def test_the_keyboard_is_enough(page):
    focused_by_keyboard(page, "one => one.name === 'text'")
    page.keyboard.type("A wonderful film.")
    focused_by_keyboard(page, "one => one.parentElement.textContent === 'leave_one_out'")
    page.keyboard.press("Space")  # not this one
    focused_by_keyboard(page, "one => one.textContent === 'Explain' && one.type === 'submit'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card")
    assert page.locator(".card h4").all_inner_texts() == ["integrated_gradients"]
    focused_by_keyboard(page, "one => one.textContent === 'wonderful'")
    with page.expect_response("**/api/erase"):
        page.keyboard.press("Enter")
    page.wait_for_selector(".probability i")


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page, scheme):
    page.emulate_media(color_scheme=scheme)
    ask(page, TEXT, other=HOSTILE)
    with page.expect_response("**/api/erase"):
        page.locator(".card").first.get_by_role("button", name="tender", exact=True).click()
    assert serious_faults(page) == []
