"""What the API answers: the command line's own JSON, numbers worked out by hand, and one line for what is wrong."""

import copy
import html
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import Lookup, encoder, hf_model, planted, tokenizer_for
from serving import client_of, close
from troth import __version__ as troth_version
from troth import explain, load_model, prove
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder
from troth.serve import replies
from troth.verbs.comparison import sentence


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    models = {
        "embedded": load_model("embedded"), "bert": encoder("bert", classes=2),
        "long": BlackBox(planted(), labels=["no", "yes"]),
    }  # fmt: skip
    with client_of(models, tmp_path_factory.mktemp("none")) as client:
        yield client


@pytest.fixture
def lookup(tmp_path):
    table = {"good film": [0, 2], "[M] film": [0, 0], "good [M]": [0, 1], "[M] [M]": [1, 0]}
    with client_of({"lookup": Lookup(table)}, tmp_path) as client:
        yield client


def test_explain_gives_the_json_of_the_command_line(client, troth):
    text, methods = "Not a bad film, but far too long.", ["leave_one_out", "integrated_gradients(steps=5)", "random"]
    code, printed, _ = troth("explain", text, "--json", "-e", ",".join(methods), "--against", "positive", "--seed", 3)
    asked = {"text": text, "explainers": methods, "against": "positive", "seed": 3}
    answer = client.post("/api/explain", json=asked)
    assert (code, answer.status_code) == (0, 200)
    assert len(answer.json()) == 3
    assert answer.json()[0]["proof"]["without_top"] < answer.json()[0]["proof"]["probability"]
    assert close(answer.json(), json.loads(printed))


def test_several_targets_are_in_the_order_of_the_command_line(client, troth):
    _, printed, _ = troth(
        "explain", "a fine film", "--json", "-e", "leave_one_out,gradient", "--target", "positive,negative"
    )
    asked = {"text": "a fine film", "explainers": ["leave_one_out", "gradient"], "target": ["positive", "negative"]}
    answer = client.post("/api/explain", json=asked).json()
    assert [each["target_label"] for each in answer] == ["positive", "positive", "negative", "negative"]
    assert close(answer, json.loads(printed))


def test_the_masking_that_is_named_reaches_the_proof(client, troth):
    text = "Not a bad film, but far too long."
    asked = {"text": text, "explainers": ["leave_one_out"], "masking": "delete"}
    _, printed, _ = troth("explain", text, "--json", "-e", "leave_one_out", "--masking", "delete")
    answer = client.post("/api/explain", json=asked).json()
    assert answer[0]["proof"]["masking"] == "delete"
    assert close(answer, json.loads(printed))


def test_a_proof_that_the_model_does_not_support_does_not_lose_the_explanations(tmp_path):
    tokenizer = copy.deepcopy(tokenizer_for("bert"))  # which all tests share
    tokenizer.mask_token = None
    asked = {"text": "a good film", "models": ["bare"], "masking": "mask_token"}  # as the page sends it
    asked["explainers"] = ["integrated_gradients", "leave_one_out"]
    with client_of({"bare": Encoder(hf_model("bert"), tokenizer, name="bare")}, tmp_path) as client:
        (found,) = client.post("/api/compare", json=asked).json()["models"]
        assert [each["explainer"].partition("(")[0] for each in found["explanations"]] == ["integrated_gradients"]
        assert [each["explainer"] for each in found["refused"]] == ["leave_one_out", "proof"]
        assert all("has no mask token; use masking delete" in each["error"] for each in found["refused"])
        (found,) = client.post("/api/compare", json={**asked, "masking": "delete"}).json()["models"]
    assert found["refused"] == []
    assert [each["proof"]["masking"] for each in found["explanations"]] == ["delete", "delete"]


def test_erase_answers_by_hand(lookup):
    keep = [[1, 1], [0, 1], [1, 0], [0, 0]]
    answer = lookup.post("/api/erase", json={"text": "good film", "keep": keep}).json()
    ones = [0.8808, 0.5, 0.7311, 0.2689]  # of class 1: 1 / (1 + e^-2), 1 / 2, 1 / (1 + e^-1), 1 / (1 + e)
    assert [row[1] for row in answer["probabilities"]] == pytest.approx(ones, abs=1e-4)
    assert answer["whole"][1] == pytest.approx(0.8808, abs=1e-4)
    assert answer["strongest"] == [1, 0, 1, 0]
    assert answer["units"] == ["good", "film"]
    assert answer["labels"] == ["class 0", "class 1"]


def test_keep_of_another_length_is_one_line(lookup):
    answer = lookup.post("/api/erase", json={"text": "good film", "keep": [[1, 0, 1]]})
    assert answer.status_code == 422
    assert answer.json() == {"error": "keep has 3 numbers, but the text has 2 words"}


