"""Copies of one model, trained side by side on data from which tokens are erased (ROAR).

A training is identified by its base, settings, data, seed and what was erased by which method, not by the cell that did
it: one cell may do many trainings, and a training that any cell of the run has done is never repeated. `files/NAME` has
its result and, if needed, its model. All folders of a cell appear at once and are then moved to their places, so that a
cell that was killed did either nothing or everything.
"""

import copy
import itertools
import json
import math
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding
from troth.models._loading import quiet
from troth.models.encoder import Encoder
from troth.store import compaction, records
from troth.store.cells import Cell, CellOutput, canonical
from troth.store.records import DamagedError
from troth.store.tables import table_to_examples
from troth.sweep.context import Context
from troth.training import bases
from troth.training import settings as every_setting
from troth.training.checkpoints import weights_of
from troth.training.corpus import Corpus, by_length
from troth.training.fit import fit, fit_stacked
from troth.training.loop import TrainingCopy, TrainingResult
from troth.training.settings import Settings

Counted = Literal["share", "tokens"]
ALL = 10_000  # basis points
# Fields that identify every training.
_SHARED = ("base", "settings", "labels", "max_length", "masking", "fingerprints", "absolute")
_RESULTS = pa.schema(
    {
        "training": pa.string(),  # the folder in files/
        "seed": pa.int32(),
        "by": pa.string(),
        "trail": pa.list_(pa.int32()),
        "counted": pa.string(),
        "predicted": pa.list_(pa.int32()),  # the class predicted for every test example
        "validation": pa.float64(),
        "best_epoch": pa.int32(),
        "seconds": pa.float64(),
    }
)
_NAME = "result.json"


@dataclass(frozen=True)
class Training:
    """One training: the seed and what was erased. `trail` has the total amounts, before each of which tokens were
    explained again.
    """

    seed: int
    by: str = ""  # the explainer with every option; empty at 0 and 100 %, where nothing is chosen
    trail: tuple[int, ...] = ()
    counted: Counted = "share"

    def name(self, common: Mapping[str, Any]) -> str:
        """The name of its folder in the run, which does not depend on the other trainings of its cell."""
        return Cell("model", {**common, **self.specs()}).name

    def specs(self) -> dict[str, Any]:
        return {**asdict(self), "trail": list(self.trail)}


@dataclass(frozen=True)
class ResultFile:
    """files/NAME/result.json: the identity of a training and its result."""

    seed: int
    by: str
    trail: Sequence[int]
    counted: str
    predicted: Sequence[int]
    validation: float | None  # None: undefined
    best_epoch: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Splits:
    """The examples of all splits, as the models read them."""

    encodings: list[Encoding]
    sizes: NDArray[np.int64]  # the number of tokens that may be erased
    corpora: tuple[Corpus, Corpus, Corpus]

    def erased(self, left: NDArray[np.bool_]) -> tuple[Corpus, ...]:
        """Train, validation and test with only the given tokens kept."""
        keeps = torch.split(torch.from_numpy(left.astype(np.float32)), self.sizes.tolist())
        ends = list(itertools.accumulate(map(len, self.corpora)))
        pairs = zip(self.corpora, [0, *ends], ends, strict=False)
        return tuple(corpus.erased(keeps[start:end]) for corpus, start, end in pairs)


def erase(
    scores: NDArray[np.float32],
    left: NDArray[np.bool_],
    sizes: Sequence[int] | NDArray[np.int64],
    counted: str,
    amount: int,
) -> NDArray[np.bool_]:
    """What is left of each text's tokens once this much of it is erased in all; one text after the other.

    Tokens that are erased already come first, then the highest scores, of equal ones the earlier.

    >>> erase(np.float32([1, 3, 3, 2]), np.array([False, True, True, True]), [4], "tokens", 2).tolist()
    [False, False, True, True]
    """  # fmt: skip
    n = np.asarray(sizes, np.int64)
    count = n * amount // ALL if counted == "share" else np.minimum(n, amount)
    text = np.repeat(np.arange(len(n)), n)
    order = np.lexsort((-scores, left, text))  # stable: of equal ones the earlier
    rank = np.empty(len(text), np.int64)
    rank[order] = np.arange(len(text)) - np.repeat(n.cumsum() - n, n)
    return left & (rank >= count[text])


