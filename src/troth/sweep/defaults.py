"""What a bench takes where nothing is named: explainers and metrics that suit the model, and how units are erased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from troth.core import catalog
from troth.explainers import Explainer
from troth.metrics import Erasing, Metric
from troth.models import TextClassifier

# No method of hundreds of passes: some metrics explain again at every step.
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "leave_one_out",
)  # fmt: skip
ERASING_EXPLAINERS = ("random", "leave_one_out", "lime", "kernel_shap")  # for a model that shows no inside
METRICS = (
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "recursive_erasure(step=0.2)",
    "soft_comprehensiveness",
    "soft_sufficiency",
)
RATIONALE_METRICS = ("rationale_agreement",)  # where humans marked what matters
RANDOM = "random"

Method = TypeVar("Method", bound=str | Explainer)


def usual_explainers(model: TextClassifier) -> tuple[str, ...]:
    return ERASING_EXPLAINERS if model.erases_only else EXPLAINERS


def usual_metrics(model: TextClassifier, masking: str, marked: bool) -> list[str]:
    """Metrics that the model can answer; those that erase whole units do it by `masking`, so that it can be checked."""
    metrics: list[Metric] = [catalog.build("metrics", spec) for spec in METRICS]
    if model.erases_only:
        # Its explainers take hundreds of passes each.
        metrics = [metric for metric in metrics if _reads_ids(metric) and not metric.explains_again]
    erased = [replace(metric, masking=masking) if _reads_ids(metric) else metric for metric in metrics]  # type: ignore[call-arg]  # an option of all that erase
    return [*map(catalog.spec, erased), *(RATIONALE_METRICS if marked else ())]


def with_random(explainers: Sequence[Method]) -> list[Method | str]:
    """The explainers with the random one, to compare with."""
    there = any(catalog.spec(catalog.build("explainers", explainer)) == RANDOM for explainer in explainers)
    return list(explainers) if there else [RANDOM, *explainers]


def _reads_ids(metric: Metric) -> bool:
    return isinstance(metric, Erasing) and metric.perturbation.level == "ids"
