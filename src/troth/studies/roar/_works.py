"""The works of a retraining benchmark: trains models on erased data, scores what is important to them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.models._loading import quiet
from troth.models.encoder import Encoder
from troth.store.cells import Cell, Output
from troth.store.specs import ModelSpec
from troth.studies.roar import _folders
from troth.studies.roar._plan import Training
from troth.studies.roar._steps import ALL, erase
from troth.studies.roar._trainings import Read, fit_all, read_examples, scores_of, settings_of, shared, untrained
from troth.sweep.context import Context
from troth.training.corpus import Corpus, by_length
from troth.training.loop import TrainingResult
from troth.training.settings import Settings

RESULTS = pa.schema(
    {
        "training": pa.string(),  # the folder in files/
        "seed": pa.int32(),
        "by": pa.string(),
        "trail": pa.list_(pa.int32()),
        "counted": pa.string(),
        "predicted": pa.list_(pa.int32()),  # of every test example
        "validation": pa.float64(),
        "best_epoch": pa.int32(),
        "seconds": pa.float64(),
    }
)
IMPORTANCES = pa.schema(
    {
        "example_id": pa.string(),  # train, validation and test, in this order
        "left": pa.list_(pa.bool_()),  # before this step
        "scores": pa.list_(pa.float32()),
    }
)
_WINDOW = 2048  # examples under way: most explainers ask one row of each


@quiet()
def train(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """Trains what no cell has trained yet; one row per training, with its predictions on the test examples."""
    specs, common = cell.specs, shared(cell)
    copies = [(_training(of_copy), of_copy) for of_copy in specs["copies"]]
    names = [training.name(common) for training, _ in copies]
    _folders.distribute(context, cell)
    tested, classes = parents[2].num_rows, len(specs["labels"])
    missing = [
        number
        for number, (name, (training, of_copy)) in enumerate(zip(names, copies, strict=True))
        if not _folders.is_done(context, name, training, tested, classes, of_copy["keep_model"])
    ]
    if missing:
        read = read_examples(cell, parents[:3], context)
        data = [_data(read, *copies[number], parents[3:]) for number in missing]
        seeds = [copies[number][0].seed for number in missing]
        models = [untrained(cell, parents[0], context, seed) for seed in seeds]
        checkpoints = context.folder_path(f".{names[missing[0]]}.checkpoints")
        settings = settings_of(cell)
        fitted = fit_all(models, data, seeds, settings, checkpoints)
        with context.new_folder(cell) as folder:
            for number, model, (_, _, test), outcome in zip(missing, models, data, fitted, strict=True):
                training, of_copy = copies[number]
                result = {**training.specs(), **_result(model, test, outcome, settings)}
                _folders.write(folder / names[number], result, model if of_copy["keep_model"] else None)
        _folders.distribute(context, cell)
        shutil.rmtree(checkpoints, ignore_errors=True)
    rows = [{"training": name, **_folders.result(context, name)} for name in names]
    folders = tuple(name for name, (_, of_copy) in zip(names, copies, strict=True) if of_copy["keep_model"])
    return Output(pa.Table.from_pylist(rows, schema=RESULTS), folders=folders)


@quiet()
def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """The importance of every token that may be erased, for the gold class's logit, given what is left already."""
    specs = cell.specs
    read = read_examples(cell, parents[:3], context)
    left = np.ones(int(read.sizes.sum()), bool)
    if "erased" in specs:
        before, scores = importance(parents[-1])
        left = erase(scores, before, read.sizes, specs["counted"], specs["erased"])
    model = context.model(_loaded(cell)) if "model" in specs else untrained(cell, parents[0], context, specs["seed"])
    prober = Prober(model, specs["masking"], window=_WINDOW)
    method: Explainer = catalog.build("explainers", specs["explainer_full"])
    method = method.prepare(prober, read.encodings[: read.ends[0]])
    scores = scores_of(method, prober, read, left if "erased" in specs else None, specs["seed"])
    if specs["absolute"]:
        scores = np.abs(scores)
    offsets = np.concatenate([[0], np.cumsum(read.sizes)]).astype(np.int32)
    columns = [
        pa.array([encoding.example.id for encoding in read.encodings]),
        pa.ListArray.from_arrays(offsets, pa.array(left)),
        pa.ListArray.from_arrays(offsets, pa.array(scores.astype(np.float32))),
    ]
    table = pa.Table.from_arrays(columns, schema=IMPORTANCES)
    return Output(table, prober.cost.forward, prober.cost.backward)


def importance(table: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """(left, scores) of all tokens, one text after the other."""
    left, scores = (table.column(name).combine_chunks().flatten() for name in ("left", "scores"))
    return left.to_numpy(zero_copy_only=False), scores.to_numpy(zero_copy_only=False)


@torch.no_grad()
def predict(model: Encoder, corpus: Corpus, rows: int = 512) -> Tensor:
    """[examples] the class of each."""
    corpus = copy.copy(corpus).to(model.device)
    predicted = torch.zeros(len(corpus), dtype=torch.int64)
    keys = torch.zeros(len(corpus), dtype=torch.int64)
    for index in by_length(corpus.lengths, rows):
        predicted[index] = model.forward(corpus.rows(index, keys[index], model)).logits.argmax(-1).cpu()
    return predicted


def _result(model: Encoder, test: Corpus, fitted: TrainingResult, settings: Settings) -> dict[str, Any]:
    (validation,) = fitted.scores["validation"].values()
    return {
        "predicted": predict(model, test, 16 * settings.batch_size).tolist(),
        "validation": validation[settings.metric],
        "best_epoch": fitted.best_epoch,
        "seconds": fitted.seconds,
    }


def _data(
    read: Read, training: Training, of_copy: Mapping[str, Any], importances: Sequence[pa.Table]
) -> tuple[Corpus, ...]:
    if not training.trail:
        return tuple(copy.copy(corpus) for corpus in read.corpora)
    if of_copy["importance"] < 0:
        assert training.trail == (ALL,)
        return read.erased(np.zeros(int(read.sizes.sum()), bool))
    left, scores = importance(importances[of_copy["importance"]])
    return read.erased(erase(scores, left, read.sizes, training.counted, training.trail[-1]))


def _training(of_copy: Mapping[str, Any]) -> Training:
    return Training(of_copy["seed"], of_copy["by"], tuple(of_copy["trail"]), of_copy["counted"])


def _loaded(cell: Cell) -> ModelSpec:
    longest = cell.specs["max_length"]
    return ModelSpec(model=cell.specs["model"], model_options=None if longest is None else {"max_length": longest})