def importance(table: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """(left, scores) of all tokens of an importance cell, concatenated over texts."""
    left, scores = (table.column(name).combine_chunks().flatten() for name in ("left", "scores"))
    return left.to_numpy(zero_copy_only=False), scores.to_numpy(zero_copy_only=False)


@quiet()
def train_copies(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Trains what no cell has trained yet; returns one row per training, with its predictions on the test examples."""
    specs, settings = cell.specs, settings_of(cell)
    copies = [
        (Training(each["seed"], each["by"], tuple(each["trail"]), each["counted"]), each) for each in specs["copies"]
    ]
    names = [training.name(_shared(cell)) for training, _ in copies]
    _distribute(context, cell)
    tested, classes = parents[2].num_rows, len(specs["labels"])
    missing = [
        (name, training, about)
        for name, (training, about) in zip(names, copies, strict=True)
        if not _is_done(context, name, training, tested, classes, about["keep_model"])
    ]
    if missing:
        splits = read_examples(cell, parents[:3], context)
        data = [_data(splits, training, about, parents[3:]) for _, training, about in missing]
        seeds = [training.seed for _, training, _ in missing]
        models = [untrained(cell, parents[0], context, seed) for seed in seeds]
        checkpoints = context.folder_path(f".{missing[0][0]}.checkpoints")
        fitted = fit_all(models, data, seeds, settings, checkpoints)
        with context.new_folder(cell) as folder:
            for (name, training, about), model, (_, _, test), outcome in zip(
                missing, models, data, fitted, strict=True
            ):
                _write(folder / name, training, model, test, outcome, settings, about["keep_model"])
        _distribute(context, cell)
        shutil.rmtree(checkpoints, ignore_errors=True)
    rows = [{"training": name, **_result(context, name)} for name in names]
    folders = tuple(name for name, (_, about) in zip(names, copies, strict=True) if about["keep_model"])
    return CellOutput(pa.Table.from_pylist(rows, schema=_RESULTS), folders=folders)


def _shared(cell: Cell) -> dict[str, Any]:
    """The fields that identify every training of a benchmark, from any of its cells."""
    return {name: cell.specs[name] for name in _SHARED}


def settings_of(cell: Cell) -> Settings:
    return every_setting.settings(**cell.specs["settings"])


def read_examples(cell: Cell, tables: Sequence[pa.Table], context: Context, training: pa.Table | None = None) -> Splits:
    """The splits as the base's tokenizer reads them, kept between cells; `training` if only part of them is used."""

    def read() -> Splits:
        model = untrained(cell, tables[0] if training is None else training, context, 0)
        sets = [table_to_examples(table) for table in tables]
        encodings = [model.encode(examples, units="token") for examples in sets]
        first, second, third = (
            Corpus(own, [example.class_index or 0 for example in examples], masking=cell.specs["masking"])
            for own, examples in zip(encodings, sets, strict=True)
        )
        joined = [encoding for part in encodings for encoding in part]
        sizes = np.array([encoding.n_units for encoding in joined], np.int64)
        return Splits(joined, sizes, (first, second, third))

    return context.once(("read", canonical(_shared(cell)), sum(table.num_rows for table in tables)), read)


def untrained(cell: Cell, training: pa.Table, context: Context, seed: int) -> Encoder:
    """A model before training; it is built once per seed and then copied."""

    def build() -> Encoder:
        base = bases.build(cell.specs["base"])
        return base.build(table_to_examples(training), tuple(cell.specs["labels"]), seed, cell.specs["max_length"])

    start = context.once(("untrained", canonical(_shared(cell)), seed), build)
    model = copy.deepcopy(start.model)
    return Encoder(model, start.tokenizer, name=start.name, max_length=start.max_length, labels=start.labels)


def fit_all(
    models: Sequence[Encoder],
    data: Sequence[tuple[Corpus, ...]],
    seeds: Sequence[int],
    settings: Settings,
    checkpoints: Path | None = None,
) -> list[TrainingResult]:
    """Trains several models side by side; a single training resumes from its checkpoints."""
    if len(models) == 1:
        alone = replace(settings, seed=seeds[0])
        return [fit(models[0], "plain", data[0][0], data[0][1], alone, folder=checkpoints)]
    together = zip(models, data, seeds, strict=True)
    copies = [TrainingCopy(model, corpora[0], corpora[1], seed) for model, corpora, seed in together]
    return fit_stacked(copies, "plain", settings)


def _data(
    splits: Splits, training: Training, about: Mapping[str, Any], importances: Sequence[pa.Table]
) -> tuple[Corpus, ...]:
    if not training.trail:
        return tuple(copy.copy(corpus) for corpus in splits.corpora)
    if about["importance"] < 0:
        assert training.trail == (ALL,)
        return splits.erased(np.zeros(int(splits.sizes.sum()), bool))
    left, scores = importance(importances[about["importance"]])
    return splits.erased(erase(scores, left, splits.sizes, training.counted, training.trail[-1]))


@torch.no_grad()
def _predict(model: Encoder, corpus: Corpus, rows: int) -> Tensor:
    """[examples] the predicted classes."""
    corpus = copy.copy(corpus).to(model.device)
    predicted = torch.zeros(len(corpus), dtype=torch.int64)
    keys = torch.zeros(len(corpus), dtype=torch.int64)
    for index in by_length(corpus.lengths, rows):
        predicted[index] = model.forward(corpus.rows(index, keys[index], model)).logits.argmax(-1).cpu()
    return predicted


def _is_done(context: Context, name: str, training: Training, tested: int, classes: int, with_model: bool) -> bool:
    """Whether a training is finished, with its model if that is needed; a damaged one is reported and set aside."""
    folder = context.folder_path(name)
    try:
        stored = _result(context, name)
        if any(stored[key] != value for key, value in training.specs().items()):
            raise DamagedError(folder / _NAME, "it is about another training")
        if len(stored["predicted"]) != tested or not all(0 <= label < classes for label in stored["predicted"]):
            raise DamagedError(folder / _NAME, "its predictions are not those of the test examples")
    except FileNotFoundError:
        return False
    except DamagedError as damage:
        warnings.warn(f"{damage.path} is damaged ({damage.why}): set aside, the training is done again", stacklevel=2)
        compaction.set_aside(context.store, folder)
        return False
    return not with_model or ((folder / "config.json").is_file() and any(folder.glob("*.safetensors")))


def _result(context: Context, name: str) -> dict[str, Any]:
    """The result of a training; raises an error if its file differs from what was written."""
    return records.read(context.folder_path(name) / _NAME, ResultFile)


def _write(
    folder: Path,
    training: Training,
    model: Encoder,
    test: Corpus,
    fitted: TrainingResult,
    settings: Settings,
    with_model: bool,
) -> None:
    """Writes a training's folder: its result, and its model if that is needed."""
    folder.mkdir()
    predicted = _predict(model, test, 16 * settings.batch_size).tolist()
    if with_model:
        model.model.save_pretrained(folder, state_dict=weights_of(model.model))
        model.tokenizer.save_pretrained(folder)
    (scores,) = fitted.scores["validation"].values()
    validation = scores[settings.metric] if math.isfinite(scores[settings.metric]) else None  # JSON has no NaN
    found = {"validation": validation, "best_epoch": fitted.best_epoch, "seconds": fitted.seconds}
    (folder / _NAME).write_text(json.dumps({**training.specs(), "predicted": predicted, **found}))


def _distribute(context: Context, cell: Cell) -> None:
    """Moves every training of a finished cell to its own place; after a kill, those that are still missing."""
    whole = context.folder_path(cell.name)
    if not whole.is_dir():
        return
    for part in sorted(whole.iterdir()):
        place = context.folder_path(part.name)
        if place.exists():  # written without its model, which was not needed then
            shutil.rmtree(place)
        part.rename(place)
    whole.rmdir()
