"""What OpenAPI documents is what happens: schemathesis sends what the schema allows and what it does not."""

import json
from typing import NamedTuple

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from schemathesis import GenerationMode, checks
from schemathesis.core import NOT_SET

from fakes import encoder
from films import film
from retrieval import retriever
from sampled import every
from serving import server_of
from troth import bench, load_model
from troth.serve import replies

CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_schema_conformance,
]  # fmt: skip
OPERATIONS = [
    ("GET", "/api/about"), ("POST", "/api/explain"), ("POST", "/api/compare"), ("POST", "/api/erase"),
    ("POST", "/api/cite"), ("GET", "/api/runs"), ("GET", "/api/runs/{name}"), ("GET", "/api/runs/{name}/report"),
]  # fmt: skip
# What chance would never write, so that the model is asked, too.
KNOWN = {
    "text": st.sampled_from(["a good film", "not bad, but long", "<script>", "é\u0000 \u202e", "  "]),
    "explainers": st.lists(
        st.sampled_from(["random", "leave_one_out", "gradient", "lime(samples=3)", "attention"]), min_size=1, max_size=3
    ),
    "target": st.sampled_from(["predicted", "positive", 0, 1, 7, "each", "above_threshold", ["negative", "positive"]]),
    "against": st.none() | st.sampled_from(["positive", 0]),
    "masking": st.sampled_from(["mask_token", "delete", "zero", "soft", "attention"]),
    "model": st.none() | st.sampled_from(["embedded", "bert", "writer"]),
    "models": st.lists(st.sampled_from(["embedded", "bert"]), min_size=1, max_size=2),
    "passages": st.lists(st.sampled_from(["The sea is blue.", "A fine film."]), min_size=1, max_size=3),
    "keep": st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), max_size=3),
}
TEXT = {"text": "a good film", "explainers": ["leave_one_out", "gradient"]}
GOOD = {
    "/api/explain": TEXT,
    "/api/compare": {**TEXT, "models": ["embedded", "bert"]},
    "/api/erase": {"text": "a good film", "keep": [[1, 0, 1]]},
    "/api/cite": {
        "model": "writer",
        "question": "Who?",
        "passages": {"a": "The sea.", "b": "A film."},
        "answer": "Sea",
    },
}
NAMES = st.sampled_from(["first", "second"])


class Server(NamedTuple):
    session: requests.Session
    url: str

    @property
    def document(self):
        return self.session.get(f"{self.url}/openapi.json").json()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work") / "runs"
    data = [film(number) for number in range(4)]
    bench(
        encoder("bert", classes=2), data, ["random", "gradient"], ["comprehensiveness"],
        out=folder / "first", workers=1,
    )  # fmt: skip
    model, tokenizer = retriever()
    models = {
        "embedded": load_model("embedded"), "bert": encoder("bert", classes=2),
        "writer": load_model(model, tokenizer=tokenizer, continuation="film"),
    }  # fmt: skip
    with server_of(models, folder) as (port, _), requests.Session() as session:
        session.trust_env = False  # no proxy
        yield Server(session, f"http://127.0.0.1:{port}")


def send(server, method, path, examples):
    """A good request, then so many others; the statuses these got."""
    schema = schemathesis.openapi.from_dict(server.document)
    operation = schema[path][method]
    statuses = []

    @settings(
        max_examples=examples, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data=st.data())
    def run(data):
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        is_fixed = not operation.path_parameters and operation.body is None
        case = data.draw(operation.as_strategy(generation_mode=GenerationMode.POSITIVE if is_fixed else mode))
        if mode == GenerationMode.POSITIVE and isinstance(case.body, dict):
            named = data.draw(st.sets(st.sampled_from(sorted(KNOWN.keys() & case.body.keys()) or ["text"])))
            case.body |= {name: data.draw(KNOWN[name]) for name in sorted(named)}
        if mode == GenerationMode.POSITIVE and case.path_parameters:
            case.path_parameters["name"] = data.draw(NAMES)
        response = case.call(base_url=server.url, session=server.session)
        case.validate_response(response, checks=CHECKS)
        statuses.append(response.status_code)

    good = operation.Case(
        body=GOOD.get(path, NOT_SET), path_parameters={"name": "first"} if "{name}" in path else {},
        media_type="application/json" if path in GOOD else None,
    )  # fmt: skip
    response = good.call(base_url=server.url, session=server.session)
    good.validate_response(response, checks=CHECKS)
    assert response.status_code == 200, response.text
    run()
    return {*statuses}


@pytest.mark.parametrize(("method", "path"), every(3, OPERATIONS))
def test_a_few_requests_of_each_kind(server, method, path):
    send(server, method, path, 12)


@pytest.mark.full
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_many_requests_of_each_kind(server, method, path):
    statuses = send(server, method, path, 400)
    assert statuses <= {200, 400, 404, 405, 422}


def test_every_path_is_among_them(server):
    paths = server.document["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {*OPERATIONS}


def test_every_answer_and_event_has_a_schema(server):
    document = server.document
    for path in (path for _, path in OPERATIONS if path.startswith("/api/")):
        (about,) = document["paths"][path].values()
        schema = about["responses"]["200"]["content"]["application/json"]["schema"]
        assert "$ref" in schema or "$ref" in json.dumps(schema["items"]), path
    events = document["paths"]["/api/explain"]["post"]["responses"]["200"]["x-events"]
    assert {*events["progress"]["properties"]} == {"explainer", "done", "of", "rows"}


def test_every_field_of_the_command_lines_json_is_documented(troth):
    """The models forbid what they do not name: a field that is added to the JSON must be added there."""
    _, printed, _ = troth("explain", "a dull film", "--json", "-e", "leave_one_out,gradient", "--against", "positive")
    explanations = TypeAdapter(list[replies.ExplanationReply]).validate_python(json.loads(printed))
    assert [each.model_dump(mode="json") for each in explanations] == json.loads(printed)
