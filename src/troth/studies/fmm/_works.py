"""The runners of the FMM study besides training, explaining and measuring: the course of a training, in-distribution
tests of the erased inputs that were measured, and the areas between the curves.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, reading
from troth.core.types import Encoding, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.engine.routines import Routine
from troth.maskings import Masking
from troth.metrics import Metric
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.models import TextClassifier
from troth.store.cells import Cell, CellOutput
from troth.store.specs import MetricSpec, Spec
from troth.store.tables import table_to_examples, table_to_scores
from troth.sweep.context import Context
from troth.validity.checking import VARIANTS
from troth.validity.masf import HIDDEN_STATES, MaSF, largest, require_hidden_states
from troth.validity.references import MOST, References, form_of

# The references of the tests: whole texts, every second one masked, or all of them masked.
REFERENCES: dict[str, References] = {"whole": "whole", "half masked": "masked", "all masked": "all_masked"}
HISTORY = pa.schema({"epoch": pa.int32(), "inputs": pa.string(), "score": pa.float64(), "chosen": pa.bool_()})
CHECKS = pa.schema(
    {
        "references": pa.string(), "variant": pa.string(), "smallest": pa.float64(), "example_id": pa.string(),
        "p": pa.list_(pa.float64()),
    }
)  # fmt: skip
SUMMARY = pa.schema(
    {"value": pa.float64(), "low": pa.float64(), "high": pa.float64(), "count": pa.int32(), "undefined": pa.string(),
     "extra": pa.string()}
)  # fmt: skip
_EXAMPLES_AT_ONCE = 128


@dataclass(frozen=True, kw_only=True)
class HistorySpec(Spec):
    kind = "history"
    runner = "troth.studies.fmm._works:history"

    data: str
    training: str  # "cell:NAME"
    performance: str


@dataclass(frozen=True, kw_only=True)
class ErasedCheckSpec(MetricSpec):
    """The fields of the recursive_erasure whose erased inputs are checked."""

    kind = "erased_check"
    runner = "troth.studies.fmm._works:check"
    columns = CHECKS


@dataclass(frozen=True, kw_only=True)
class SummarySpec(Spec):
    kind = "summary"
    runner = "troth.studies.fmm._works:summarize"

    data: str
    explainer: str
    metric_full: str


def history(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The validation score after every epoch, on each set of inputs by which the epoch was selected; the parent is a
    training.
    """
    spec = HistorySpec.of(cell)
    folder = context.folder(spec.training.removeprefix("cell:"))
    report = reading.json_of(folder / "train.json")
    rows = [
        {
            "epoch": entry["epoch"], "inputs": inputs, "score": scores[spec.performance],
            "chosen": entry["epoch"] == report["best_epoch"],
        }
        for entry in report["history"]
        for inputs, scores in entry["validation"].items()
    ]  # fmt: skip
    return CellOutput(pa.Table.from_pylist(rows, schema=HISTORY))


