"""Continuations and citations of a server: by its log-probabilities of a prompt, or by the texts that it writes."""

import json
import math
import re
import time

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import heads
import kills
import servers
import troth
from servers import serving
from troth.cli import app
from troth.core.errors import TrothError
from troth.statistics import bca_interval

PROMPT = "Text: {text}\nIt is"
TEXT = "awful cold soup and no joy"
WRITTEN = "very bad soup"


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TROTH_CACHE", str(tmp_path / "cache"))


def load(url, api="echo", **options):
    path = "" if api == "prefill" else "/v1"
    settings = {"model": "some-llm", "prompt": PROMPT, "api": api, "backoff": 0.01, "timeout": 5.0}
    settings |= {} if "generate" in options else {"continuation": WRITTEN}
    return troth.load_model(url + path, **{**settings, **options})


def by_hand(text):
    """[words] of what was written: the fake server gives each word a log-probability that depends on the text."""
    return np.array([servers.log_probability(word, f"Text: {text}") for word in WRITTEN.split()])


@pytest.mark.parametrize("api", ["echo", "prompt_logprobs", "prefill"])
def test_leave_one_out_by_hand(api):
    with serving() as (server, url):
        model = load(url, api)
        (whole,) = troth.explain(model, TEXT, "leave_one_out")
        matrix = troth.explain(model, TEXT, "leave_one_out", target="each").matrices()[0]
    words = TEXT.split()
    masked = [" ".join("_" if other == place else word for other, word in enumerate(words)) for place in range(6)]
    expected = np.stack([by_hand(TEXT) - by_hand(text) for text in masked], axis=1)  # [written, units]
    np.testing.assert_allclose(matrix.scores, expected, atol=1e-5)
    np.testing.assert_allclose(whole.scores, expected.sum(0), atol=1e-5)
    assert matrix.targets == ("very", " bad", " soup")
    np.testing.assert_allclose(matrix.values, by_hand(TEXT), atol=1e-5)
    assert len(server.answered) == len(set(server.answered))


def test_the_server_writes_the_answer():
    with serving() as (_, url):
        model = load(url, generate=5)
        (found,) = troth.explain(model, TEXT, "leave_one_out")
        (given,) = troth.explain(load(url, continuation="bad soup"), TEXT, "leave_one_out")
    assert found.labels[:3] == ("the whole continuation", "bad", " soup")
    np.testing.assert_allclose(found.scores, given.scores, atol=1e-6)


