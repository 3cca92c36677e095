"""Against llama.cpp's own server with SmolLM2-135M-Instruct: `make llama-server` puts both into build/llama_cpp."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troth
from troth.core.errors import TrothError

PLACE = Path(__file__).parents[2] / "build" / "llama_cpp"
SERVE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.n_ctx, parameters.port = sys.argv[2], 2048, 0
parameters.n_parallel, parameters.cpuparams.n_threads, parameters.warmup = 1, 1, False
server = xllamacpp.Server(parameters)
print("at", server.listening_address, flush=True)
time.sleep(3600)
"""
PROMPT = "Is this review good or bad?\nReview: {text}\nThis review is"

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not list(PLACE.glob("*.gguf")), reason="make llama-server has not installed llama.cpp's server"),
]


@pytest.fixture(scope="module")
def url():
    (weights,) = PLACE.glob("*.gguf")
    command = [sys.executable, "-c", SERVE, str(PLACE), str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            address = next(line.split()[1] for line in process.stdout if line.startswith("at "))
            yield f"{address}/v1#any"
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TROTH_CACHE", str(tmp_path / "cache"))


def test_it_agrees_with_the_same_weights_in_memory(url):
    asked = {"prompt": PROMPT, "class_words": ["good", "bad"], "mask_text": " _"}
    text = "an awful film, truly terrible"
    remote = troth.load_model(url, api="completions", top=100, **asked)
    (weights,) = PLACE.glob("*.gguf")
    local = troth.load_model(weights, chat=False, **asked)
    (ours,), (inside,) = (
        troth.explain(model, text, "leave_one_out(of=log_probability)", target="bad", masking="delete")
        for model in (remote, local)
    )
    # The server multiplies with quantized activations.
    np.testing.assert_allclose(ours.probabilities, inside.probabilities, atol=0.05)
    np.testing.assert_allclose(ours.scores, inside.scores, atol=0.1)


def test_a_budget_stops_and_nothing_is_asked_twice(url):
    asked = {"prompt": PROMPT, "class_words": ["good", "bad"], "unlisted": "floor", "parallel": 1}
    with pytest.raises(TrothError, match="max_requests: 2 requests were sent"):
        troth.explain(troth.load_model(url, max_requests=2, **asked), "a dull film", "leave_one_out")
    rest = troth.load_model(url, **asked)
    troth.explain(rest, "a dull film", "leave_one_out")
    assert rest.usage.requests == 2
    again = troth.load_model(url, **asked)
    troth.explain(again, "a dull film", "leave_one_out")
    assert again.usage.requests == 0