def test_compare_gives_what_each_model_gives_alone(client):
    asked = {"text": "a good film with a dull plot", "explainers": ["leave_one_out"]}
    both = client.post("/api/compare", json={**asked, "models": ["embedded", "bert"]}).json()["models"]
    assert [each["model"] for each in both] == ["embedded", "bert"]
    for each in both:
        alone = client.post("/api/explain", json={**asked, "model": each["model"]}).json()
        assert close(each["explanations"], alone)
    assert both[0]["explanations"][0]["scores"] != both[1]["explanations"][0]["scores"]


def test_what_one_model_is_compared_with_is_said_and_can_be_saved(client):
    text, methods = "A wonderful, tender film with a clever plot and a fine cast.", ["leave_one_out", "random"]
    asked = {"text": text, "explainers": methods, "models": ["embedded"]}
    answer = client.post("/api/compare", json=asked).json()
    (one,) = answer["models"]
    model = load_model("embedded")
    by_method = prove(model, explain(model, text, methods))
    assert one["comparison"] == [sentence([several[0] for several in by_method.values()])]
    assert one["refused"] == []
    page = answer["page"]
    assert one["comparison"][0] in html.unescape(page)
    assert "model embedded" in page
    assert troth_version in page
    assert "<script" not in page


@pytest.mark.parametrize("masking", ["delete", "mask_token"])
def test_an_explainer_that_refuses_does_not_lose_the_others(client, masking):
    """gradient and glob_enc need layers, which a function does not have."""
    asked = {"text": "an awful film", "explainers": ["gradient", "leave_one_out", "glob_enc"], "masking": masking}
    (one,) = client.post("/api/compare", json={**asked, "models": ["long"]}).json()["models"]
    assert [each["explainer"].partition("(")[0] for each in one["explanations"]] == ["leave_one_out"]
    alone = client.post("/api/explain", json={**asked, "explainers": ["leave_one_out"], "model": "long"}).json()
    assert close(one["explanations"], alone)
    assert [each["explainer"] for each in one["refused"]] == ["gradient", "glob_enc"]
    for each in one["refused"]:
        strict = client.post("/api/explain", json={**asked, "explainers": [each["explainer"]], "model": "long"})
        assert strict.json() == {"error": each["error"]}
    none = client.post("/api/compare", json={**asked, "explainers": ["gradient", "glob_enc"], "models": ["long"]})
    assert none.status_code == 422
    plain = client.post("/", data={"text": "an awful film", "model": "long", "explainers": "gradient,leave_one_out"})
    assert "gradient: " in plain.text
    assert 'name="erased"' in plain.text


def test_events_tell_how_far_it_is_and_end_with_the_result(client):
    asked = {"text": "a dull film", "explainers": ["leave_one_out", "gradient"]}
    streamed = client.post("/api/explain", json=asked, headers={"accept": "text/event-stream"})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [dict(line.split(": ", 1) for line in part.split("\n")) for part in streamed.text.strip().split("\n\n")]
    assert events[0] == {"event": "queued", "data": '{"ahead": 0}'}
    told = [
        replies.ProgressReply.model_validate_json(event["data"]) for event in events if event["event"] == "progress"
    ]
    assert list(dict.fromkeys((each.explainer, each.done, each.of) for each in told)) == [
        ("leave_one_out", 0, 2),
        ("gradient", 1, 2),
    ]
    assert told[-1].rows >= 5  # the whole text, without each of three words, its gradient
    assert events[-1]["event"] == "result"
    assert close(json.loads(events[-1]["data"]), client.post("/api/explain", json=asked).json())


