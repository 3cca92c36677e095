"""Against a server on this machine: every protocol by hand, all that goes wrong, and a run killed in the middle."""

import json
import logging
import math
import os
import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import kills
import servers
import troth
from servers import failure, serving, time_out
from troth.cli import app
from troth.core.errors import TrothError
from troth.core.types import Example

KEY = "sk-secret-0123456789"
PROMPT = "Good or bad?\nText: {text}"
TEXT = "awful cold soup and no joy"


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TROTH_CACHE", str(tmp_path / "cache"))


def load(url, path="/v1", **options):
    settings = {"model": "some-llm", "prompt": PROMPT, "class_words": ["good", "bad"], "backoff": 0.01, "timeout": 5.0}
    return troth.load_model(url + path, **{**settings, **options})


def log_odds(text):
    """Of the two class words, from the server's own numbers."""
    bad = servers.probability(f"Text: {text}")
    return np.array([math.log(0.9 - bad), math.log(bad)])


APIS = [("/v1", {}), ("/v1", {"api": "completions"}), ("/v1", {"api": "echo"}), ("", {"api": "generate"})]


@pytest.mark.parametrize(("path", "options"), APIS, ids=["chat", "completions", "echo", "generate"])
def test_leave_one_out_by_hand(path, options):
    with serving() as (server, url):
        model = load(url, path, **options)
        (attribution,) = troth.explain(model, TEXT, "leave_one_out(of=log_probability)", target="bad")
    words = TEXT.split()

    def value(text):
        numbers = log_odds(text)
        return numbers[1] - np.log(np.exp(numbers).sum())

    masked = [" ".join("_" if other == place else word for other, word in enumerate(words)) for place in range(6)]
    np.testing.assert_allclose(attribution.scores, [value(TEXT) - value(text) for text in masked], atol=1e-4)
    np.testing.assert_allclose(np.log(attribution.probabilities), log_odds(TEXT) - math.log(0.9), atol=1e-4)
    per_request = {"completions": 16, "echo": 16}.get(options.get("api", ""), 1)
    questions = 7 * (2 if options.get("api") == "echo" else 1)
    # The whole text is asked about first, then all that is erased.
    first = 2 if options.get("api") == "echo" else 1
    assert len(server.seen) == 1 + math.ceil((questions - first) / per_request)
    assert model.usage.requests == len(server.seen)


def test_what_is_sent():
    with serving() as (server, url):
        troth.explain(load(url, system="Be brief.", shots=[("a joy", "good")]), "cold", "random")
    ((path, headers, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "some-llm", "max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 20,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Good or bad?\nText: a joy good\n\nText: cold"},
        ],
    }  # fmt: skip


def test_parts_of_the_prompt_are_erased():
    with serving() as (server, url):
        model = load(url, system="Be brief.", shots=[("a joy", "good")], explain_parts=["system", "shot 1"])
        (attribution,) = troth.explain(model, "cold", "leave_one_out", masking="delete")
    assert attribution.units == ("Text: a joy good", "Be brief.")
    assert [message["content"] for message in server.seen[1][2]["messages"]] in (
        ["Be brief.", "Good or bad?\n\n\nText: cold"],
        ["", "Good or bad?\nText: a joy good\n\nText: cold"],
    )
    assert "Good or bad?" in attribution._repr_html_()


def test_a_word_that_is_not_listed_is_the_last_that_is():
    with serving() as (_, url):
        model = load(url, class_words=["good", "bad", "middling"])
        (attribution,) = troth.explain(model, TEXT, "random")
        shares = np.array([*np.exp(log_odds(TEXT)), 0.02])  # "?" is the last that is listed
        np.testing.assert_allclose(attribution.probabilities, shares / shares.sum(), atol=1e-5)
        assert "not among the 20 likeliest tokens counts as the last" in attribution.note
        assert "'middling' not listed in 1 of 1" in model.spent
        with pytest.raises(TrothError, match=r"example 0: none of the class words yes, no is among the 5 most likely"):
            troth.explain(load(url, class_words=["yes", "no"]), TEXT, "random")
        (even,) = troth.explain(load(url, class_words=["yes", "no"], unlisted="floor"), TEXT, "random")
    assert even.probabilities == (0.5, 0.5)


def test_busy_broken_slow_then_well(monkeypatch):
    time_out(monkeypatch, 3)
    with serving(failure(429, **{"Retry-After": "0"}), failure(500), 60.0, failure(503)) as (server, url):
        (attribution,) = troth.explain(load(url, parallel=1), "cold", "random")
    assert len(server.seen) == 5
    np.testing.assert_allclose(np.log(attribution.probabilities), log_odds("cold") - math.log(0.9), atol=1e-4)


def test_answers_that_overtake_each_other():
    # The first requests are the slowest, so answers come in another order than questions.
    with serving(0.3, 0.2, 0.1) as (_, url):
        texts = [Example(str(number), text) for number, text in enumerate(("awful", "joy", "dull", "good", "cold"))]
        found = troth.explain(load(url), texts, "random")
    for attribution, example in zip(found, texts, strict=True):
        expected = log_odds(example.text) - math.log(0.9)
        np.testing.assert_allclose(np.log(attribution.probabilities), expected, atol=1e-4)


