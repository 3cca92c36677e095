"""Describes the decision on an example: its gold class, the predicted class, and whether the prediction is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import TrothError
from troth.data._classes import label_name
from troth.models.targets import gold_class

if TYPE_CHECKING:
    from troth.core.types import Attribution


def gold(attribution: Attribution) -> str:
    """The name of the example's gold class; empty if it has none."""
    label = attribution.example.label
    if label is None or attribution.outputs == "values":
        return ""
    if isinstance(label, tuple) or attribution.outputs == "labels":
        return ", ".join(map(str, label if isinstance(label, tuple) else (label,)))
    try:
        return attribution.label(gold_class(attribution.labels, attribution.example))
    except TrothError:  # not a class of the model
        return str(label_name(label))


def predicted(attribution: Attribution) -> str:
    """The name of the predicted class; empty for models that do not choose one class."""
    if attribution.outputs != "classes" or not attribution.probabilities:
        return ""
    return attribution.label(int(np.argmax(attribution.probabilities)))


def about(attribution: Attribution, *, several: bool) -> str:
    """The example's id and whether the model is right about it, if that is known."""
    own, said = gold(attribution), predicted(attribution)
    judged = f"gold {own}" if own else ""
    if own and said:
        is_right = "right" if own == said else "wrong"
        judged += f", {is_right if own in attribution.labels else 'not a class of the model'}"
    place = f"example {attribution.example.id}" if judged or several else ""
    return "".join(f"{part}: " for part in [", ".join(filter(None, (place, judged)))] if part)


def cut_off(attribution: Attribution) -> str:
    """A note on text that was cut off because it is longer than the model reads; empty if nothing was."""
    encoding = attribution.question.encoding
    if not encoding.truncated:
        return ""
    units = f"{encoding.unit_kind}{'' if encoding.truncated == 1 else 's'}"
    return (
        f"{encoding.truncated:,} {units} at the end were cut off: the text is longer than the model reads; to read all "
        "of it: --model-option windows=true"
    )
