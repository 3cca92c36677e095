import json
import os
import random
import shutil
import signal
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis.internal.conjecture import providers

from fakes import CORPUS, hf_model, tokenizer_for
from films import film

# Two cores thrash when each test spreads over both.
torch.set_num_threads(1)

# A busy machine must not fail a test, so neither profile has time limits. `fixed`, the default, tries the same examples
# every time; `explore` tries new ones and prints what reproduces a failure.
_PATIENT = {"deadline": None, "print_blob": True, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("fixed", derandomize=True, database=None, **_PATIENT)
hypothesis.settings.register_profile(
    "explore",
    derandomize=False,
    database=hypothesis.database.DirectoryBasedExampleDatabase(".hypothesis/examples"),
    max_examples=500,
    **_PATIENT,
)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
hypothesis.settings.load_profile(_PROFILE)
if _PROFILE == "fixed":
    # Hypothesis mixes in constants of the modules of this project that are loaded, which depends on the tests before.
    providers._get_local_constants = lambda: providers._local_constants

# Started in the background by a shell, a process ignores Ctrl-C, and so would all it starts; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _seed():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    """A fixture is built the same, whichever test needs it first."""
    _seed()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """What a test draws from the shared generators depends on no other test."""
    _seed()
    return (yield)


@pytest.fixture(autouse=True)
def quiet():
    import transformers

    transformers.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*scaled_dot_product.*")
        yield


@pytest.fixture
def troth(monkeypatch, capsys, tmp_path):
    """Calls the command line in this process, in an empty folder. -> exit code, standard output, standard error"""
    from troth import cli

    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["troth", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out, printed.err

    return call


@pytest.fixture
def films():
    def make(count, *, start=0, pair=False):
        return [film(number, pair=pair) for number in range(start, start + count)]

    return make


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """A folder with two saved models, a data file, and a plan that crosses them."""
    folder = tmp_path_factory.mktemp("workshop")
    for seed, name in enumerate(("first", "second")):
        hf_model(classes=2, seed=seed).save_pretrained(folder / name)
        tokenizer_for("bert").save_pretrained(folder / name)
    rows = [{"id": f"e{number}", "text": text, "label": number % 2} for number, text in enumerate(CORPUS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "plan.toml").write_text(
        """\
# A comment that says explainrs, which is no slip.
models = ["first", "second"]
data = ["data.jsonl"]
explainers = ["random", "leave_one_out", "integrated_gradients(steps=3)"]
metrics = ["comprehensiveness", "recursive_erasure(step=0.5)"]
seeds = [0, 1]
out = "results"
"""
    )
    return folder


@pytest.fixture
def in_workshop(workshop, tmp_path, monkeypatch):
    """The workshop in a fresh working folder."""
    shutil.copytree(workshop, tmp_path, dirs_exist_ok=True)  # a plan may not follow links out of its folder
    monkeypatch.chdir(tmp_path)
    return tmp_path
