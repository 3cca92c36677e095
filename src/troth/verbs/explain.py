"""`explain`: chooses the class, asks the explainer about every example, and notes on the result how it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any, overload

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.progress import track
from troth.core.results import Attributions
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
from troth.verbs.methods import Given, by_name

_CHUNK = 512


@overload
def explain(
    model: Any,
    texts: Texts,
    explainer: str | Explainer | Callable[..., Any],
    units: UnitKind = ...,
    target: str | int = ...,
    masking: str | Masking = ...,
    seed: int = ...,
    *,
    against: str | int | None = ...,
    segments: Segments = ...,
    progress: bool = ...,
) -> Attributions: ...


@overload
def explain(
    model: Any,
    texts: Texts,
    explainer: Iterable[Given] | Mapping[str, Given],
    *args: Any,
    **options: Any,
) -> dict[str, Attributions]: ...


def explain(
    model: Any,
    texts: Texts,
    explainer: str | Explainer | Callable[..., Any] | Iterable[Given] | Mapping[str, Given],
    units: UnitKind = "word",
    target: str | int = "predicted",
    masking: str | Masking = "mask_token",
    seed: int = 0,
    *,
    against: str | int | None = None,
    segments: Segments = "first",
    progress: bool = True,
) -> Attributions | dict[str, Attributions]:
    """One attribution per text: which units push toward the target class (rather than toward `against`).

    `target` is "predicted", "gold", a class index or a label. Several explainers give a dict of such lists, by the
    spec of each (as written, or of the object): they share the encodings and what the model says of the whole texts.
    An explainer may be a function of yours, or `my_file.py:MyExplainer` (docs/own_methods.md). `progress` is a bar on a
    terminal or in a notebook.
    """
    arguments.of_kind("seed", seed, int, "a whole number")
    arguments.of_kind("target", target, (str, int), '"predicted", "gold", a class index or a label')
    several = [explainer] if isinstance(explainer, str | Explainer) or callable(explainer) else explainer
    arguments.iterable("explainer", several, "a name, an object, or a list of them")
    methods = by_name(several)
    classifier = load_model(model)
    encodings = list(chain.from_iterable(_encoded(classifier, texts, units, segments)))
    probers: dict[Want, Prober] = {}  # explainers that read the same of a whole text need that only once
    attributions = {}
    for name, method in methods.items():
        prober = probers.setdefault(method.reads(), Prober(classifier, masking))
        prober.forget_erased()
        prepared = method.prepare(prober, encodings)
        asks = (
            explanation(classifier, prepared, encoding, target=target, against=against, seed=seed)
            for encoding in encodings
        )
        attributions[name] = Attributions(track(prober.run(asks), len(encodings), name, shown=progress))
    return attributions if several is explainer else attributions.popitem()[1]


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
    """As `explain` with one explainer, one attribution at a time: the data may be larger than memory."""
    method = catalog.build("explainers", explainer)
    chunks: Iterable[list[Encoding]] = _encoded(prober.model, texts, units, segments)
    if method.learns:
        chunks = list(chunks)
    method = method.prepare(prober, list(chain.from_iterable(chunks)) if method.learns else [])
    yield from prober.run(
        explanation(prober.model, method, encoding, target=target, against=against, seed=seed)
        for chunk in chunks
        for encoding in chunk
    )


def _encoded(model: TextClassifier, texts: Texts, units: UnitKind, segments: Segments) -> Iterator[list[Encoding]]:
    """The encodings of the texts, some at a time."""
    if isinstance(texts, Data):
        texts = match_labels(texts, model.labels, model.name)
    source = iter(as_examples(texts))
    return iter(lambda: model.encode(islice(source, _CHUNK), units, segments), [])


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
    predicted = int(answer.strongest[0])
    chosen = class_of(model.labels, target, encoding.example, predicted)
    other = None if against is None else class_of(model.labels, against, encoding.example, predicted)
    if other == chosen:
        other = _second(answer.logits[0].tolist(), chosen) if against == "predicted" else _contrast_error(model, chosen)
    ask = explainer.ask(replace(blank, target=chosen, against=other))
    attribution = yield from (_answered(ask, want, answer) if want.about_target else ask)
    return replace(
        attribution,
        explainer=catalog.spec(explainer, full=True),
        model=model.fingerprint,
        labels=model.labels,
        probabilities=tuple(answer.probabilities[0].tolist()),
        outputs=model.outputs,
        threshold=model.threshold,
        note="; ".join(filter(None, (attribution.note, *model.notes))),
    )


def _answered(ask: Ask[T], want: Want, answer: Answer) -> Ask[T]:
    """The ask, answered at once where it needs what has been read of the whole input already."""
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
