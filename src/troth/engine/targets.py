"""Which class a target stands for: the predicted one, the gold one, an index or a label."""

import re

from troth.core.errors import TrothError, unknown
from troth.core.types import Example
from troth.data._classes import class_number, name_of
from troth.engine.looks import PREDICTED


def class_of(labels: tuple[str, ...], target: str | int, example: Example, predicted: int) -> int:
    """The class index that "predicted", "gold", an index or a label stands for."""
    if target == "predicted":
        return predicted
    if target == "gold":
        return gold_class(labels, example)
    if isinstance(target, str) and target in labels:
        return labels.index(target)
    if isinstance(target, str) and not re.fullmatch(r"-?\d+", target):
        raise unknown("class", target, labels)
    index = int(target)
    if not 0 <= index < len(labels):
        raise TrothError(
            f"example {example.id}: class {index} is outside the model's {len(labels)} classes ({', '.join(labels)})"
        )
    return index


def require_class(labels: tuple[str, ...], *classes: str | int | None) -> None:
    """A class the model does not have is refused before anything is computed; gold ones differ by example."""
    for name in classes:
        if name is not None and name not in ("predicted", "gold"):
            class_of(labels, name, Example("0", ""), PREDICTED)


def gold_class(labels: tuple[str, ...], example: Example) -> int:
    """The model's class that an example's label stands for: by name where it has one, else by number."""
    label = example.label
    if label is None:
        raise TrothError(f"example {example.id} has no label, so no gold class; use target predicted or name a class")
    if isinstance(name_of(label), int):
        return class_of(labels, int(label), example, PREDICTED)
    try:
        return class_number(label, labels)
    except TrothError as problem:
        raise TrothError(
            f"example {example.id}: its label does not match the model's classes ({', '.join(labels)}): {problem}"
        ) from None
