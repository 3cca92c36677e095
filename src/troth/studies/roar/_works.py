"""The works of a retraining benchmark: trains models on erased data, tells what is important to them."""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog
from troth.core.types import Encoding, Question
from troth.engine.looks import Ask
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.models._loading import without_bars
from troth.models.encoder import Encoder
from troth.store.cells import Cell, Output, canonical
from troth.store.specs import ModelSpec
from troth.store.tables import table_to_examples
from troth.studies.roar import _folders
from troth.studies.roar._plan import Training
from troth.studies.roar._steps import ALL, erase
from troth.sweep.context import Context
from troth.training import bases
from troth.training import settings as every_setting
from troth.training.corpus import Corpus, by_length
from troth.training.loop import Fitted, fit
from troth.training.settings import Settings
from troth.training.stacked import Copy, fit_stacked

SHARED = ("base", "settings", "labels", "max_length", "masking", "fingerprints", "absolute")  # of every training
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


@dataclass(frozen=True, eq=False)
class Read:
    """The examples of all splits as the models read them."""

    encodings: list[Encoding]
    sizes: NDArray[np.int64]  # tokens that may be erased
    corpora: tuple[Corpus, Corpus, Corpus]

    @property
    def ends(self) -> list[int]:
        return list(itertools.accumulate(map(len, self.corpora)))

    def erased(self, left: NDArray[np.bool_]) -> tuple[Corpus, ...]:
        """Train, validation and test with only so much left."""
        keeps = torch.split(torch.from_numpy(left.astype(np.float32)), self.sizes.tolist())
        starts = [0, *self.ends[:-1]]
        return tuple(
            corpus.erased(keeps[start:end]) for corpus, start, end in zip(self.corpora, starts, self.ends, strict=True)
        )


