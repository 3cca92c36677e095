"""The page of troth serve in a real browser: a typed text is explained, and erasing a word moves the prediction."""

import os
import re
import subprocess
import sys

import pytest
from tests.report.test_report_in_browser import browser as browser

pytest.importorskip("troth.serve.app", reason="needs the serve extra")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def address():
    command = [sys.executable, "-c", "from troth.cli import main; main()", "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as server:
        said = next((line for line in server.stdout if "http://" in line), "")
        yield re.search(r"http://127\.0\.0\.1:\d+", said)[0]
        server.terminate()


@pytest.mark.full
def test_a_typed_text_is_explained_and_a_word_is_erased(browser, address):
    page = browser.new_page()
    faults, asked = [], []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(address)
    page.get_by_label("Text", exact=True).fill(f"A tender, beautifully acted little film {HOSTILE}.")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector(".card")
    assert page.locator(".card h4").all_inner_texts() == ["integrated_gradients", "leave_one_out"]
    assert HOSTILE in page.locator(".card .colored").first.inner_text()
    before = page.locator(".prediction .probability").first.inner_text()
    assert before.startswith("positive 99")
    with page.expect_response("**/api/erase"):
        page.locator(".card").first.get_by_role("button", name="beautifully", exact=True).click()
    page.wait_for_function("before => document.querySelector('.probability').innerText !== before", arg=before)
    assert "1 of" in page.locator(".prediction").inner_text()
    assert page.locator(".card .gone").all_inner_texts() == ["beautifully", "beautifully"]  # in both pictures
    page.get_by_role("button", name="Bring all back").click()
    page.wait_for_function("before => document.querySelector('.probability').innerText === before", arg=before)
    assert faults == []
    assert all(url.startswith((address, "data:")) for url in asked)
    page.close()
