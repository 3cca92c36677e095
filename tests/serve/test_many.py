"""Many at a time: batches are shared, nobody is lost, one's failure is nobody else's, and who leaves is forgotten."""

import gc
import hashlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from fakes import encoder
from serving import server_of, until
from troth.models.black_box import BlackBox
from troth.serve.work_queue import Job, Limits

ASKED = {"explainers": ["leave_one_out"], "masking": "delete", "proof": False}


class Gated:
    """Answers by how many words there are, once the gate is open; notes what it was asked."""

    def __init__(self):
        self.gate, self.calls, self.is_asked = threading.Event(), [], threading.Event()

    def __call__(self, texts):
        self.calls.append(list(texts))
        self.is_asked.set()
        assert self.gate.wait(120)
        if any("boom" in text for text in texts):
            raise ValueError("boom")
        return np.array([[1 / (2 + len(text)), 1 - 1 / (2 + len(text))] for text in texts])


@pytest.fixture
def gated():
    function = Gated()
    yield function, BlackBox(function, labels=["no", "yes"])
    function.gate.set()


def post(port, body, path="explain", seconds=60):
    return httpx.post(f"http://127.0.0.1:{port}/api/{path}", json=body, timeout=seconds, trust_env=False)


@contextmanager
def sent(port, asked, accept="application/json"):
    """A request whose answer nobody reads; the browser leaves at the end."""
    body = json.dumps(asked).encode()
    head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{head}Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        yield


@pytest.mark.full
def test_fifty_at_once_are_answered_or_refused_and_the_model_stays_as_it_was(tmp_path):
    model = encoder("bert", classes=2)
    network = model.model
    before = _state(network)
    methods = ["leave_one_out", "integrated_gradients(steps=4)", "attention"]
    texts = [f"a good film with a {word} plot {place}" for place, word in enumerate(["dull", "bad"] * 25)]
    with server_of({"bert": model}, tmp_path, limit=Limits(jobs=20)) as (port, queue):
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda text: post(port, {"text": text, "explainers": methods}), texts))
        until(lambda: queue.open == 0)
        codes = [answer.status_code for answer in answers]
        assert {*codes} <= {200, 503}
        assert codes.count(200) >= 20
        assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 503)
        for text, answer in zip(texts, answers, strict=True):
            if answer.status_code == 200:
                assert [each["text"] for each in answer.json()] == [text] * 3
        # Company changes no number but by what the shape of a batch does.
        place = codes.index(200)
        alone = post(port, {"text": texts[place], "explainers": methods}).json()
        for one, other in zip(answers[place].json(), alone, strict=True):
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
    assert _state(network) == before
    gc.collect()
    assert not [thing for thing in gc.get_objects() if type(thing) is Job]


def _state(network):
    weights = hashlib.sha256(b"".join(value.numpy().tobytes() for value in network.state_dict().values())).hexdigest()
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules()]
    wanted = [(parameter.requires_grad, parameter.grad is None) for parameter in network.parameters()]
    return weights, hooks, wanted, network.training, network.config._attn_implementation


def test_requests_that_wait_share_batches(gated, tmp_path):
    function, model = gated
    texts = [f"{word} film" for word in ("one", "two", "three", "four", "five")]
    with server_of({"box": model}, tmp_path) as (port, queue), ThreadPoolExecutor(6) as pool:
        first = pool.submit(post, port, {"text": "first", **ASKED})
        assert function.is_asked.wait(120)
        others = [pool.submit(post, port, {"text": text, **ASKED}) for text in texts]
        until(lambda: queue.open == 6)
        function.gate.set()
        assert [each.result().status_code for each in (first, *others)] == [200] * 6
    # One batch had the whole texts of all that waited, and one what is left of them.
    assert any({*texts} <= {*call} for call in function.calls)
    assert len(function.calls) <= 4


def test_many_cost_fewer_passes_than_each_alone(tmp_path, monkeypatch):
    model, batches, go_on = encoder("bert", classes=2), [], threading.Event()
    forward = type(model).forward

    def counted(model, rows, *args):
        assert go_on.wait(120)
        batches.append(len(rows.ids))
        return forward(model, rows, *args)

    monkeypatch.setattr(type(model), "forward", counted)
    texts = [f"a good film with a bad plot {place}" for place in range(12)]
    with server_of({"bert": model}, tmp_path) as (port, queue), ThreadPoolExecutor(12) as pool:
        go_on.set()
        post(port, {"text": texts[0], **ASKED})  # how the model reads is found out once
        batches.clear()
        alone = [post(port, {"text": text, **ASKED}) for text in texts]
        one_by_one, rows = len(batches), sum(batches)
        batches.clear()
        go_on.clear()
        sent_together = [pool.submit(post, port, {"text": text, **ASKED}) for text in texts]
        until(lambda: queue.open == 12)
        go_on.set()
        together = [each.result() for each in sent_together]
    assert [each.status_code for each in (*alone, *together)] == [200] * 24
    assert sum(batches) == rows  # the same inputs
    assert len(batches) < one_by_one / 2


