"""`explain`: chooses the class, asks the explainer about every example, and notes on the result how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question
from troth.core.units import UnitKind
from troth.data import Data
from troth.data._classes import match_labels
from troth.data._items import Texts as Texts
from troth.data._items import as_examples as as_examples
from troth.engine.looks import LOGITS, PREDICTED, Answer, Ask, Look, T, Want, keep_all
from troth.engine.prober import Prober
from troth.engine.targets import class_of
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import Segments, TextClassifier, load_model

_CHUNK = 512


def explain(
    model: Any,
    texts: Texts,
    explainer: str | Explainer,
    units: UnitKind = "word",
    target: str | int = "predicted",
    masking: str | Masking = "mask_token",
    seed: int = 0,
    *,
    against: str | int | None = None,
    segments: Segments = "first",
) -> list[Attribution]:
    """One attribution a text: which units spoke for the target class (rather than for `against`).

    `target` is "predicted", "gold", a class index or a label.
    """
    prober = Prober(load_model(model), masking)
    return list(
        explain_each(
            prober, texts, explainer, units=units, target=target, seed=seed, against=against, segments=segments
        )
    )


def explain_each(
    prober: Prober,
    texts: Texts,
    explainer: str | Explainer,
    *,
    units: UnitKind = "word",
    target: str | int = "predicted",
    seed: int = 0,
    against: str | int | None = None,
    segments: Segments = "first",
) -> Iterator[Attribution]:
    """As `explain`, one attribution at a time: the data may be larger than memory."""
    method = catalog.build("explainers", explainer)
    if isinstance(texts, Data):
        texts = match_labels(texts, prober.model.labels, prober.model.name)
    source = iter(as_examples(texts))
    chunks = iter(lambda: prober.model.encode(islice(source, _CHUNK), units, segments), [])
    if type(method).prepare is not Explainer.prepare:
        encodings = [encoding for chunk in chunks for encoding in chunk]
        method, chunks = method.prepare(prober, encodings), iter([encodings])
    yield from prober.run(
        explanation(prober.model, method, encoding, target=target, against=against, seed=seed)
        for chunk in chunks
        for encoding in chunk
    )


def explanation(
    model: TextClassifier,
    explainer: Explainer,
    encoding: Encoding,
    *,
    target: str | int = "predicted",
    against: str | int | None = None,
    seed: int = 0,
) -> Ask[Attribution]:
    """Chooses the class once, then explains; what the explainer reads of the whole input is read in the same pass."""
    want = explainer.reads()
    if want.about_target and against is not None:
        want = LOGITS  # which contrast it is may depend on the prediction
    early = class_of(model.labels, target, encoding.example, PREDICTED) if want.about_target else PREDICTED
    blank = Question(encoding, target=early, seed=seed)
    answer = yield Look(blank, keep_all(blank), want=want)
    predicted = int(answer.predicted[0])
    chosen = class_of(model.labels, target, encoding.example, predicted)
    other = None if against is None else class_of(model.labels, against, encoding.example, predicted)
    if other == chosen:
        other = _second(answer.logits[0].tolist(), chosen) if against == "predicted" else _contrast_error(model, chosen)
    ask = explainer.ask(replace(blank, target=chosen, against=other))
    attribution = yield from (_told(ask, want, answer) if want.about_target else ask)
    return replace(
        attribution,
        explainer=catalog.spec(explainer, full=True),
        model=model.fingerprint,
        labels=model.labels,
        probabilities=tuple(answer.logits[0].softmax(-1).tolist()),
        note="; ".join(filter(None, (attribution.note, *getattr(model, "notes", ())))),
    )


def _told(ask: Ask[T], want: Want, answer: Answer) -> Ask[T]:
    """The ask, answered at once where it wants what has been read of the whole input already."""
    reply: Answer | None = None
    while True:
        try:
            look = next(ask) if reply is None else ask.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        whole = len(look.keep) == 1 and bool((look.keep == 1).all()) and look.others is None and look.masking is None
        reply = replace(answer, question=look.question) if whole and look.want == want else (yield look)


def _second(logits: list[float], chosen: int) -> int:
    return max((index for index in range(len(logits)) if index != chosen), key=lambda index: logits[index])


def _contrast_error(model: TextClassifier, chosen: int) -> int:
    raise TrothError(f"target and against are both {model.labels[chosen]!r}; a contrast needs two classes")