@without_bars()
def train(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """Trains what no cell has trained yet; one row a training, with its predictions on the test examples."""
    specs, common = cell.specs, shared(cell)
    wanted = [(_training(given), given) for given in specs["copies"]]
    names = [training.name(common) for training, _ in wanted]
    _folders.deal_out(context, cell)
    tested, classes = parents[2].num_rows, len(specs["labels"])
    missing = [
        number
        for number, (name, (training, given)) in enumerate(zip(names, wanted, strict=True))
        if not _folders.is_there(context, name, training, tested, classes, given["keep_model"])
    ]
    if missing:
        read = read_examples(cell, parents[:3], context)
        data = [_data(read, wanted[number], parents[3:]) for number in missing]
        models = [untrained(cell, parents[0], context, wanted[number][0].seed) for number in missing]
        seeds = [wanted[number][0].seed for number in missing]
        checkpoints = context.folder_path(f".{names[missing[0]]}.checkpoints")
        fitted = fit_all(models, data, seeds, settings_of(cell), checkpoints)
        with context.new_folder(cell) as folder:
            for number, model, (_, _, test), done in zip(missing, models, data, fitted, strict=True):
                training, given = wanted[number]
                found = {**training.specs(), **_outcome(model, test, done, settings_of(cell))}
                _folders.write(folder / names[number], found, model if given["keep_model"] else None)
        _folders.deal_out(context, cell)
        shutil.rmtree(checkpoints, ignore_errors=True)
    rows = [{"training": name, **_folders.result(context, name)} for name in names]
    kept = tuple(name for name, (_, given) in zip(names, wanted, strict=True) if given["keep_model"])
    return Output(pa.Table.from_pylist(rows, schema=RESULTS), folders=kept)


@without_bars()
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
    found = scores_of(method, prober, read, left if "erased" in specs else None, specs["seed"])
    if specs["absolute"]:
        found = np.abs(found)
    offsets = np.concatenate([[0], np.cumsum(read.sizes)]).astype(np.int32)
    columns = [
        pa.array([encoding.example.id for encoding in read.encodings]),
        pa.ListArray.from_arrays(offsets, pa.array(left)),
        pa.ListArray.from_arrays(offsets, pa.array(found.astype(np.float32))),
    ]
    table = pa.Table.from_arrays(columns, schema=IMPORTANCES)
    return Output(table, prober.cost.forward, prober.cost.backward)


def importance(table: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """(left, scores) of all tokens, texts one behind the other."""
    left, scores = (table.column(name).combine_chunks().flatten() for name in ("left", "scores"))
    return left.to_numpy(zero_copy_only=False), scores.to_numpy(zero_copy_only=False)


def shared(cell: Cell) -> dict[str, Any]:
    """What names every training of a benchmark, of any of its cells."""
    return {name: cell.specs[name] for name in SHARED}


def read_examples(cell: Cell, tables: Sequence[pa.Table], context: Context, training: pa.Table | None = None) -> Read:
    """The splits as the base's tokenizer reads them, kept between cells; `training` where they are only some of it."""

    def make() -> Read:
        model = untrained(cell, tables[0] if training is None else training, context, 0)
        sets = [table_to_examples(table) for table in tables]
        encodings = [model.encode(examples, units="token") for examples in sets]
        first, second, third = (
            Corpus(own, [int(example.label or 0) for example in examples], masking=cell.specs["masking"])
            for own, examples in zip(encodings, sets, strict=True)
        )
        joined = [encoding for part in encodings for encoding in part]
        sizes = np.array([encoding.n_units for encoding in joined], np.int64)
        return Read(joined, sizes, (first, second, third))

    return context.once(("read", canonical(shared(cell)), sum(table.num_rows for table in tables)), make)


def untrained(cell: Cell, training: pa.Table, context: Context, seed: int) -> Encoder:
    """A model as it is before training; building it is done once for each seed, then it is copied."""

    def make() -> Encoder:
        base = bases.build(cell.specs["base"])
        return base.build(table_to_examples(training), tuple(cell.specs["labels"]), seed, cell.specs["max_length"])

    start = context.once(("untrained", canonical(shared(cell)), seed), make)
    fresh = copy.deepcopy(start.model)
    return Encoder(fresh, start.tokenizer, name=start.name, max_length=start.max_length, labels=start.labels)


def fit_all(
    models: Sequence[Encoder],
    data: Sequence[tuple[Corpus, ...]],
    seeds: Sequence[int],
    settings: Settings,
    checkpoints: Path | None = None,
) -> list[Fitted]:
    """Side by side where there are several; one alone may be gone on with from its checkpoints."""
    if len(models) == 1:
        alone = replace(settings, seed=seeds[0])
        return [fit(models[0], "plain", data[0][0], data[0][1], alone, folder=checkpoints)]
    together = zip(models, data, seeds, strict=True)
    copies = [Copy(model, corpora[0], corpora[1], seed) for model, corpora, seed in together]
    return fit_stacked(copies, "plain", settings)


@torch.no_grad()
def predict(model: Encoder, corpus: Corpus, rows: int = 512) -> Tensor:
    """[examples] the class of each."""
    corpus = copy.copy(corpus).to(model.device)
    predicted = torch.zeros(len(corpus), dtype=torch.int64)
    keys = torch.zeros(len(corpus), dtype=torch.int64)
    for index in by_length(corpus.lengths, rows):
        predicted[index] = model.forward(corpus.rows(index, keys[index], model)).logits.argmax(-1).cpu()
    return predicted


def _outcome(model: Encoder, test: Corpus, fitted: Fitted, settings: Settings) -> dict[str, Any]:
    (validation,) = fitted.scores["validation"].values()
    return {
        "predicted": predict(model, test, 16 * settings.batch_size).tolist(),
        "validation": validation[settings.metric],
        "best_epoch": fitted.best_epoch,
        "seconds": fitted.seconds,
    }


def scores_of(
    method: Explainer, prober: Prober, read: Read, left: NDArray[np.bool_] | None, seed: int
) -> NDArray[np.float32]:
    """What a method says of every token, texts one behind the other; None: nothing has been erased yet."""
    bases_left: Iterator[Tensor | None] = itertools.repeat(None)
    if left is not None:
        bases_left = iter(torch.split(torch.from_numpy(left.astype(np.float32)), read.sizes.tolist()))
    gone = None if left is None else prober.masking
    asks = (
        _scores(method, Question(one, int(one.example.label or 0), base=base, erased_by=gone, seed=seed))
        for one, base in zip(read.encodings, bases_left, strict=False)
    )
    return np.concatenate([np.zeros(0, np.float32), *prober.run(asks)])


def _scores(method: Explainer, question: Question) -> Ask[NDArray[np.float32]]:
    if question.n_units == 0:
        return np.zeros(0, np.float32)
    attribution = yield from method.ask(question)
    return attribution.scores


def _data(
    read: Read, wanted: tuple[Training, Mapping[str, Any]], importances: Sequence[pa.Table]
) -> tuple[Corpus, ...]:
    training, given = wanted
    if not training.trail:
        return tuple(copy.copy(corpus) for corpus in read.corpora)
    if given["importance"] < 0:
        assert training.trail == (ALL,)
        return read.erased(np.zeros(int(read.sizes.sum()), bool))
    left, scores = importance(importances[given["importance"]])
    return read.erased(erase(scores, left, read.sizes, training.counted, training.trail[-1]))


def _training(given: Mapping[str, Any]) -> Training:
    return Training(given["seed"], given["by"], tuple(given["trail"]), given["counted"])


def settings_of(cell: Cell) -> Settings:
    return every_setting.settings(**cell.specs["settings"])


def _loaded(cell: Cell) -> ModelSpec:
    longest = cell.specs["max_length"]
    return ModelSpec(model=cell.specs["model"], model_options=None if longest is None else {"max_length": longest})
