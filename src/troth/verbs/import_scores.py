"""Turns explanations from elsewhere (Captum, SHAP, ferret, a human) into attributions that can be measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from torch import Tensor

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.scored import locate
from troth.core.types import Attribution, Encoding, Example, Question
from troth.core.units import Span, UnitKind, is_span, join
from troth.core.user_code import shown
from troth.data import as_examples
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine
from troth.models import TextClassifier, load_model
from troth.models.targets import class_of, require_class


@arguments.typed(scores="one number per unit, token or span")
def import_scores(
    model: Any,
    example: Example | str | tuple[str, str],
    scores: Sequence[float] | Tensor | np.ndarray[Any, Any],
    *,
    spans: Sequence[Span] | None,
    tokens: Sequence[str] | None,
    target: str | int | Mapping[str, Any],
    units: UnitKind,
    signed: bool | None,
) -> Attribution:
    """Imports scores of character spans, tokens or troth's units, summed into units in the same way as token scores."""
    if spans is not None and tokens is not None:
        raise TrothError("pass either spans or tokens with the scores, not both")
    classifier = load_model(model)
    (example,) = as_examples(example)
    (encoding,) = classifier.encode([example], units)
    require_class(classifier, target, several=isinstance(target, Mapping))
    encoding, aim = classifier.aimed(encoding, target)
    answer = Prober(classifier).ask(_whole_input(Question(encoding, target=0)))
    probabilities, predicted = answer.probabilities[0].tolist(), int(answer.strongest[0])
    chosen = class_of(classifier.labels, aim, example, predicted, classifier.outputs, probabilities)
    question = Question(encoding, chosen)
    return replace(
        attribution_of(classifier, question, scores, spans=spans, tokens=tokens, signed=signed),
        model=classifier.fingerprint,
        labels=(labels := classifier.labels_of(encoding)),
        probabilities=tuple(probabilities[: len(labels)]),
        outputs=classifier.outputs,
        threshold=classifier.threshold,
    )


def attribution_of(
    model: TextClassifier,
    question: Question,
    scores: Any,
    *,
    spans: Sequence[Span] | None = None,
    tokens: Sequence[str] | None = None,
    signed: bool | None = None,
) -> Attribution:
    """An attribution from scores of spans, tokens or units; scores outside of all units are summed into `rest`."""
    encoding = question.encoding
    numbers = _numbers(encoding.example, scores)
    _check(encoding, numbers, spans, tokens)
    if tokens is not None and list(tokens) == _own_tokens(model, encoding):
        places = encoding.units.numpy()
    elif tokens is not None:
        places = _joined(encoding, locate(encoding.example, tokens))
    elif spans is not None:
        places = _joined(encoding, list(spans))
    else:
        places = np.arange(encoding.n_units)
    summed = np.zeros(encoding.n_units)
    np.add.at(summed, places[places >= 0], numbers[places >= 0])
    return Attribution(
        question,
        summed.astype(np.float32),
        signed=bool((numbers < 0).any()) if signed is None else signed,
        rest=float(numbers[places < 0].sum()),
    )


def _numbers(example: Example, scores: Any) -> np.ndarray[Any, Any]:
    """The scores as an array, if they fit into single precision, in which attributions store them."""
    try:
        if isinstance(scores, Tensor) and not scores.is_complex():
            scores = scores.detach().double().cpu()
        given = np.asarray(scores)
        numbers = given.astype(np.float64) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError, RuntimeError, OverflowError):
        numbers = None
    if numbers is None or (given.dtype.kind == "O" and not all(isinstance(each, Real) for each in given.flat)):
        raise TrothError(f"example {example.id}: scores must be numbers, not {shown(scores)}; give one per unit")
    most = float(np.finfo(np.float32).max)
    if (np.abs(numbers[np.isfinite(numbers)]) > most).any():
        raise TrothError(
            f"example {example.id}: a score is larger than {most:.0e}; divide all scores by the same number"
        )
    return numbers


def _whole_input(question: Question) -> Routine[Answers]:
    answers: Answers = yield Probe(question, keep_all(question))
    return answers


def _check(
    encoding: Encoding, scores: np.ndarray[Any, Any], spans: Sequence[Span] | None, tokens: Sequence[str] | None
) -> None:
    example = encoding.example
    wanted = len(tokens) if tokens is not None else len(spans) if spans is not None else encoding.n_units
    what = "token" if tokens is not None else "span" if spans is not None else "unit"
    if scores.ndim != 1:
        raise TrothError(
            f"example {example.id}: the scores have the shape {list(scores.shape)}; give one number per {what}"
        )
    if len(scores) != wanted:
        raise TrothError(f"example {example.id}: {len(scores)} scores for {wanted} {what}s; give one score per {what}")
    if not np.isfinite(scores).all():
        raise TrothError(f"example {example.id}: score {int((~np.isfinite(scores)).argmax())} is NaN or infinite")
    for token in tokens or ():
        arguments.of_kind("each of tokens", token, str, "text")
    for span in spans or ():
        if not is_span(span):
            raise TrothError(f"example {example.id}: a span must be (start, end) in characters, not {shown(span)}")
        start, end = span
        if not 0 <= start <= end <= len(example.text):
            raise TrothError(
                f"example {example.id}: span {(start, end)} lies outside a text of {len(example.text)} characters"
            )


def _own_tokens(model: TextClassifier, encoding: Encoding) -> list[str] | None:
    """The model's own tokens of the example, with special tokens; None if it has no tokenizer."""
    return None if model.tokenizer is None else list(model.tokenizer.convert_ids_to_tokens(encoding.ids.tolist()))


def _joined(encoding: Encoding, spans: Sequence[Span | None]) -> np.ndarray[Any, Any]:
    """The unit index of every span; -1 for special tokens and for text that the model did not read."""
    # Text after the last unit belongs to it, unless the input was truncated there.
    cut = encoding.truncated and encoding.unit_spans
    end = encoding.unit_spans[-1][1] if cut else len(encoding.example.text) + 1
    read = [number for number, span in enumerate(spans) if span is not None and span[0] < end]
    places = np.full(len(spans), -1)
    places[read] = join([spans[number] or (0, 0) for number in read], encoding.unit_spans)
    return places