def check(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """MaSF's p-values of the erased inputs that recursive_erasure measured, by references and variant.

    The parents are its scores and their texts, then validation, the whole test set and the training.
    """
    measured, texts, validation, tests, _ = parents
    spec = ErasedCheckSpec.of(cell)
    metric: RecursiveErasure = catalog.build("metrics", spec.metric_full)
    model = context.model(spec)
    fitted = context.once(
        ("fmm", spec.key, cell.parents[2:4], spec.seed),
        lambda: fit(model, references_of(table_to_examples(validation), table_to_examples(tests)), spec.seed),
    )
    encodings = {encoding.example.id: encoding for encoding in model.encode(table_to_examples(texts), spec.units)}
    scores = zip(measured.column("example_id").to_pylist(), table_to_scores(measured), strict=True)
    erased = {name: score.record["erased_at"] for name, score in scores if "erased_at" in score.record}
    prober = Prober(model, metric.masking)
    views = prober.run(erased_view(encodings[name], at, len(metric.points)) for name, at in erased.items())
    p_values = placed(fitted, views, len(metric.points))
    rows = []
    for (kind, variant), test in fitted.items():
        about = {"references": kind, "variant": variant, "smallest": test.smallest}
        rows += [
            {**about, "example_id": name, "p": p}
            for name, p in zip(erased, p_values[kind, variant].tolist(), strict=True)
        ]
    return CellOutput(pa.Table.from_pylist(rows, schema=CHECKS), prober.cost.forward, prober.cost.backward)


def summarize(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """ACU and RACU with their intervals over texts; the parents are the recursive_erasure cells of all seeds."""
    metric: Metric = catalog.build("metrics", SummarySpec.of(cell).metric_full)
    summary = metric.summarize(*(table_to_scores(parent) for parent in parents))
    row = {
        "value": summary.value, "low": summary.low, "high": summary.high, "count": summary.count,
        "undefined": "; ".join(summary.undefined), "extra": json.dumps(dict(summary.extra)),
    }  # fmt: skip
    return CellOutput(pa.Table.from_pylist([row], schema=SUMMARY))


def references_of(validation: Sequence[Example], tests: Sequence[Example]) -> list[Example]:
    """At most 1,000 randomly drawn examples from the part that was held out of the training, without the texts to be
    tested.
    """
    tested = {(example.text, example.text_pair) for example in tests}
    others = [example for example in validation if (example.text, example.text_pair) not in tested]
    places = np.sort(np.random.default_rng(0).permutation(len(others))[:MOST])
    return [others[int(place)] for place in places]


Fits = Mapping[tuple[str, str], MaSF]  # by references and variant


def fit(model: TextClassifier, references: Sequence[Example], seed: int) -> Fits:
    """The fitted test for each kind of references and variant."""
    require_hidden_states(model)
    masking: Masking = catalog.build("maskings", "mask_token")
    encodings = model.encode(references, "token", "both")  # as in training, every token of both texts may be masked
    fitted = {}
    for kind, form in ((kind, form_of(model, asked, masking)) for kind, asked in REFERENCES.items()):
        prober = Prober(model, form.masking)
        for variant, options in VARIANTS.items():
            fitted[kind, variant] = MaSF.from_model(
                prober, encodings, form.share > 0, seed, share=form.share, **options
            )
    return fitted


def erased_view(encoding: Encoding, erased_at: Sequence[int], points: int) -> Routine[list[NDArray[Any]]]:
    """One array per layer, [points, hidden]: the hidden states of an input whose units are erased at the given
    points.
    """
    left, place = torch.unique_consecutive(left_at(erased_at, points), dim=0, return_inverse=True)
    answer = yield Probe(Question(encoding, target=0), left, readout=HIDDEN_STATES)
    return [layer[place.numpy()] for layer in largest(answer)]


def left_at(erased_at: Sequence[int], points: int) -> Tensor:
    """[points, units] 1 for what is left at each point.

    >>> left_at([1, 2, 1], 3)
    tensor([[1., 1., 1.],
            [0., 1., 0.],
            [0., 0., 0.]])
    """
    return (torch.tensor(erased_at) > torch.arange(points)[:, None]).float()


def placed(
    fitted: Fits, views: Iterator[list[NDArray[Any]]], points: int
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """[examples, points] p-values of every test, computed for a few examples at a time because hidden states need much
    memory.
    """
    parts: dict[tuple[str, str], list[NDArray[np.float64]]] = {key: [np.empty((0, points))] for key in fitted}
    while some := list(islice(views, _EXAMPLES_AT_ONCE)):
        together = [np.concatenate(layer) for layer in zip(*some, strict=True)]
        for key, test in fitted.items():
            parts[key].append(test.p_values_of(together).reshape(len(some), -1))
    return {key: np.concatenate(values) for key, values in parts.items()}
