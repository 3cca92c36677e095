"""The plain page: a text is explained and erased without a script, and texts are shown, not obeyed."""

import html
import re

import pytest

from fakes import Lookup
from serving import client_of
from troth.serve import plain_page

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def client(tmp_path):
    table = {"good film": [0, 2], "[M] film": [0, 0], "good [M]": [0, 1], "[M] [M]": [1, 0]}
    with client_of({"lookup": Lookup(table)}, tmp_path) as client:
        yield client


def test_a_text_is_explained(client):
    answer = client.post("/", data={"text": "good film", "explainers": "leave_one_out", "target": "class 1"})
    assert answer.status_code == 200
    assert re.findall(r'name="erased" value="(\d)"', answer.text) == ["0", "1"]
    assert "class 1" in answer.text


def test_a_word_is_erased_and_the_probability_moves(client):
    answer = client.post("/erase", data={"text": "good film", "erased": ["0"]})
    assert "<td>class 1</td><td>0.881</td><td>0.500</td>" in answer.text
    assert 'value="0" checked' in answer.text
    other = client.post("/erase", data={"text": "good film", "erased": ["0", "1", "7", "x"]})
    assert "<td>class 1</td><td>0.881</td><td>0.269</td>" in other.text


@pytest.mark.parametrize("field", ["text", "text_pair", "model", "explainers", "target"])
def test_what_is_sent_is_shown_as_text(client, field):
    for path in ("/", "/erase"):
        answer = client.post(path, data={"text": "good film", field: EVIL})
        assert EVIL not in answer.text
        assert html.escape(EVIL) in answer.text
        assert answer.headers["content-type"].startswith("text/html")


def test_an_error_is_one_line_on_the_page(client):
    answer = client.post("/", data={"text": "good film", "explainers": "loo"})
    assert answer.status_code == 422
    assert "did you mean leave_one_out?" in html.unescape(answer.text)
    assert client.post("/", data={}).status_code == 422
    assert client.post("/", content=b"\xff\xfe=&&&%%%").status_code == 422


def test_names_of_models_and_runs_are_shown_as_text(tmp_path):
    evil = tmp_path / "runs" / "<b>run"
    evil.mkdir(parents=True)
    (evil / "run.json").write_text('{"format": "<i>"}')
    with client_of({EVIL: Lookup({"a": [0, 1]})}, tmp_path / "runs") as client:
        text = client.get("/").text
    assert EVIL not in text
    assert html.escape(EVIL) in text
    assert "<b>run" not in text


def test_a_front_end_that_is_shipped_is_loaded_from_here(client, tmp_path, monkeypatch):
    (tmp_path / "page.js").write_text("let one = 1")
    (tmp_path / "page.css").write_text("p {}")
    (tmp_path / "secret.txt").write_text("no")
    monkeypatch.setattr(plain_page, "ASSETS", tmp_path)
    text = client.get("/").text
    assert 'src="/assets/page.js"' in text
    assert 'href="/assets/page.css"' in text
    script = client.get("/assets/page.js")
    assert (script.text, script.headers["content-type"].partition(";")[0]) == ("let one = 1", "text/javascript")
    for name in ("secret.txt", "..%2fpage.js", "other.js"):
        assert client.get(f"/assets/{name}").status_code == 404
