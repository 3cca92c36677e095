"""The meaning of a classification head's outputs: exclusive classes, independent labels, or values; and their names."""

import re
from typing import Any

from troth.core.errors import TrothError
from troth.core.outputs import THRESHOLD, Outputs


def meaning_of(config: Any, name: str = "", multi_label: bool | None = None) -> Outputs:
    """The meaning according to the configuration: problem_type, else regression for one output and classes for
    several.

    `multi_label` overrides it.
    """
    problem, count = getattr(config, "problem_type", None), int(config.num_labels)
    if multi_label or (multi_label is None and problem == "multi_label_classification"):
        return "labels"
    if multi_label is False and count == 1:
        raise TrothError(f"{name} has one output, so it cannot choose between classes; leave multi_label out")
    return "values" if problem == "regression" or count == 1 else "classes"


def names_of(config: Any, name: str, labels: tuple[str, ...] | None, outputs: Outputs) -> tuple[str, ...]:
    """The names of a head's classes, labels or values: those given by the user, else the model's own."""
    count = int(config.num_labels)
    if labels is not None and len(labels) != count:
        raise TrothError(f"{name} has {count} {outputs}, but {len(labels)} labels were given: {', '.join(labels)}")
    own = tuple(str(config.id2label[index]) for index in range(count))
    if outputs == "values" and all(re.fullmatch(r"LABEL_\d+", each) for each in own):
        own = ("value",) if count == 1 else tuple(f"value {index}" for index in range(count))
    return own if labels is None else labels


def checked_threshold(name: str, outputs: Outputs, threshold: float | None) -> float:
    """Checks the threshold of labels; an error for a number outside (0, 1), or if there are no labels."""
    if threshold is None:
        return THRESHOLD
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
        raise TrothError(f"threshold must lie between 0 and 1, such as 0.3, not {threshold}")
    if outputs != "labels":
        what = "classes that exclude each other" if outputs == "classes" else "values"
        raise TrothError(
            f"threshold needs a multi-label model; {name} returns {what}: add multi_label=True (--multi-label)"
        )
    return float(threshold)


def pipeline_options(pipeline: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of load_model with what a text-classification pipeline was made with, where they leave it open.

    A sigmoid makes labels, a softmax classes; by default a single output that is no regression gets a sigmoid.
    With "none" the pipeline gives the logits, which are what is explained anyway: the model's own
    configuration says what they mean. top_k only says how many of them it prints.
    """
    if options.get("multi_label") is not None:
        return options
    config, function = pipeline.model.config, getattr(pipeline, "_postprocess_params", {}).get("function_to_apply")
    if function is None:
        one_label = getattr(config, "num_labels", 2) == 1 and getattr(config, "problem_type", None) != "regression"
        return {**options, "multi_label": True} if one_label else options
    applied = str(getattr(function, "name", function)).lower()
    return {**options, "multi_label": applied == "sigmoid"} if applied in ("sigmoid", "softmax") else options


def spec_of(usual: Outputs, outputs: Outputs, threshold: float) -> dict[str, Any]:
    """The options of load_model that give this meaning, where it is not the usual one of the source."""
    spec: dict[str, Any] = {} if outputs == usual else {"multi_label": outputs == "labels"}
    return spec | ({"threshold": threshold} if threshold != THRESHOLD else {})
