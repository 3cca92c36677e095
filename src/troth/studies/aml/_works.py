"""The works of the AML study: a classifier for data that the given model has no classes for, and attribution models."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from troth.attribution_model.losses import DualMask
from troth.store.cells import Cell, Made
from troth.sweep.context import Context
from troth.training import train as training
from troth.verbs import fit as attributive_masking

WORKS = {
    "classifier": "troth.studies.aml._works:train_classifier",
    "attribution_models": "troth.studies.aml._works:fit_attribution_models",
}


def train_classifier(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """A plainly fine-tuned model folder; the row says how good it is."""
    specs = cell.specs
    with context.making(cell) as folder:
        trained = training.train(
            "plain", specs["data"], specs["base"], folder, epochs=specs["epochs"], batch_size=specs["batch_size"],
            limit=specs["limit"], seed=specs["seed"],
        )  # fmt: skip
    metric = trained.report["metric"]
    score = trained.scores["validation"]["unmasked"][metric]
    rows = [{"metric": metric, "value": score, "seconds": trained.report["seconds"]}]
    return Made(pa.Table.from_pylist(rows), folders=(cell.name,))


def fit_attribution_models(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """A folder with an attribution model for each metric; a row for each, with the weights of its losses."""
    specs = cell.specs
    with context.making(cell) as folder:
        fitted = attributive_masking.fit(
            context.model(specs),
            specs["data"],
            folder,
            backbone=specs["backbone"],
            metrics=specs["metrics"],
            without=specs["without"],
            form=DualMask(**specs["form"]),
            settings=attributive_masking.Settings(**specs["settings"]),
        )
        rows = [
            {
                "metric": metric,
                "split": report["data"]["split"],
                "backbone": report["backbone"],
                "sampler": report["search"]["sampler"],
                "seconds": report["seconds"],
                **{name: float(report["loss"][name]) for name in ("prediction", "sparsity", "inverse")},
            }
            for metric, report in fitted.reports.items()
        ]
    return Made(pa.Table.from_pylist(rows), folders=(cell.name,))
