"""The importance of every token to a trained model, and estimates of how long trainings and importances take."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog
from troth.core.types import Question
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models._loading import quiet
from troth.store.cells import Cell, CellOutput
from troth.store.specs import ModelSpec, Spec
from troth.studies._copies import Counted, Splits, erase, fit_all, importance, read_examples, settings_of, untrained
from troth.sweep.context import Context
from troth.verbs.explain import batches_by_cost

PROBES = {
    "training": "troth.studies.roar._importance:seconds_of_training",
    "importance": "troth.studies.roar._importance:seconds_of_importance",
}
_COLUMNS = pa.schema(
    {
        "example_id": pa.string(),  # train, validation and test, in this order
        "left": pa.list_(pa.bool_()),  # before this step
        "scores": pa.list_(pa.float32()),
    }
)
_WINDOW = 2048  # examples at a time; most explainers ask one row of each
_BATCHES = 4  # batches of a trial training
_EXAMPLES = 64  # examples of a trial explanation


@dataclass(frozen=True, kw_only=True)
class ImportanceSpec(Spec):
    """The importance of every token to a model; random importances have no `model`."""

    kind = "importance"
    runner = "troth.studies.roar._importance:explain"

    base: str
    settings: Mapping[str, Any]
    labels: Sequence[str]
    max_length: int | None
    masking: str
    fingerprints: Mapping[str, str]
    absolute: bool
    data: str
    examples: int
    explainer: str
    explainer_full: str
    seed: int
    model: str | None = None
    counted: Counted | None = None  # how `erased` is counted
    erased: int | None = None  # before this


@quiet()
def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The importance of every token that may be erased, for the gold class's logit, given the remaining tokens."""
    spec = ImportanceSpec.of(cell)
    splits = read_examples(cell, parents[:3], context)
    left = np.ones(int(splits.sizes.sum()), bool)
    if spec.erased is not None:
        before, scores = importance(parents[-1])
        left = erase(scores, before, splits.sizes, str(spec.counted), spec.erased)
    if spec.model is None:
        model: Any = untrained(cell, parents[0], context, spec.seed)
    else:
        options = None if spec.max_length is None else {"max_length": spec.max_length}
        model = context.model(ModelSpec(model=spec.model, model_options=options))
    prober = Prober(model, spec.masking, window=_WINDOW)
    method: Explainer = catalog.build("explainers", spec.explainer_full)
    method = method.prepare(prober, splits.encodings[: len(splits.corpora[0])])
    scores = scores_of(method, prober, splits, None if spec.erased is None else left, spec.seed)
    if spec.absolute:
        scores = np.abs(scores)
    offsets = np.concatenate([[0], np.cumsum(splits.sizes)]).astype(np.int32)
    columns = [
        pa.array([encoding.example.id for encoding in splits.encodings]),
        pa.ListArray.from_arrays(offsets, pa.array(left)),
        pa.ListArray.from_arrays(offsets, pa.array(scores.astype(np.float32))),
    ]
    table = pa.Table.from_arrays(columns, schema=_COLUMNS)
    return CellOutput(table, prober.cost.forward, prober.cost.backward)


def scores_of(
    method: Explainer, prober: Prober, splits: Splits, left: NDArray[np.bool_] | None, seed: int
) -> NDArray[np.float32]:
    """A method's score of every token, concatenated over texts; `left` None: nothing has been erased yet."""
    questions = _questions(splits, left, prober.masking, seed)
    batches = batches_by_cost(questions, lambda question: question.n_units, method, prober)
    asked = prober.run(map(method.ask, batches), method.batch_size or prober.texts_at_once)
    found = itertools.chain.from_iterable(asked)
    return np.concatenate([np.zeros(0, np.float32), *(attribution.scores for attribution in found)])


def _questions(splits: Splits, left: NDArray[np.bool_] | None, masking: Masking, seed: int) -> Iterator[Question]:
    """Questions about the gold class given the remaining tokens; none about a text without tokens."""
    keeps: Iterator[Tensor | None] = itertools.repeat(None)
    if left is not None:
        keeps = iter(torch.split(torch.from_numpy(left.astype(np.float32)), splits.sizes.tolist()))
    before = None if left is None else masking
    for encoding, keep in zip(splits.encodings, keeps, strict=False):
        if encoding.n_units:
            yield Question(encoding, encoding.example.class_index or 0, base=keep, erased_by=before, seed=seed)


def seconds_of_training(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Extrapolates the seconds of a training from a few steps and the same share of the validation examples."""
    settings = settings_of(cell)
    parts = [tables[parent] for parent in cell.parents[:3]]
    size = min(parts[0].num_rows, _BATCHES * settings.batch_size)
    share = size / parts[0].num_rows
    few = [part.slice(0, max(2, math.ceil(part.num_rows * share))) for part in parts]
    splits = read_examples(cell, few, context, parts[0])
    seeds = [int(of_copy["seed"]) for of_copy in cell.specs["copies"]]
    everything = np.ones(int(splits.sizes.sum()), bool)
    seconds = 0.0
    for _ in range(2):  # the first run is a warm-up
        models = [untrained(cell, parts[0], context, seed) for seed in seeds]
        data = [splits.erased(everything) for _ in seeds]
        begun = time.perf_counter()
        fit_all(models, data, seeds, replace(settings, epochs=1))
        seconds = time.perf_counter() - begun
    return float(seconds / share * settings.epochs)


def seconds_of_importance(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Extrapolates the seconds for all examples from a few on the untrained model."""
    parts = [tables[parent] for parent in cell.parents[:3]]
    few = [part.slice(0, _EXAMPLES if place == 0 else 1) for place, part in enumerate(parts)]
    splits = read_examples(cell, few, context, parts[0])
    prober = Prober(untrained(cell, parts[0], context, 0), cell.specs["masking"])
    method: Explainer = catalog.build("explainers", cell.specs["explainer_full"])
    method = method.prepare(prober, splits.encodings)
    begun = time.perf_counter()
    scores_of(method, prober, splits, None, 0)
    return (time.perf_counter() - begun) / len(splits.encodings) * int(cell.specs["examples"])
