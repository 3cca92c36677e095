"""The first call in a process leaves the user's random state alone, whatever it imports."""

import json
import subprocess
import sys
from functools import cache

import pytest

import troth

# Each call runs in a fork of a process that has imported other libraries, but neither troth nor what it imports lazily.
CALLS = {
    "Attribution": "troth.Attribution.from_scores(answer, TEXT, [0.1, 0.2, 0.3, 0.4, 0.5])",
    "Example": "troth.Example('a', TEXT)",
    "Prober": "troth.Prober(troth.load_model(answer))",
    "Score": "troth.Score(0.5)",
    "TrothError": "troth.TrothError('no')",
    "bench": "troth.bench(answer, examples(), ['random', 'lime(samples=20)'], ['comprehensiveness'], 'run', workers=1)",
    "check": "troth.check('embedded', examples(), step=0.5)",
    "cite": "cite(*language_model())",
    "explain": "troth.explain('embedded', TEXT, ['gradient', 'lime(samples=20)'])",
    "fit": "troth.fit('embedded', examples(), 'fitted', settings=fit_settings())",
    "fresh": "troth.fresh(troth.load_model('embedded'), splits(), BASE, 'fresh', epochs=1)",
    "interactions": "troth.interactions(answer, TEXT, samples=40) + troth.interactions(answer, TEXT * 3, samples=200)",
    "load_data": "troth.load_data('reviews')",
    "load_model": "troth.load_model('embedded')",
    "log_to_mlflow": "refused(troth.log_to_mlflow)",
    "log_to_wandb": "refused(troth.log_to_wandb)",
    "measure": "troth.measure(answer, troth.explain(answer, TEXT, 'random'), 'comprehensiveness')",
    "prove": "troth.prove(answer, troth.explain(answer, TEXT, 'random'))",
    "referee": "troth.referee(nothing_matters, only=['answers'])",
    "train": "troth.train('masked', examples(), BASE, 'model', validation=examples(), epochs=1, cpu=True)",
}
SLOW = {"check", "fit", "fresh", "referee", "train"}
SCRIPT = """
import contextlib, json, os, random, sys, tempfile
import numpy

random.seed(7)
numpy.random.seed(7)
start = random.getstate(), numpy.random.get_state()[1].tobytes()
# Importing these takes seconds, so it is done once for all calls.
import accelerate, pandas, pyarrow.parquet, scipy.stats, torch, transformers
from transformers.models.bert import modeling_bert
torch.set_num_threads(1)
assert start == (random.getstate(), numpy.random.get_state()[1].tobytes())
TEXT = "what a good film indeed"
BASE = "bilstm_attention(embedding=4, hidden=3)"

def answer(texts):
    return [[0.3, 0.7] if "good" in text else [0.6, 0.4] for text in texts]

def examples():
    words = "good bad dull fine film plot story scene".split()
    texts = [f"a {words[i % 4]} {words[4 + i // 4 % 4]} {words[i % 7]} number {i}" for i in range(60)]
    return [troth.Example(str(i), text, label=i % 2) for i, text in enumerate(texts)]

def splits():
    from troth.data import Data
    return {name: Data("films", examples()) for name in ("train", "validation", "test")}

def fit_settings():
    from troth.verbs.fit import settings_of
    return settings_of(examples=8, validation=2, epochs=1, trials=2, trial_examples=6, trial_epochs=1)

def language_model():
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = "[UNK] what a good dull film story .".split()
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", bos_token="[UNK]")
    with torch.random.fork_rng():
        config = transformers.GPT2Config(vocab_size=len(words), n_embd=8, n_layer=1, n_head=1)
        return transformers.GPT2LMHeadModel(config).eval(), fast

def cite(model, tokenizer):
    troth.cite(model, "what film", ["a good film", "a dull story"], "good film", tokenizer=tokenizer)

def nothing_matters(model, tokenizer, texts, target):
    return [[(word, 0.0) for word in text.split()] for text in texts]

def refused(call):
    try:
        call(None)
    except troth.TrothError:
        pass

def states():
    numbers = numpy.random.get_state()
    return {
        "random": random.getstate(), "numpy": (numbers[1].tobytes(), numbers[2:]),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }

calls = json.loads(sys.argv[1])
for name, call in calls.items():
    sys.stdout.flush()
    if os.fork() == 0:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            before = states()
            error = None
            with contextlib.redirect_stdout(sys.stderr):
                try:
                    import troth
                    eval(call)
                except BaseException as raised:
                    error = repr(raised)
            after = states()
        changed = [kind for kind in before if after[kind] != before[kind]]
        print(json.dumps([name, changed, error]), flush=True)
        os._exit(0)
    os.wait()
"""


@cache
def outcomes(are_slow):
    """What each call changed, and the error it raised."""
    calls = {name: call for name, call in CALLS.items() if (name in SLOW) == are_slow}
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(calls)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return {name: (changed, error) for name, changed, error in map(json.loads, printed.splitlines())}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name in SLOW)) for name in troth.__all__]
)
def test_the_first_call_leaves_the_random_state_alone(name):
    assert outcomes(name in SLOW)[name] == ([], None)