def test_what_is_sent_as_the_beginning_of_a_message():
    with serving() as (server, url):
        troth.explain(load(url, "prompt_logprobs", system="Be brief."), "cold", "random")
    ((path, _, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant"]
    assert body["messages"][-1]["content"] == WRITTEN
    assert body["continue_final_message"]
    assert not body["add_generation_prompt"]


@pytest.mark.parametrize(("api", "compare"), [("chat", "exact"), ("completions", "token_f1"), ("generate", "exact")])
def test_texts_alone(api, compare):
    """The fake server writes "bad soup" after prompts with "awful" in them, else "good soup"."""
    path = "" if api == "generate" else "/v1"
    with serving() as (_, url):
        model = troth.load_model(
            url + path, model="some-llm", prompt=PROMPT, continuation="Bad soup!", compare=compare, api=api
        )
        (found,) = troth.explain(model, TEXT, "leave_one_out")
    lost = 1.0 if compare == "exact" else 0.5
    assert found.scores.tolist() == [lost, 0, 0, 0, 0, 0]
    assert f"by {compare}" in found.note


def test_samples_and_their_interval():
    with serving() as (server, url):
        model = load(url, "chat", continuation="bad soup", compare="exact", samples=4)
        (mean,) = troth.explain(model, TEXT, "leave_one_out")
        each = troth.explain(model, TEXT, "leave_one_out", target="each").matrices()[0].scores  # [samples, units]
        asked = len(server.seen)
        troth.explain(load(url, "chat", continuation="bad soup", compare="exact", samples=4), TEXT, "leave_one_out")
        assert len(server.seen) == asked == 4 * 7
    assert sorted({body["seed"] for _, _, body in server.seen}) == [0, 1, 2, 3]
    assert {body["temperature"] for _, _, body in server.seen} == {1.0}
    np.testing.assert_allclose(mean.scores, each.mean(0), atol=1e-6)
    # The fake server's third sample is another text, whatever it is asked.
    assert each[:, 0].tolist() == [1, 1, 0, 1]
    low, high = bca_interval(each[:, 0])
    assert low <= mean.scores[0] <= high


def test_a_function_compares():
    def length(written, answer):
        return min(len(written), len(answer)) / max(len(written), len(answer))

    with serving() as (_, url):
        model = load(url, "chat", continuation="bad soup", compare=length)
        (found,) = troth.explain(model, TEXT, "leave_one_out")
        other = load(url, "chat", continuation="bad soup", compare=lambda written, answer: 0.5)
        assert other.fingerprint != model.fingerprint
        (same,) = troth.explain(other, TEXT, "leave_one_out")
    assert found.scores.tolist() == pytest.approx([1 - 8 / 9, 0, 0, 0, 0, 0])
    assert same.scores.tolist() == [0] * 6


def test_a_bi_encoder_compares():
    """The cosine of the two answers, by a loop over the plain network; a negative one counts as 0."""
    with serving() as (_, url):
        model = load(url, "chat", continuation="bad soup", compare=heads.similarity())
        (found,) = troth.explain(model, TEXT, "leave_one_out")
        other = load(url, "chat", continuation="bad soup", compare=heads.similarity("max"))
    tokenizer, network = heads.similarity().tokenizer, heads.sentence_network()
    with torch.no_grad():
        good, bad = (
            network(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0].mean(0)
            for text in ("good soup", "bad soup")
        )
    cosine = float(torch.cosine_similarity(good, bad, dim=0))
    assert cosine < 0.999  # the two answers are different texts for it
    np.testing.assert_allclose(found.scores, [1 - max(0.0, cosine), 0, 0, 0, 0, 0], atol=2e-6)
    assert "by the cosine of" in found.note
    assert other.fingerprint != model.fingerprint


def test_a_budget_stops_and_the_rest_is_asked_later():
    with serving() as (server, url):
        with pytest.raises(TrothError, match=r"max_requests: 3 requests were sent to http.*; all answers are kept"):
            troth.explain(load(url, "prompt_logprobs", max_requests=3, parallel=1), TEXT, "leave_one_out")
        assert len(server.seen) == 3
        troth.explain(load(url, "prompt_logprobs", max_requests=4), TEXT, "leave_one_out")
        assert len(server.seen) == 7
        assert len(set(server.answered)) == 7  # nothing was asked twice


PASSAGES = [
    "The soup was cold. It came late.",
    "An awful place. Who would go there?",
    "The sea is near.",
    "A good bus.",
]


@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_cite(api):
    """Only "awful" makes the fake server's "bad" more likely so much, and only its passage is cited for that."""
    with serving() as (server, url):
        found = troth.cite(f"{url}/v1#some-llm", "How was it?", PASSAGES, "It was bad. We left.", api=api)
        assert found.cited == (1,)
        assert [part.text for part in found.parts] == ["It was bad.", "We left."]
        assert found.parts[1].cited == ()
        assert found.sentence(int(np.argmax(found.parts[0].sentence_scores))) == "An awful place."
        asked = len(server.seen)
        troth.cite(f"{url}/v1#some-llm", "How was it?", PASSAGES, "It was bad. We left.", api=api)
        assert len(server.seen) == asked
    texts = [json.dumps(body) for _, _, body in server.seen]
    assert any("late.\\n\\nThe sea" in text for text in texts)  # a passage goes with the blank line behind it


def test_one_budget_for_writing_and_citing():
    with serving() as (server, url):
        asked = {"api": "prompt_logprobs", "parallel": 1}
        with pytest.raises(TrothError, match="max_requests: 3 requests were sent"):
            troth.cite(f"{url}/v1#some-llm", "How was it?", PASSAGES, max_requests=3, **asked)
        assert len(server.seen) == 3  # one of them lets the model write
        model = load(url, generate=5, **asked)
        found = troth.cite(model, "How was it?", PASSAGES)
        assert found.answer == "bad soup"
        assert found.cited == (1,)
        assert model.usage.requests == len(server.seen) - 3
        assert len(set(server.answered)) == len(server.answered)  # nothing was asked twice


@pytest.mark.full
def test_a_killed_command_asks_only_the_rest(tmp_path):
    (tmp_path / "all.txt").write_text("\n\n".join(PASSAGES))
    with serving() as (server, url):
        command = ["explain", "-m", f"{url}/v1#some-llm", "--question", "How was it?", "--passages", "all.txt"]
        command.append("--json")
        for option in ("api=prompt_logprobs", "parallel=2", f"cache={tmp_path / 'answers'}"):
            command += ["--model-option", option]
        server.limit = 4
        process = kills.begun(kills.command, command, tmp_path)
        until = time.monotonic() + 300
        while server.held < 2 and time.monotonic() < until:
            time.sleep(0.005)
        assert server.held == 2  # both threads wait, so all four answers were taken in
        assert kills.kill(process)
        server.limit = None
        for _ in range(2):
            assert kills.finish(kills.begun(kills.command, command, tmp_path)) == 0
            assert json.loads((tmp_path / "out").read_text())["cited"] == [2]
            assert len(server.answered) == 12  # the answer, and 11 about prompts, also after the second run
        assert len(set(server.answered)) == 12


def test_on_the_command_line(tmp_path):
    (tmp_path / "all.txt").write_text("\n\n".join(PASSAGES))
    with serving() as (server, url):
        model = ["explain", TEXT, "-m", f"{url}/v1#some-llm", "--prompt", PROMPT.replace("\n", "\\n")]
        model += ["--continuation", WRITTEN, "-e", "leave_one_out", "--model-option", "prices=[1, 2]"]
        planned = CliRunner().invoke(app, [*model, "--dry-run"])
        assert planned.exit_code == 0, planned.output
        assert "at most about 4 requests and" in planned.output  # two rounds of the method, two of the proof
        assert "at the prices given" in planned.output
        assert not server.seen
        stopped = CliRunner().invoke(app, [*model, "--max-requests", "1"])
        assert "raise --max-requests" in str(stopped.exception)
        assert len(server.seen) == 1
        whole = CliRunner().invoke(app, [*model, "--json"])
        assert whole.exit_code == 0, whole.output
        question = ["explain", "-m", f"{url}/v1#some-llm", "--question", "How was it?", "--answer", "It was bad."]
        cited = CliRunner().invoke(app, [*question, "--passages", str(tmp_path / "all.txt"), "--json"])
        assert cited.exit_code == 0, repr(cited.exception)
        assert [each["number"] for each in json.loads(cited.stdout)["passages"] if each["score"] > 1] == [2]
        asked = len(server.seen)
        planned = CliRunner().invoke(app, [*question, "--passages", str(tmp_path / "all.txt"), "--dry-run"])
        said = " ".join(planned.output.split())
        assert "4 passages: 6 passes of the model, and at most 7 for their 6 sentences" in said
        assert len(server.seen) == asked


@pytest.mark.parametrize("answer", [["--answer", "It was bad."], ["--generate", "5"]])
@pytest.mark.parametrize("api", ["echo", "prompt_logprobs"])
def test_citing_is_counted_and_priced_before_it_is_sent(tmp_path, api, answer):
    (tmp_path / "all.txt").write_text("\n\n".join(PASSAGES))
    with serving() as (server, url):
        command = ["explain", "-m", f"{url}/v1#some-llm", "--question", "How was it?", *answer]
        command += ["--passages", str(tmp_path / "all.txt")]
        for option in (f"api={api}", "prices=[1, 2]", "prompt=Text: {passages} {question}"):
            command += ["--model-option", option]
        planned = CliRunner().invoke(app, [*command, "--dry-run"])
        assert planned.exit_code == 0, repr(planned.exception)
        assert not server.seen
        assert "at the prices given" in planned.output
        said = json.loads(CliRunner().invoke(app, [*command, "--dry-run", "--json"]).output)["expected"]
        most = int(re.search(r"about (\d+) requests", said)[1])
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, repr(found.exception)
        assert f"{len(server.seen)} requests to {url}" in " ".join(found.output.split())
        assert most // 2 <= len(server.seen) <= most


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"api": "chat"},
            r"api chat gives no log-probabilities of a continuation; use api echo, prompt_logprobs, prefill",
        ),
        ({"compare": "bleu", "api": "chat"}, "compare must be exact, token_f1, a bi-encoder"),
        ({"samples": 3}, 'samples and temperature need compare="token_f1"'),
        ({"compare": "exact", "samples": 0}, "samples must be a whole number, 1 or more"),
        ({"compare": "exact", "samples": 3, "temperature": 0}, "3 samples at temperature 0 are all the same text"),
        ({"compare": "exact", "temperature": -1}, "temperature must be a number, 0 or more"),
        ({"model": None}, "needs the model's name"),
        ({"max_requests": -1}, "max_requests must be 0 or more"),
        ({"labels": ["one"]}, "labels are names of classes, and a continuation has no classes"),
        ({"explain_parts": ["written"]}, "written can only be explained for a model in memory"),
    ],
)
def test_bad_options(options, problem):
    with pytest.raises(TrothError, match=problem):
        load("http://127.0.0.1:1", **options)


def test_tokens_that_spell_something_else():
    def reply(tokens):
        found = {"tokens": [*tokens, "\n"], "token_logprobs": [None, *[-1.0] * (len(tokens) - 1), -1.0]}
        choices = [{"index": 0, "text": "", "logprobs": found}]
        return 200, {}, json.dumps({"choices": choices}).encode()

    problem = "cannot be matched with its words; use another api="
    with (
        serving(reply(["<s>", "It is", "\ufffd" * 7, " soup, really"])) as (_, url),
        pytest.raises(TrothError, match=problem),
    ):
        troth.explain(load(url), "cold", "random")
    with serving(reply(["<s>", "It is", "▁very", "▁b", "ad", "▁soup"])) as (_, url):
        (found,) = troth.explain(load(url, cache=False), "cold", "random")
    assert found.probabilities == (-4.0, -1.0, -2.0, -1.0)
    assert math.isfinite(found.scores.sum())