def test_more_than_fit_are_refused_and_those_inside_are_answered(gated, tmp_path):
    function, model = gated
    with server_of({"box": model}, tmp_path, limit=Limits(jobs=2)) as (port, queue), ThreadPoolExecutor(2) as pool:
        inside = [pool.submit(post, port, {"text": text, **ASKED}) for text in ("one", "two")]
        until(lambda: queue.open == 2)
        refused = post(port, {"text": "three", **ASKED})
        assert refused.status_code == 503
        assert refused.json()["error"].startswith("2 requests are in progress")
        two = post(port, {"text": "three", "models": ["box", "box"], **ASKED}, "compare")
        assert two.status_code == 503
        function.gate.set()
        assert [each.result().status_code for each in inside] == [200, 200]
        until(lambda: queue.open == 0)
        assert post(port, {"text": "three", **ASKED}).status_code == 200


def test_the_failure_of_one_is_nobody_elses(gated, tmp_path, capfd):
    function, model = gated
    with server_of({"box": model}, tmp_path) as (port, queue), ThreadPoolExecutor(4) as pool:
        first = pool.submit(post, port, {"text": "first", **ASKED})
        assert function.is_asked.wait(120)
        texts = ["a film", "boom film", "a book"]
        others = [pool.submit(post, port, {"text": text, **ASKED}) for text in texts]
        until(lambda: queue.open == 4)
        function.gate.set()
        codes = [each.result().status_code for each in others]
    assert first.result().status_code == 200
    assert (codes[0], codes[2]) == (200, 200)
    assert codes[1] == 500
    assert others[1].result().json() == {"error": "the model failed (ValueError); see what troth serve printed"}
    assert "ValueError: boom" in capfd.readouterr().err


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_browser_that_leaves_ends_its_job(gated, tmp_path, accept):
    function, model = gated
    with server_of({"box": model}, tmp_path) as (port, queue):
        with sent(port, {"text": "a film of many words", **ASKED}, accept):
            assert function.is_asked.wait(120)
            (job,) = queue._under_way
        until(lambda: job._withdrawn)
        function.gate.set()
        until(lambda: queue.open == 0)
        # It was told of the whole text; what is left without each word it was never asked.
        assert function.calls == [["a film of many words"]]
        assert post(port, {"text": "another", **ASKED}).status_code == 200


def test_one_that_leaves_in_the_middle_of_a_look_ends_between_two_batches(tmp_path, monkeypatch):
    model, batches, is_asked, go_on = encoder("bert", classes=2), [], threading.Event(), threading.Event()
    forward = model.forward

    def counted(rows, **options):
        batches.append(len(rows.ids))
        if len(batches) == 3:
            is_asked.set()
            assert go_on.wait(120)
        return forward(rows, **options)

    text = " ".join(f"film{number}" for number in range(20))
    with server_of({"bert": model}, tmp_path) as (port, queue):
        post(port, {"text": "a film", **ASKED})  # how the model reads is found out once
        monkeypatch.setattr(model, "forward", counted)
        with sent(port, {"text": text, "explainers": ["lime(samples=9000)"]}):
            assert is_asked.wait(120)
            (job,) = queue._under_way
        until(lambda: job._withdrawn)
        go_on.set()
        until(lambda: queue.open == 0)
    assert len(batches) == 3
    assert sum(batches) < 600  # of nine thousand


def test_one_that_leaves_while_it_waits_makes_room(gated, tmp_path):
    function, model = gated
    with server_of({"box": model}, tmp_path) as (port, queue), ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, port, {"text": "first", **ASKED})
        assert function.is_asked.wait(120)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"http://127.0.0.1:{port}/api/explain", json={"text": "b", **ASKED}, timeout=0.5, trust_env=False
            )
        until(lambda: queue.open == 1)
        function.gate.set()
        assert first.result().status_code == 200
    assert not any("b" in call for call in function.calls)


def test_what_takes_too_long_is_ended(gated, tmp_path):
    function, model = gated
    with server_of({"box": model}, tmp_path, limit=Limits(seconds=600)) as (port, queue), ThreadPoolExecutor(1) as pool:
        late = pool.submit(post, port, {"text": "a film", **ASKED})
        assert function.is_asked.wait(120)
        (job,) = queue._under_way
        job.deadline -= 600
        function.gate.set()
        assert late.result().status_code == 504
        assert queue.open == 0
