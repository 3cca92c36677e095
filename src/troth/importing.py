"""Anybody else's explanation (Captum, SHAP, ferret, a human) as an attribution, to be measured like ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from troth.errors import TrothError
from troth.explaining import as_examples, class_of
from troth.looks import Answer, Ask, Look, keep_all
from troth.models import load_model
from troth.probing import Prober
from troth.types import Attribution, Encoding, Example, Question
from troth.units import Span, UnitKind, join

_MARKS = ("##", "Ġ", "▁", "Ċ", "</w>")


def import_scores(
    model: Any,
    example: Example | str | tuple[str, str],
    scores: Sequence[float] | Tensor | np.ndarray[Any, Any],
    *,
    spans: Sequence[Span] | None,
    tokens: Sequence[str] | None,
    target: str | int,
    units: UnitKind,
    signed: bool | None,
) -> Attribution:
    """Scores of character spans, of tokens or of our units, summed into units as our own token scores are."""
    given = np.asarray(scores.detach().cpu() if isinstance(scores, Tensor) else scores, dtype=np.float64)
    classifier = load_model(model)
    (example,) = as_examples(example)
    (encoding,) = classifier.encode([example], units)
    summed, rest = _per_unit(encoding, given, spans, tokens)
    answer = Prober(classifier).ask(_plain_look(Question(encoding, target=0)))
    return Attribution(
        Question(encoding, class_of(classifier.labels, target, example, int(answer.predicted[0]))),
        summed,
        signed=bool((given < 0).any()) if signed is None else signed,
        rest=rest,
        model=classifier.fingerprint,
        labels=classifier.labels,
        probabilities=tuple(answer.logits[0].softmax(-1).tolist()),
    )


def _plain_look(question: Question) -> Ask[Answer]:
    return (yield Look(question, keep_all(question)))


def _per_unit(
    encoding: Encoding, scores: np.ndarray[Any, Any], spans: Sequence[Span] | None, tokens: Sequence[str] | None
) -> tuple[np.ndarray[Any, Any], float]:
    example = encoding.example
    wanted = len(tokens) if tokens is not None else len(spans) if spans is not None else encoding.n_units
    if scores.ndim != 1 or len(scores) != wanted:
        what = "token" if tokens is not None else "span" if spans is not None else "unit"
        raise TrothError(f"example {example.id}: {len(scores)} scores for {wanted} {what}s; there must be one each")
    if not np.isfinite(scores).all():
        raise TrothError(f"example {example.id}: score {int((~np.isfinite(scores)).argmax())} is NaN or infinite")
    if tokens is not None and len(tokens) == len(encoding.ids):
        places = encoding.units.numpy()  # the model's own tokens, special ones included
    elif tokens is not None:
        places = _joined(encoding, _locate(example, tokens))
    elif spans is not None:
        outside = [span for span in spans if not 0 <= span[0] <= span[1] <= len(example.text)]
        if outside:
            raise TrothError(
                f"example {example.id}: span {outside[0]} lies outside a text of {len(example.text)} characters"
            )
        places = _joined(encoding, list(spans))
    else:
        places = np.arange(encoding.n_units)
    summed = np.zeros(encoding.n_units)
    np.add.at(summed, places[places >= 0], scores[places >= 0])
    return summed, float(scores[places < 0].sum())


def _joined(encoding: Encoding, spans: Sequence[Span | None]) -> np.ndarray[Any, Any]:
    known = [span for span in spans if span is not None]
    places = np.full(len(spans), -1)
    places[[span is not None for span in spans]] = join(known, encoding.unit_spans)
    return places


def _locate(example: Example, tokens: Sequence[str]) -> list[Span | None]:
    """Where each token stands in the text, read from left to right; None for special tokens."""
    text, cursor = example.text.lower(), 0
    places: list[Span | None] = []
    for token in tokens:
        bare = token.lower()
        for mark in _MARKS:
            bare = bare.replace(mark.lower(), "")
        bare = bare.strip()
        start = text.find(bare, cursor) if bare else -1
        if start >= 0 and not text[cursor:start].strip():
            places.append((start, start + len(bare)))
            cursor = start + len(bare)
        elif not bare or token.startswith(("[", "<")):
            places.append(None)
        else:
            raise TrothError(
                f"example {example.id}: token {token!r} does not follow in the text at character {cursor} "
                f"({example.text[cursor : cursor + 20]!r}); pass spans= with the character span of every score"
            )
    return places
