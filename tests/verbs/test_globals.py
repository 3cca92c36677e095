"""What belongs to the caller is after every public call as it was before: generators, threads, switches, libraries."""

import copy
import importlib
import logging
import random
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
import transformers

import fakes
import troth
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.studies.roar.once import roar
from troth.training.train import train
from troth.validity.checking import check
from troth.verbs.fit import fit
from troth.verbs.fit import settings_of as fit_settings

TEXTS = [*fakes.CORPUS, *(" ".join(line.split()[::-1]) for line in fakes.CORPUS)]
DATA = [Example(str(number), text, label=number % 2) for number, text in enumerate(TEXTS)]
SCRATCH = "scratch(layers=1, hidden=8, heads=2, positions=32)"
TRAINING = {"epochs": 1, "batch_size": 8, "precision": "no", "metric": "accuracy"}


@pytest.fixture
def caller():
    """A caller with a mind of their own: everything is set to what nobody sets by default."""
    with suppress(ImportError):
        importlib.import_module("optuna.logging").get_verbosity()  # sets its logger's level when first used
    threads, flags = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    random.seed(123)
    np.random.seed(123)
    torch.manual_seed(123)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True, warn_only=True)
    transformers.logging.enable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a filter of the caller's own")
        yield
    torch.use_deterministic_algorithms(flags)
    torch.set_num_threads(threads)


def owned():
    """Everything of the caller's that a library could touch, by name."""
    numbers = np.random.get_state()
    loggers = ["", "transformers", "huggingface_hub", "datasets", "accelerate", "torch", "optuna", "troth"]
    return {
        "random": random.getstate(),
        "numpy": (numbers[0], numbers[1].tobytes(), *numbers[2:]),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "dtype": torch.get_default_dtype(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
            torch.get_float32_matmul_precision(),
        ),
        "gradients": torch.is_grad_enabled(),
        "logging": [(name, logging.getLogger(name).level) for name in loggers],
        "transformers": (transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()),
        "filters": list(warnings.filters),
        "numpy errors": np.geterr(),
    }


def changed(before):
    now = owned()
    return [name for name in before if now[name] != before[name]]


def settings_of(tokenizer):
    backend = tokenizer.backend_tokenizer
    return copy.deepcopy(
        (backend.truncation, backend.padding, tokenizer.padding_side, tokenizer.truncation_side,
         tokenizer.model_max_length)
    )  # fmt: skip


@pytest.fixture(scope="module")
def model():
    tokenizer = fakes.wordpiece()
    tokenizer.backend_tokenizer.enable_truncation(7)
    tokenizer.backend_tokenizer.enable_padding(length=20)
    network = fakes.hf_model(classes=2)
    return Encoder(network.train(), tokenizer, name="tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("model")
    model.model.save_pretrained(path)
    fakes.wordpiece().save_pretrained(path)
    return path


def explain(model, **options):
    for explainer in ("random", "gradient", "attention", "lime(samples=20)", "kernel_shap(samples=20)"):
        troth.explain(model, TEXTS[:2], explainer, **options)


def measure(model):
    attributions = troth.explain(model, DATA[:2], "leave_one_out")
    for metric in ("comprehensiveness", "soft_comprehensiveness", "recursive_erasure(step=0.5)"):
        troth.measure(model, attributions, metric)


def test_explaining_and_measuring(caller, model):
    before, tokens = owned(), settings_of(model.tokenizer)
    explain(model)
    explain(model, masking="soft", units="token")
    assert changed(before) == []
    measure(model)
    assert changed(before) == []
    assert settings_of(model.tokenizer) == tokens


def test_bench_and_check(caller, model, tmp_path):
    before, tokens = owned(), settings_of(model.tokenizer)
    troth.bench(model, DATA, ["random", "lime(samples=20)"], ["comprehensiveness"], tmp_path / "run")
    assert changed(before) == []
    check(model, troth.load_data(_file(tmp_path, times=5)), step=0.5)
    assert changed(before) == []
    assert settings_of(model.tokenizer) == tokens


def test_a_failing_cell_leaves_the_callers_state_alone(caller, tmp_path):
    before = owned()
    with pytest.raises(troth.TrothError, match="no answer today"):
        troth.bench(_breaks, DATA, ["leave_one_out"], ["sparsity"], tmp_path / "run")
    assert changed(before) == []


def _breaks(texts):
    if texts != [""]:  # what it is asked to count its classes
        np.random.seed(7)
        raise ValueError("no answer today")
    return [[0.5, 0.5]]


def test_loading(caller, model, folder, tmp_path):
    before = owned()
    troth.load_model(str(folder))
    troth.load_model("embedded")
    troth.load_model(model.model, tokenizer=model.tokenizer)
    troth.load_data(_file(tmp_path))
    troth.load_data("reviews")
    assert changed(before) == []


def test_training(caller, tmp_path, folder):
    before = owned()
    for number, base in enumerate((SCRATCH, "bilstm_attention(embedding=4, hidden=3)", str(folder))):
        train("masked", DATA, base, tmp_path / str(number), validation=DATA[:6], cpu=True, **TRAINING)
        assert changed(before) == [], base


def test_fitting_and_benchmarks_that_retrain(caller, model, tmp_path):
    before = owned()
    settings = fit_settings(examples=8, validation=2, epochs=1, trials=2, trial_examples=6, trial_epochs=1)
    fit(model, _file(tmp_path), tmp_path / "fitted", settings=settings)
    assert changed(before) == []
    splits = {"train": DATA, "validation": DATA[:6], "test": DATA[:6]}
    base = "bilstm_attention(embedding=4, hidden=3)"
    roar(splits, base, ["gradient"], tmp_path / "roar", seeds=(0,), step=0.5, **TRAINING)
    assert changed(before) == []


def _file(folder, times=1):
    path = folder / "data.csv"
    path.write_text("text,label\n" + "".join(f'"{example.text}",{example.label}\n' for example in DATA * times))
    return str(path)
