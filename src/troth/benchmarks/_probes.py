"""How long a training or an importance would take: a few mini-batches of the real model, for a plan only looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from troth import catalog
from troth.benchmarks import _works
from troth.explainers import Explainer
from troth.probing import Prober
from troth.sweep.cells import Cell
from troth.sweep.context import Context

_BATCHES = 4
_EXAMPLES = 32


def train(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Seconds of all steps, from those of a few; evaluation comes on top as it does in them."""
    settings = _works._settings(cell)
    parts = [tables[parent] for parent in cell.parents[:3]]
    whole = parts[0].num_rows
    size = min(whole, _BATCHES * settings.batch_size)
    share = size / whole
    few = [part.slice(0, max(2, min(part.num_rows, math.ceil(part.num_rows * share)))) for part in parts]
    few[0] = parts[0].slice(0, size)
    small = Cell(cell.kind, {**cell.specs, "probe": size}, cell.parents)
    read = _works.read_examples(small, few, context)
    seeds = [given["seed"] for given in cell.specs["copies"]]
    once = replace(settings, epochs=1)
    seconds = 0.0
    for _ in range(2):  # the first warms up
        models = [_works.untrained(cell, parts[0], context, seed) for seed in seeds]
        begun = time.perf_counter()
        _works.fit_all(models, [read.erased(_everything(read)) for _ in seeds], seeds, once)
        seconds = time.perf_counter() - begun
    return seconds / share * settings.epochs


def explain(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Seconds for all examples, from those of a few on the untrained model."""
    parts = [tables[parent] for parent in cell.parents[:3]]
    few = [part.slice(0, _EXAMPLES if place == 0 else 1) for place, part in enumerate(parts)]
    read = _works.read_examples(cell, few, context)
    model = _works.untrained(cell, parts[0], context, 0)
    prober = Prober(model, cell.specs["masking"])
    method: Explainer = catalog.build("explainers", cell.specs["explainer_full"]).prepare(prober, read.encodings)
    keeps = _works.torch.split(_works.torch.ones(int(read.sizes.sum())), read.sizes.tolist())
    questions = list(_works._questions(read.encodings, keeps, None, 0))
    begun = time.perf_counter()
    list(prober.run(_works._scores(method, one) for one in questions))
    return (time.perf_counter() - begun) / len(questions) * int(cell.specs["examples"])


def _everything(read: _works.Read) -> _works.NDArray[_works.np.bool_]:
    return _works.np.ones(int(read.sizes.sum()), bool)