def test_no_more_than_the_limit_at_a_time():
    three_at_once = threading.Barrier(3, timeout=60)
    with serving(*[three_at_once.wait] * 12) as (server, url):
        troth.explain(load(url, parallel=3), [Example(str(number), f"cold {number}") for number in range(12)], "random")
    assert server.most_held == 3


NO_LOGPROBS = {
    "chat": {"choices": [{"message": {"content": "bad"}, "logprobs": None}]},
    "completions": {"choices": [{"index": 0, "text": "bad", "logprobs": None}]},
    "generate": {"generated_text": "bad"},
}


@pytest.mark.parametrize("api", NO_LOGPROBS)
def test_without_log_probabilities(api):
    reply = (200, {}, json.dumps(NO_LOGPROBS[api]).encode())
    with serving(reply) as (server, url):
        with pytest.raises(TrothError, match=r"gives no log-probabilities for model 'some-llm', which explaining"):
            troth.explain(load(url, api=api), "cold", "random")
        assert len(server.seen) == 1


def test_without_log_probabilities_of_the_prompt():
    """llama.cpp's own server ignores `echo` and lists the new token alone."""
    new = {"token": " bad", "logprob": -0.1}
    choice = {"text": " bad", "logprobs": {"content": [{**new, "top_logprobs": [new]}]}}
    reply = (200, {}, json.dumps({"choices": [{"index": index, **choice} for index in range(2)]}).encode())
    missing = pytest.raises(TrothError, match=r"gives no log-probabilities of the prompt for model 'some-llm'")
    with serving(reply) as (_, url), missing:
        troth.explain(load(url, api="echo", parallel=1), "cold", "random")


@pytest.mark.parametrize(
    "content", [b"<html>hello</html>", b"{}", b'{"choices": []}', b"[1]", b'{"choices": [{"logprobs": 3}]}', b"null"]
)
@pytest.mark.parametrize("api", ["chat", "completions", "generate"])
def test_garbage(api, content):
    with serving((200, {}, content)) as (_, url), pytest.raises(TrothError) as caught:
        troth.explain(load(url, api=api), "cold", "random")
    assert "does not answer in the format of" in str(caught.value) or "no log-probabilities" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_half_an_answer_is_asked_again():
    cut = (200, {"Content-Length": "1000"}, b'{"choices": [')
    with serving(cut) as (server, url):
        troth.explain(load(url), "cold", "random")
        assert len(server.seen) == 2


def test_refusals_are_passed_on_without_the_key(monkeypatch):
    with serving(failure(400, f"logprobs must be at most 5; {KEY}")) as (server, url):
        with pytest.raises(TrothError, match=r"answered 400 .*: logprobs must be at most 5") as caught:
            troth.explain(load(url), "cold", "random")
        assert len(server.seen) == 1
    assert KEY not in str(caught.value)
    with serving(failure(401)) as (_, url), pytest.raises(TrothError, match="is the key in OPENAI_API_KEY right"):
        troth.explain(load(url), "cold", "random")
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(failure(401)) as (_, url), pytest.raises(TrothError, match="put the key into OPENAI_API_KEY"):
        troth.explain(load(url), "cold", "random")
    with pytest.raises(TrothError, match="the environment variable MY_KEY is not set; put the key there"):
        load("http://127.0.0.1:1", key_variable="MY_KEY")


def test_unreachable():
    with serving() as (_, url):
        pass
    with pytest.raises(TrothError, match=r"endpoint http://127.0.0.1:\d+/v1 cannot be reached .* 2 times"):
        troth.explain(load(url, retries=1), "cold", "random")


def test_nothing_is_asked_twice(tmp_path):
    with serving() as (server, url):
        model = load(url, prices=[1.0, 2.0])
        (first,) = troth.explain(model, TEXT, "leave_one_out")
        asked = len(server.seen)
        assert asked == 7
        assert model.usage.read == 70
        assert model.cost == pytest.approx((70 * 1.0 + 7 * 2.0) / 1e6)
        assert "7 requests to" in model.spent
        assert "70 tokens read, 7 written; cost 0.0001" in model.spent
        again = load(url)
        (second,) = troth.explain(again, TEXT, "leave_one_out")
        assert len(server.seen) == asked
        assert "0 requests" in again.spent
        assert "7 answers from the cache" in again.spent
        troth.explain(load(url, model="another"), "cold", "random")
        assert len(server.seen) == asked + 1
        troth.explain(load(url, cache=False), "cold", "random")
        assert len(server.seen) == asked + 2
    assert first.scores.tolist() == second.scores.tolist()


def test_a_line_that_was_never_finished_is_no_answer(tmp_path):
    with serving() as (server, url):
        model = load(url, cache=tmp_path / "here")
        troth.explain(model, "cold", "random")
        (path,) = (tmp_path / "here").iterdir()
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])  # as a power cut may leave it
        troth.explain(load(url, cache=tmp_path / "here"), "cold", "random")
        assert len(server.seen) == 2
        troth.explain(load(url, cache=tmp_path / "here"), "cold", "random")
        assert len(server.seen) == 2


