"""How long a training or an importance would take: a few mini-batches of the real model, for a plan only looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from troth.core import catalog
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.store.cells import Cell
from troth.studies.roar._trainings import fit_all, read_examples, scores_of, settings_of, untrained
from troth.sweep.context import Context

_BATCHES = 4
_EXAMPLES = 64


def train(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Seconds of all steps, from those of a few on as large a share of the validation examples."""
    settings = settings_of(cell)
    parts = [tables[parent] for parent in cell.parents[:3]]
    size = min(parts[0].num_rows, _BATCHES * settings.batch_size)
    share = size / parts[0].num_rows
    few = [part.slice(0, max(2, math.ceil(part.num_rows * share))) for part in parts]
    read = read_examples(cell, few, context, parts[0])
    seeds = [int(of_copy["seed"]) for of_copy in cell.specs["copies"]]
    everything = np.ones(int(read.sizes.sum()), bool)
    seconds = 0.0
    for _ in range(2):  # the first warms up
        models = [untrained(cell, parts[0], context, seed) for seed in seeds]
        data = [read.erased(everything) for _ in seeds]
        begun = time.perf_counter()
        fit_all(models, data, seeds, replace(settings, epochs=1))
        seconds = time.perf_counter() - begun
    return float(seconds / share * settings.epochs)


def explain(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Seconds for all examples, from those of a few on the untrained model."""
    parts = [tables[parent] for parent in cell.parents[:3]]
    few = [part.slice(0, _EXAMPLES if place == 0 else 1) for place, part in enumerate(parts)]
    read = read_examples(cell, few, context, parts[0])
    prober = Prober(untrained(cell, parts[0], context, 0), cell.specs["masking"])
    method: Explainer = catalog.build("explainers", cell.specs["explainer_full"])
    method = method.prepare(prober, read.encodings)
    begun = time.perf_counter()
    scores_of(method, prober, read, None, 0)
    return (time.perf_counter() - begun) / len(read.encodings) * int(cell.specs["examples"])
