"""Against a real HTTP server on this machine that answers well, slowly, with garbage, with 429 and with 500."""

import json
import logging
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import fakes
import troth
from servers import time_out
from troth.core.catalog import build, spec
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.explainers import _language_models
from troth.explainers.llm_ranking import match, parse

KEY = "sk-secret-0123456789"
TEXT = "the soup was awful and the soup was cold"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, plan, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.free = threading.Event()  # what is slow is answered only at the end
        self.plan, self.seen = list(plan), []  # what to do with each request in turn; the last one is repeated


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        plan = self.server.plan
        step = plan.pop(0) if len(plan) > 1 else plan[0]
        if step == "slow":
            self.server.free.wait(60)
            step = answer(["cold"])
        status, headers, content = step
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            pass  # the client did not wait

    def log_message(self, *arguments):
        pass


def answer(words, text=None):
    content = json.dumps(words) if text is None else text
    return 200, {}, json.dumps({"choices": [{"message": {"content": content}}]}).encode()


def failure(status, **headers):
    return status, headers, json.dumps({"error": f"key {KEY} and the like"}).encode()


@contextmanager
def serving(*plan, handler=Handler):
    server = Server(plan, handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.free.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def rank(url, texts=TEXT, **options):
    model = troth.load_model(fakes.planted("awful"), labels=["fine", "bad"])
    settings = {"endpoint": url, "model": "some-llm", "backoff": 0.01, "timeout": 5.0, **options}
    method = build("explainers", f"llm_ranking({', '.join(f'{name}={value!r}' for name, value in settings.items())})")
    return troth.explain(model, texts, method)


def test_scores_come_from_the_ranks():
    with serving(answer(["awful", "cold", "soup", "soup"])) as (server, url):
        (attribution,) = rank(url)
    # Nine words: 9 for the first, 8, 7 and 6; the second "soup" is the second soup; the others are not named.
    assert attribution.units == tuple(TEXT.split())
    assert attribution.scores.tolist() == [0, 7, 0, 9, 0, 0, 6, 0, 8]
    assert not attribution.signed
    assert attribution.note == "5 of 9 not ranked"
    ((path, headers, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["model"] == "some-llm"
    assert body["temperature"] == 0
    assert TEXT in body["messages"][0]["content"]
    assert 'The classifier chose "bad"' in body["messages"][0]["content"]


def test_invented_words_are_dropped_and_counted():
    with serving(answer(["terrible", "Awful", "awful", "stew"])) as (_, url):
        (attribution,) = rank(url)
    assert attribution.scores.tolist() == [0, 0, 0, 9, 0, 0, 0, 0, 0]
    assert attribution.note == "3 invented words dropped; 8 of 9 not ranked"
    assert attribution.to_dict()["note"] == attribution.note


@pytest.mark.parametrize("text", ["I think it is rude.", "", '["awful", 3]', "[[]", "null"])
def test_garbage_ranks_nothing_and_says_so(text):
    with serving(answer(None, text)) as (_, url):
        (attribution,) = rank(url)
    assert attribution.scores.tolist() == [0] * 9
    assert attribution.note == "the language model's answer holds no list of words; 9 of 9 not ranked"


@pytest.mark.parametrize("content", [b"<html>hello</html>", b"{}", b'{"choices": []}', b"[1]"])
def test_a_server_of_another_kind(content):
    with (
        serving((200, {}, content)) as (_, url),
        pytest.raises(TrothError, match="does not answer in the format of OpenAI's chat"),
    ):
        rank(url)


def test_busy_then_well():
    with serving(failure(429), failure(503), answer(["cold"])) as (server, url):
        (attribution,) = rank(url)
    assert len(server.seen) == 3
    assert attribution.scores[-1] == 9


def test_busy_says_when_to_come_back(monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    later, much_later = (failure(429, **{"Retry-After": seconds}) for seconds in ("7", "9999"))
    plan = [later, failure(429), much_later, answer(["cold"])]
    with serving(*plan) as (_, url):
        rank(url, backoff=0.5)
    assert pauses == [7.0, 1.0, 60.0]  # what was asked for; the second pause of 0.5, 1, 2; never more than a minute


def test_broken_for_good():
    with serving(failure(500)) as (server, url):
        with pytest.raises(TrothError, match=r"answered 500 .*, 3 times; check that the server is running") as caught:
            rank(url, retries=2)
        assert len(server.seen) == 3
    assert KEY not in str(caught.value)


def test_a_refusal_is_not_repeated():
    with serving(failure(401)) as (server, url):
        with pytest.raises(TrothError, match=r"answered 401 .* is the key in OPENAI_API_KEY right") as caught:
            rank(url)
        assert len(server.seen) == 1
    assert KEY not in str(caught.value)


def test_slow_then_well(monkeypatch):
    time_out(monkeypatch, 1)
    with serving("slow", answer(["awful"])) as (server, url):
        (attribution,) = rank(url)
    assert attribution.scores[3] == 9
    assert len(server.seen) == 2


def test_slow_for_good():
    with serving("slow") as (_, url), pytest.raises(TrothError, match=r"gave no answer within 0.2 s, 2 times"):
        rank(url, timeout=0.2, retries=1)


def test_unreachable():
    with serving(answer(["a"])) as (_, url):
        pass
    with pytest.raises(TrothError, match=r"endpoint http://127.0.0.1:\d+/v1 cannot be reached .* 2 times") as caught:
        rank(url, retries=1)
    assert "\n" not in str(caught.value)


def test_a_redirect_is_not_followed():
    with serving(answer(["a"])) as (other, elsewhere), serving(failure(307, Location=f"{elsewhere}/x")) as (_, url):
        with pytest.raises(TrothError, match="answered 307"):
            rank(url)
        assert not other.seen


def test_the_key_is_nowhere(caplog, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY")
    caplog.set_level(logging.DEBUG)
    with serving(failure(429), answer(["awful"])) as (server, url):
        (attribution,) = rank(url, key_variable="MY_KEY")
    assert server.seen[0][1]["Authorization"] == f"Bearer {KEY}"
    said = "".join([caplog.text, *capsys.readouterr(), json.dumps(attribution.to_dict()), repr(attribution)])
    assert KEY not in said
    with serving(answer(["awful"])) as (server, url):
        rank(url)
    assert "Authorization" not in server.seen[0][1]


def test_many_examples_are_asked_at_a_time():
    gate, waiting = threading.Barrier(4, timeout=60), []

    class Gated(Handler):
        def do_POST(self):
            waiting.append(1)
            gate.wait()  # goes on only when four are here
            super().do_POST()

    texts = [Example(str(number), f"soup {number}") for number in range(8)]
    with serving(answer(["soup"]), handler=Gated) as (_, url):
        found = rank(url, texts)
    assert [attribution.scores.tolist() for attribution in found] == [[2, 0]] * 8


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", r"model must be given: llm_ranking\(model=…\)"),
        ("model=''", "needs an instruction-tuned language model"),
        ("model='m', endpoint='ftp://x'", "endpoint must be a URL such as"),
        ("model='m', endpoint='http://me:pw@host/v1'", "must not contain a password"),
        ("model='m', endpoint='http://host/v1?key=3'", "must not contain a password or a query"),
        ("model='m', timeout=0", "timeout must be above 0"),
        ("model='m', retries=-1", "retries must be 0 or more"),
    ],
)
def test_bad_options(options, problem):
    with pytest.raises(TrothError, match=problem) as caught:
        build("explainers", f"llm_ranking({options})")
    assert "pw" not in str(caught.value)


def test_a_spec_is_what_was_said():
    method = build("explainers", "llm_ranking(model='m')")
    assert spec(method) == "llm_ranking(model='m')"
    assert "labels" not in spec(method, full=True)


def test_only_lists_are_read():
    assert parse('```json\n["a", "b"]\n```') == ["a", "b"]
    assert parse('1. "a"\n2. **b**\n10) c') == ["a", "b", "c"]
    assert parse("a, b") == []
    assert match(["A", "a"], ["a", "A"]) == ([1, 0], 0)
    assert match([], ["a"]) == ([], 0)


def test_an_erased_input_is_ranked_by_what_is_left():
    with serving(answer(["awful", "cold"])) as (server, url):
        model = troth.load_model(fakes.planted("awful"), labels=["fine", "bad"])
        method = f"llm_ranking(model='m', endpoint='{url}')"
        attributions = troth.explain(model, "awful cold thin soup", method)
        troth.measure(model, attributions, "recursive_erasure(step=0.25)")
    asked = [body["messages"][0]["content"] for _, _, body in server.seen]
    assert any('["awful", "cold", "thin", "soup"]' in text for text in asked)
    assert any('["cold", "thin", "soup"]' in text for text in asked)


def test_a_local_model_is_asked(tmp_path):
    network, tokenizer = fakes.causal_model("gpt2", max_position_embeddings=1024), fakes.causal_tokenizer("gpt2")
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = troth.load_model(fakes.planted("awful"), labels=["fine", "bad"])
    (attribution,) = troth.explain(model, "awful soup", f"llm_ranking(model='{tmp_path}')")
    assert np.isfinite(attribution.scores).all()
    assert "not ranked" in attribution.note  # a random model writes no list


def test_a_local_model_writes_its_likeliest_answer(tmp_path, monkeypatch):
    network, tokenizer = fakes.causal_model("gpt2", max_position_embeddings=1024), fakes.causal_tokenizer("gpt2")
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    local = _language_models.Local(str(tmp_path))
    ids = tokenizer("good film", return_tensors="pt")["input_ids"]
    expected = network(ids).logits[0, -1].argmax()
    assert local.ask("good film", 1) == tokenizer.decode([int(expected)], skip_special_tokens=True)
    with pytest.raises(TrothError, match="reads too little"):
        local.ask("a " * 2000, 1)
