"""Resolves a target to a class: the predicted one, the gold one, an index or a label; for multi-label models also
several.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from troth.core import arguments, reading
from troth.core.errors import TrothError, unknown
from troth.core.outputs import PREDICTED, Outputs
from troth.core.types import Example
from troth.data._classes import class_number, label_name, not_one_class
from troth.models import TextClassifier

EACH = "each"  # as a target: every token of a continuation
ABOVE = "above_threshold"  # as a target: every label whose probability is above the model's threshold
Word = Mapping[str, Any]  # {"word": "London", "label": "LOC"}, optionally with the "start" of the word
Target = str | int | Word | Sequence[str | int | Word]
_WORDS = ("predicted", "gold", ABOVE)


def class_of(
    labels: tuple[str, ...],
    target: str | int,
    example: Example,
    predicted: int,
    outputs: Outputs = "classes",
    probabilities: Sequence[float] = (),
) -> int:
    """The class index that "predicted", "gold", an index or a label stands for.

    Of an example's several gold labels it is the most probable one, where probabilities are given, else the first.
    """
    if target == "predicted":
        return predicted
    if target == "gold" and outputs == "labels":
        held = gold_labels(labels, example)
        if not held:
            raise TrothError(f"example {example.id} has no gold label; use target predicted or name a label")
        return max(held, key=lambda index: probabilities[index]) if probabilities else held[0]
    if target == "gold":
        return gold_class(labels, example, outputs)
    if isinstance(target, str) and target in labels:
        return labels.index(target)
    if isinstance(target, str) and not re.fullmatch(r"-?\d+", target):
        raise unknown(_KINDS[outputs], target, labels)
    index = int(target)
    if not 0 <= index < len(labels):
        raise TrothError(
            f"example {example.id}: {_KINDS[outputs]} {index} is outside the model's {len(labels)} {outputs} "
            f"({', '.join(labels)})"
        )
    return index


_KINDS = {"classes": "class", "labels": "label", "values": "value"}


def each_target(target: Target) -> list[Any]:
    """The targets of a list, or the single one; numbers may be numpy's, a word may be written as JSON."""
    return [_word_of(each) for each in (target if isinstance(target, list | tuple) else [target])]


def _word_of(target: Any) -> Any:
    if not isinstance(target, str) or not target.lstrip().startswith("{"):
        return target
    try:
        return reading.parse_json(target)
    except ValueError:
        raise TrothError(f'the target {target} is not JSON; write {{"word": "London", "label": "LOC"}}') from None


def _require_word(model: TextClassifier, target: Word, several: bool) -> None:
    """Raises an error for a target that names a word where that is not possible."""
    if not model.labels_words:
        raise TrothError(
            f"a target that names a word needs a token classifier; {model.name} is {model.kind}: name a class"
        )
    if not several:
        raise TrothError(
            f"metrics need one target for all texts, not a word of one text: {dict(target)}; use predicted"
        )
    if not isinstance(target.get("word"), str) or not target["word"].strip():
        raise TrothError(f'a target must name its word: {{"word": "London", "label": "LOC"}}, not {dict(target)}')
    if more := target.keys() - {"word", "label", "start"}:
        raise unknown("part of a target", sorted(more)[0], ("word", "label", "start"))
    arguments.of_kind("label", target.get("label", ""), str, "the name of a label")
    arguments.of_kind("start", target.get("start", 0), int, "the number of a character")


def require_class(model: TextClassifier, *classes: Target | None, several: bool = False) -> None:
    """Raises an error for a class that the model does not have, before any computation; gold classes differ by
    example.
    """
    for target in classes:
        if target == ABOVE and model.outputs != "labels":
            raise TrothError(
                f"{ABOVE} needs a multi-label model; {model.name} returns {_MEANINGS[model.outputs]}: use predicted"
            )
        if target == EACH and not (model.continues and several):
            what = "one target per example is measured here" if model.continues else f"{model.name} writes nothing"
            if (foil := getattr(model, "against", None)) is not None:
                what = f"with against={foil!r} two are compared, whose tokens do not match one to one"
            raise TrothError(f"{EACH} explains every token of a continuation, but {what}; use predicted")
        if target is None or target == EACH:
            continue
        named = each_target(target)
        if not named:
            raise TrothError("target is an empty list; name at least one class or label")
        if (repeated := next((name for place, name in enumerate(named) if name in named[:place]), None)) is not None:
            raise TrothError(f"target contains {repeated!r} twice")
        if not several and (target == ABOVE or len(named) > 1):
            raise TrothError(
                f"metrics need one target per example, not {target}; name one label, or use predicted (the most "
                "probable one) or gold (the most probable of the example's labels)"
            )
        for name in named:
            if isinstance(name, Mapping):
                _require_word(model, name, several)
                continue
            arguments.of_kind("target", name, (str, int), '"predicted", "gold", a class index or a label')
            labels, numbers = model.labels, range(len(model.labels))
            if model.outputs == "values" and name not in ("predicted", *labels, *numbers, *map(str, numbers)):
                values = f"one value ({labels[0]})" if len(labels) == 1 else f"values ({', '.join(labels[:12])})"
                raise TrothError(
                    f"{model.name} returns {values} and has no classes, so {name!r} cannot be explained; "
                    "leave target out or "
                    "name a value"
                )
            if name not in _WORDS:
                class_of(model.labels, name, Example("0", ""), PREDICTED, model.outputs)


def require_exclusive(model: TextClassifier, method: str) -> None:
    """Raises an error for models whose classes are not exclusive."""
    if model.outputs != "classes":
        raise TrothError(
            f"{method} needs a model that predicts one of several classes; {model.name} returns "
            f"{_MEANINGS[model.outputs]}: use "
            "leave_one_out, integrated_gradients or another explainer"
        )


_MEANINGS = {
    "classes": "classes that exclude each other",
    "labels": "labels that each hold or not",
    "values": "values",
}


def gold_class(labels: tuple[str, ...], example: Example, outputs: Outputs = "classes") -> int:
    """The model's class for an example's label: by name if it has one, else by number."""
    label = example.label
    if outputs == "values":
        raise TrothError(f"example {example.id}: a model that returns values has no gold class; leave target out")
    if label is None:
        raise TrothError(f"example {example.id} has no label, so no gold class; use target predicted or name a class")
    if isinstance(label, tuple):
        raise not_one_class(example, "the model")
    return _number(labels, label, example)


def gold_labels(labels: tuple[str, ...], example: Example) -> tuple[int, ...]:
    """The indices of all labels of the model that hold for an example; a single label is a set of one."""
    if example.label is None:
        raise TrothError(f"example {example.id} has no labels; use target predicted or name a label")
    held = example.label if isinstance(example.label, tuple) else (example.label,)
    return tuple(_number(labels, each, example) for each in held)


def _number(labels: tuple[str, ...], label: int | str, example: Example) -> int:
    if isinstance(label_name(label), int):
        return class_of(labels, int(label), example, PREDICTED)
    try:
        return class_number(label, labels)
    except TrothError as problem:
        raise TrothError(
            f"example {example.id}: its label does not match the model's classes ({', '.join(labels)}): {problem}"
        ) from None
