"""Explaining and measuring many texts at once, for methods that ask about all of them alike (`ask_many`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from troth.core.types import Attribution, Encoding, Question
from troth.engine.looks import PREDICTED, Want
from troth.engine.many import Answers, AskMany, can_be_joined, whole_inputs
from troth.engine.prober import PENDING_ELEMENTS, ROWS, Prober
from troth.engine.targets import ABOVE, EACH, class_of
from troth.explainers import Explainer
from troth.models import TextClassifier

# What was read of the whole inputs of some texts, for the next explainer: by the first one's number and their count.
Wholes = dict[tuple[Want, int, int], Answers]
Text = TypeVar("Text", Encoding, Question)


def explains_many(prober: Prober, explainer: Explainer, target: str | int, against: str | int | None) -> bool:
    """Whether texts can be explained many at a time: the class is chosen alike for all, and nothing is drawn."""
    model = prober.model
    gold_of_several = target == "gold" and model.outputs == "labels"
    by_text = gold_of_several or target in (ABOVE, EACH)
    return (
        explainer.asks_many and against is None and not model.continues and not by_text
        and can_be_joined(prober.masking)
    )  # fmt: skip


def portions(texts: Iterable[Text], explainer: Explainer, prober: Prober) -> Iterator[tuple[int, list[Text]]]:
    """As many texts at a time as may be under way, and the number of the first."""
    most, first = -(-prober.window // prober.shifts), 0
    some: list[Text] = []
    elements, rows = 0, 0.0
    for text in texts:
        some.append(text)
        passes = explainer.passes(text.n_units)
        elements += text.n_units * passes
        # A search erases one unit at a time, then asks again.
        rows += passes / text.n_units if explainer.recursive and text.n_units else passes
        if len(some) == most or elements > PENDING_ELEMENTS or (prober.shifts > 1 and rows >= ROWS):
            yield first, some
            first += len(some)
            some, elements, rows = [], 0, 0.0
    if some:
        yield first, some


def explanations_of_many(
    model: TextClassifier,
    explainer: Explainer,
    encodings: Sequence[Encoding],
    target: str | int,
    seed: int,
    first: int = 0,
    wholes: Wholes | None = None,
) -> AskMany[list[Attribution]]:
    """As `explanation`: chooses each text's class, then explains it; `first` is the number of the first text."""
    want = explainer.reads()
    early = [PREDICTED] * len(encodings)
    if want.about_target and target != "predicted":
        early = [class_of(model.labels, target, each.example, PREDICTED, model.outputs) for each in encodings]
    blank = [Question(encoding, chosen, seed=seed) for encoding, chosen in zip(encodings, early, strict=True)]
    asked = want, first, len(encodings)
    whole = (wholes or {}).get(asked) or (yield whole_inputs(blank, want))
    if wholes is not None:
        wholes[asked] = whole
    chosen, probabilities = whole.strongest.tolist(), whole.probabilities.tolist()
    if target != "predicted":
        chosen = [
            class_of(model.labels, target, each.example, predicted, model.outputs, shares)
            for each, predicted, shares in zip(encodings, chosen, probabilities, strict=True)
        ]
    questions = [Question(encoding, each, seed=seed) for encoding, each in zip(encodings, chosen, strict=True)]
    attributions = yield from explainer.ask_many(questions, replace(whole, questions=questions))
    made = {"explainer": explainer.full_spec, "model": model.fingerprint, "outputs": model.outputs}
    notes = "; ".join(filter(None, model.notes))
    for attribution, shares in zip(attributions, probabilities, strict=True):
        labels = model.labels_of(attribution.question.encoding)
        note = "; ".join(filter(None, (attribution.note, notes)))
        # They are still ours alone: another object for each would take longer than all of this.
        vars(attribution).update(
            made, labels=labels, probabilities=tuple(shares[: len(labels)]), threshold=model.threshold, note=note
        )
    return attributions