def test_two_models_are_compared_as_events(client):
    asked = {"text": "a dull film", "explainers": ["leave_one_out"], "models": ["embedded", "bert"]}
    streamed = client.post("/api/compare", json=asked, headers={"accept": "text/event-stream"})
    events = [part.split("\n") for part in streamed.text.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    assert (names.count("queued"), names.count("result")) == (2, 1)
    assert names[-1] == "result"
    assert close(json.loads(events[-1][1].removeprefix("data: ")), client.post("/api/compare", json=asked).json())


def test_more_units_than_fit_are_refused(client):
    answer = client.post("/api/explain", json={"text": "a b " * 600, "model": "long", "explainers": ["random"]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("the text has 1,200 words, but at most 1,000 are explained here")
    kept = {"text": "a b " * 500, "model": "long", "explainers": ["random"], "proof": False}
    assert len(client.post("/api/explain", json=kept).json()[0]["units"]) == 1000


def test_an_error_is_an_event_too(tmp_path):
    with client_of({"box": BlackBox(planted(), labels=["no", "yes"])}, tmp_path) as client:
        asked = {"text": "an awful film", "explainers": ["gradient"], "masking": "delete"}
        plain = client.post("/api/explain", json=asked)
        streamed = client.post("/api/explain", json=asked, headers={"accept": "text/event-stream"})
    last = streamed.text.strip().split("\n\n")[-1].split("\n")
    assert plain.status_code == 422
    assert last[0] == "event: error"
    assert json.loads(last[1].removeprefix("data: ")) == {"status": 422, **plain.json()}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"explainers": ["loo"]}, "no explainer is called 'loo'; did you mean leave_one_out?"),
        ({"explainers": ["own.py:Mine"]}, "own.py:Mine is code"),
        ({"explainers": ["os:system"]}, "os:system is code"),
        ({"explainers": ["attributive_masking(checkpoint=/etc)"]}, "attributive_masking reads checkpoint"),
        ({"explainers": ["llm_ranking(endpoint='http://elsewhere')"]}, "llm_ranking reads endpoint"),
        ({"explainers": ["lime(samples=1000000000)"]}, "lime: samples is at most 10,000"),
        ({"explainers": []}, "explainers: "),
        ({"explainers": ["random"] * 9}, "explainers: "),
        ({"masking": "nothing"}, "no masking is called 'nothing'"),
        ({"model": "other"}, "no served model is called 'other'"),
        ({"model": "/etc/passwd"}, "no served model is called '/etc/passwd'"),
        ({"target": "toxic"}, "no class is called 'toxic'"),
        ({"target": "gold"}, "example 0 has no"),
        ({"text": " "}, "the text is empty"),
        ({"text": "a" * 20_001}, "text: "),
        ({"speed": 3}, "speed: "),
    ],
)
def test_what_cannot_be_done_is_one_line(client, change, line):
    answer = client.post("/api/explain", json={"text": "a fine film", **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].startswith(line)
    assert "\n" not in answer.json()["error"]


def test_a_lone_surrogate_is_refused(client):
    answer = client.post(
        "/api/explain", content=b'{"text": "a \\ud800 film"}', headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422


@pytest.mark.parametrize("body", [b'{"text": "\xff"}', b"[" * 200_000, b'{"text": ', b"", b"null"])
def test_a_body_that_cannot_be_read_is_one_line(client, body):
    answer = client.post("/api/explain", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json().keys() == {"error"}


def test_openapi_documents_every_path_and_nothing_is_fetched(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/about", "/api/explain", "/api/compare", "/api/erase", "/api/runs", "/api/runs/{name}/report"} <= {
        *paths
    }
    assert "text/event-stream" in paths["/api/explain"]["post"]["responses"]["200"]["content"]
    assert client.get("/docs").status_code == 404  # it would load scripts from elsewhere


def test_about_says_what_can_be_chosen(client):
    about = client.get("/api/about").json()
    assert [model["name"] for model in about["models"]] == ["embedded", "bert", "long"]
    assert about["models"][0]["labels"] == ["negative", "positive"]
    offered = {each["name"] for each in about["explainers"]}
    assert "leave_one_out" in offered
    assert not offered & {"attributive_masking", "llm_ranking"}  # which need what a page cannot name


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_FIELDS = {
    "text": st.text(max_size=30) | _VALUES,
    "text_pair": st.none() | st.text(max_size=20) | _VALUES,
    "explainers": st.lists(st.sampled_from(["random", "leave_one_out", "gradient", "lime(samples=3)", "(("])) | _VALUES,
    "target": st.sampled_from(["predicted", "positive", "each", "above_threshold", "gold", "-1", "9" * 30]) | _VALUES,
    "against": st.sampled_from(["predicted", "positive", None]) | _VALUES,
    "units": st.sampled_from(["token", "word", "sentence", "passage"]) | _VALUES,
    "segments": st.sampled_from(["first", "both"]) | _VALUES,
    "masking": st.sampled_from(["mask_token", "delete", "zero", "soft", "attention", "mix", "gaussian"]) | _VALUES,
    "seed": st.integers(-2, 1 << 40) | _VALUES,
    "keep": st.lists(st.lists(st.integers(-1, 2), max_size=4), max_size=3) | _VALUES,
    "model": st.sampled_from(["embedded", "bert", ""]) | _VALUES,
    "models": st.lists(st.sampled_from(["embedded", "bert"]), max_size=3) | _VALUES,
}  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    path=st.sampled_from(["explain", "erase", "compare"]), body=st.fixed_dictionaries({}, optional=_FIELDS) | _VALUES
)
def test_nothing_that_is_sent_is_a_fault(client, path, body):
    content = json.dumps(body).encode()
    answer = client.post(f"/api/{path}", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 422), (body, answer.text)
    assert answer.status_code == 200 or answer.json().keys() == {"error"}
