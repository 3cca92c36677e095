"""The examples and models of a benchmark's cells: read, built, fitted and explained, many side by side."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding, Question
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models.encoder import Encoder
from troth.store.cells import Cell, canonical
from troth.store.tables import table_to_examples
from troth.sweep.context import Context
from troth.training import bases
from troth.training import settings as every_setting
from troth.training.corpus import Corpus
from troth.training.loop import TrainingCopy, TrainingResult
from troth.training.settings import Settings
from troth.training.single import fit
from troth.training.stacked import fit_stacked
from troth.verbs.explain import batches_by_cost

SHARED = ("base", "settings", "labels", "max_length", "masking", "fingerprints", "absolute")  # of every training


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
        """Train, validation and test with only this much left."""
        keeps = torch.split(torch.from_numpy(left.astype(np.float32)), self.sizes.tolist())
        starts = [0, *self.ends[:-1]]
        return tuple(
            corpus.erased(keeps[start:end]) for corpus, start, end in zip(self.corpora, starts, self.ends, strict=True)
        )


def shared(cell: Cell) -> dict[str, Any]:
    """What names every training of a benchmark, from any of its cells."""
    return {name: cell.specs[name] for name in SHARED}


def settings_of(cell: Cell) -> Settings:
    return every_setting.settings(**cell.specs["settings"])


def read_examples(cell: Cell, tables: Sequence[pa.Table], context: Context, training: pa.Table | None = None) -> Read:
    """The splits as the base's tokenizer reads them, kept between cells; `training` where they are only some of it."""

    def read() -> Read:
        model = untrained(cell, tables[0] if training is None else training, context, 0)
        sets = [table_to_examples(table) for table in tables]
        encodings = [model.encode(examples, units="token") for examples in sets]
        first, second, third = (
            Corpus(own, [example.class_index or 0 for example in examples], masking=cell.specs["masking"])
            for own, examples in zip(encodings, sets, strict=True)
        )
        joined = [encoding for part in encodings for encoding in part]
        sizes = np.array([encoding.n_units for encoding in joined], np.int64)
        return Read(joined, sizes, (first, second, third))

    return context.once(("read", canonical(shared(cell)), sum(table.num_rows for table in tables)), read)


def untrained(cell: Cell, training: pa.Table, context: Context, seed: int) -> Encoder:
    """A model as it is before training; it is built once per seed, then copied."""

    def build() -> Encoder:
        base = bases.build(cell.specs["base"])
        return base.build(table_to_examples(training), tuple(cell.specs["labels"]), seed, cell.specs["max_length"])

    start = context.once(("untrained", canonical(shared(cell)), seed), build)
    model = copy.deepcopy(start.model)
    return Encoder(model, start.tokenizer, name=start.name, max_length=start.max_length, labels=start.labels)


def fit_all(
    models: Sequence[Encoder],
    data: Sequence[tuple[Corpus, ...]],
    seeds: Sequence[int],
    settings: Settings,
    checkpoints: Path | None = None,
) -> list[TrainingResult]:
    """Side by side where there are several; a single training resumes from its checkpoints."""
    if len(models) == 1:
        alone = replace(settings, seed=seeds[0])
        return [fit(models[0], "plain", data[0][0], data[0][1], alone, folder=checkpoints)]
    together = zip(models, data, seeds, strict=True)
    copies = [TrainingCopy(model, corpora[0], corpora[1], seed) for model, corpora, seed in together]
    return fit_stacked(copies, "plain", settings)


def scores_of(
    method: Explainer, prober: Prober, read: Read, left: NDArray[np.bool_] | None, seed: int
) -> NDArray[np.float32]:
    """A method's score of every token, one text after the other; `left` None: nothing has been erased yet."""
    questions = _questions(read, left, prober.masking, seed)
    batches = batches_by_cost(questions, lambda question: question.n_units, method, prober)
    asked = prober.run(map(method.ask, batches), method.batch_size or prober.texts_at_once)
    found = itertools.chain.from_iterable(asked)
    return np.concatenate([np.zeros(0, np.float32), *(attribution.scores for attribution in found)])


def _questions(read: Read, left: NDArray[np.bool_] | None, masking: Masking, seed: int) -> Iterator[Question]:
    """About the gold class, given what is left; none about a text without tokens."""
    keeps: Iterator[Tensor | None] = itertools.repeat(None)
    if left is not None:
        keeps = iter(torch.split(torch.from_numpy(left.astype(np.float32)), read.sizes.tolist()))
    before = None if left is None else masking
    for encoding, keep in zip(read.encodings, keeps, strict=False):
        if encoding.n_units:
            yield Question(encoding, encoding.example.class_index or 0, base=keep, erased_by=before, seed=seed)