def test_the_key_and_the_texts_are_nowhere(tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    with serving(failure(429)) as (_, url):
        model = load(url, cache=tmp_path / "here")
        (attribution,) = troth.explain(model, "a very private text", "leave_one_out")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "here").iterdir()).decode()
    said = "".join(
        [caplog.text, *capsys.readouterr(), json.dumps(attribution.to_dict()), repr(model.spec), model.spent]
    )
    assert KEY not in said + kept
    assert "private" not in kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "here").iterdir())


DATA = [Example(str(number), f"{word} soup {number}", label=0) for number, word in enumerate(servers.WORDS)]


def run_bench(url, folder, cache):
    os.environ["no_proxy"] = "127.0.0.1"
    options = {
        "model": "some-llm",
        "prompt": PROMPT,
        "class_words": ["good", "bad"],
        "parallel": 4,
        "cache": str(cache),
    }
    metrics = ["comprehensiveness(ratio=0.4)"]
    troth.bench((f"{url}/v1", options), DATA, ["leave_one_out"], metrics, folder, progress=False)


@pytest.mark.full
def test_a_killed_bench_asks_only_the_rest(tmp_path):
    run, cache = tmp_path / "run", tmp_path / "cache"
    with serving() as (server, url):
        server.limit = 6
        process = kills.begun(run_bench, url, run, cache)
        until = time.monotonic() + 300
        while server.held < 4 and time.monotonic() < until:
            time.sleep(0.005)
        assert server.held == 4  # all four threads wait, so all six answers were taken in
        assert kills.kill(process)
        server.limit = None
        run_bench(url, run, cache)
        asked = len(server.answered)
        assert asked > 20
        assert len(set(server.answered)) == asked  # no request was answered twice
        run_bench(url, run, cache)
        run_bench(url, tmp_path / "another", cache)  # not even in another run
        assert len(server.answered) == asked


def test_on_the_command_line(tmp_path):
    (tmp_path / "data.csv").write_text("text,label\n" + "\n".join(f"{each.text},good" for each in DATA))
    options = ["--prompt", PROMPT.replace("\n", "\\n"), "--class-words", "good,bad"]
    with serving() as (server, url):
        model = ["-m", f"{url}/v1#some-llm", *options, "--model-option", "prices=[1, 2]"]
        shown = CliRunner().invoke(app, ["explain", TEXT, *model, "-e", "leave_one_out"])
        assert shown.exit_code == 0, shown.output
        assert "requests to" in shown.output
        assert "cost 0.000" in shown.output
        command = ["bench", *model, "-d", str(tmp_path / "data.csv"), "-e", "leave_one_out", "--metrics", "sufficiency"]
        ran = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run"), "--json"])
        assert ran.exit_code == 0, ran.output
        assert "requests to" in json.loads(ran.stdout)["spent"]
        assert server.seen[0][2]["model"] == "some-llm"
    assert KEY not in "".join(
        path.read_text(errors="ignore") for path in (tmp_path / "run").rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": ""}, "needs the model's name: --model http.*#gpt-4o-mini .in Python: model="),
        ({"prompt": None}, r'needs a prompt: --prompt "… {text} …" \(in Python: prompt='),
        ({"class_words": None}, "needs class words: --class-words good,bad"),
        ({"generate": 40}, "generate is for"),
        ({"class_words": ["good"]}, "class_words must be two or more different words"),
        ({"api": "openai"}, "no api is called 'openai'; there are: chat, completions, echo, generate"),
        ({"top": 0}, "top must be 1 or more"),
        ({"parallel": 0}, "parallel must be 1 or more"),
        ({"timeout": -1}, "timeout must be a number of seconds above 0"),
        ({"prices": [1]}, "prices must be two numbers"),
        ({"unlisted": "zero"}, "unlisted must be refuse or floor"),
        ({"max_length": 10}, "max_length cannot be used with an endpoint"),
        ({"labels": ["one"]}, "2 class words, but 1 labels"),
        ({"chat": True}, "chat is for .*a prompted language model"),
    ],
)
def test_bad_options(options, problem):
    with pytest.raises(TrothError, match=problem):
        load("http://127.0.0.1:1", **options)


@pytest.mark.parametrize("url", ["http://me:pw@127.0.0.1/v1", "http://127.0.0.1/v1?key=3"])
def test_a_url_with_a_secret_is_refused(url):
    with pytest.raises(TrothError, match="must not contain a password or a query") as caught:
        load(url, "")
    assert "pw" not in str(caught.value)


def test_what_needs_the_inside_is_refused():
    model = load("http://127.0.0.1:1")
    problem = r"has no word vectors \(it is a model behind an endpoint\)"
    with serving() as (_, url), pytest.raises(TrothError, match=problem):
        troth.explain(load(url), "cold", "integrated_gradients")
    with pytest.raises(TrothError, match="use units word, sentence or passage"):
        model.encode([Example("0", "a")], "token")


def test_a_model_by_keyword_is_still_a_source():
    assert troth.load_model(model="embedded").labels == troth.load_model("embedded").labels
