"""`explain`: chooses the class, asks the explainer about every example, and notes on the result how it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, overload

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.progress import track
from troth.core.results import Attributions, Explanations
from troth.core.types import Attribution, Encoding, Example, Question
from troth.core.units import Span, UnitKind, is_span
from troth.data import Data
from troth.data._classes import match_labels
from troth.data._items import Texts as Texts
from troth.data._items import as_examples as as_examples
from troth.data._items import read_texts
from troth.engine.looks import LOGITS, PREDICTED, Answer, Ask, Look, T, Want, keep_all
from troth.engine.prober import Prober
from troth.engine.targets import ABOVE, EACH, Target, class_of, each_target, gold_labels, require_class
from troth.engine.together import together
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import Segments, TextClassifier, load_model
from troth.verbs.many import Wholes, explains_many, explanations_of_many, portions
from troth.verbs.methods import Given, by_name

_CHUNK = 512
Units = UnitKind | Sequence[Span] | Sequence[Sequence[Span]]  # by name, or spans of the text, or of each text


@overload
def explain(
    model: Any,
    texts: Texts,
    explainer: str | Explainer | Callable[..., Any],
    units: Units = ...,
    target: Target = ...,
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
) -> Explanations: ...


@arguments.typed(
    target='"predicted", "gold", a class index, a label or a list', explainer="a name, an object, or a list of them",
    texts="a text, an Example, a pair of texts, or a list of them", units="a name, or a list of (start, end)",
    masking="a name such as delete, or a Masking",
)  # fmt: skip
def explain(
    model: Any,
    texts: Texts,
    explainer: str | Explainer | Callable[..., Any] | Iterable[Given] | Mapping[str, Given],
    units: Units = "word",
    target: Target = "predicted",
    masking: str | Masking = "mask_token",
    seed: int = 0,
    *,
    against: str | int | None = None,
    segments: Segments = "first",
    progress: bool = True,
) -> Attributions | Explanations:
    """One attribution per text: which units push toward the target class (rather than toward `against`).

    `target` is "predicted", "gold", a class index or a label. A list of them gives one attribution per text and
    target, text by text; so do, of a multi-label model, "above_threshold" (the labels that hold) and "gold" (the
    example's own): none for a text that has none; and "each": one for every token of a continuation. They share the
    model's passes. Several explainers give a dict of
    such lists, by the spec of each (as written, or of the object): they share the encodings and what the model says of
    the whole texts.
    An explainer may be a function of yours, or `my_file.py:MyExplainer` (docs/own_methods.md). `units` are token, word,
    sentence, passage (blank lines between), or your own: character spans (start, end) of the text, or a list of such
    per text (docs/units.md). `progress` is a bar on a terminal or in a notebook.
    """
    several = [explainer] if isinstance(explainer, str | Explainer) or callable(explainer) else explainer
    methods = by_name(several)
    classifier = load_model(model)
    require_class(classifier, target, several=True)
    require_class(classifier, against)
    encodings = list(chain.from_iterable(_encoded(classifier, texts, units, segments)))
    targets = _targets(classifier, encodings, target, masking)
    probers: dict[Want, Prober] = {}  # explainers that read the same of a whole text need that only once
    wholes: Wholes = {}
    attributions = Explanations()
    for name, method in methods.items():
        prober = probers.setdefault(method.reads(), Prober(classifier, masking))
        prober.forget_erased()
        prepared = method.prepare(prober, encodings)
        if isinstance(target, str | int) and explains_many(prober, prepared, target, against):
            many = (
                explanations_of_many(classifier, prepared, some, target, seed, first, wholes)
                for first, some in portions(encodings, prepared, prober)
            )
            each = chain.from_iterable(prober.run_many(many))
            attributions[name] = Attributions(track(each, len(encodings), name, shown=progress))
            continue
        # What depends on the target cannot be shared; asked about one by one, targets share batches at least.
        apart = method.reads().about_target
        groups = [
            (encoding, some)
            for encoding, chosen in zip(encodings, targets, strict=True)
            for some in ([[each] for each in chosen] if apart else [chosen])
        ]
        asks = (
            explanations(classifier, prepared, encoding, chosen, against=against, seed=seed)
            for encoding, chosen in groups
        )
        tracked = track(prober.run(asks), len(groups), name, shown=progress)
        attributions[name] = Attributions(chain.from_iterable(tracked))
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
    if explains_many(prober, method, target, against):
        asks = (
            explanations_of_many(prober.model, method, some, target, seed)
            for _, some in portions(chain.from_iterable(chunks), method, prober)
        )
        yield from chain.from_iterable(prober.run_many(asks))
        return
    yield from prober.run(
        explanation(prober.model, method, encoding, target=target, against=against, seed=seed)
        for chunk in chunks
        for encoding in chunk
    )


def _encoded(model: TextClassifier, texts: Texts, units: Units, segments: Segments) -> Iterator[list[Encoding]]:
    """The encodings of the texts, some at a time."""
    source = read_texts(texts)
    if isinstance(source, Data):
        source = match_labels(source, model.labels, model.name, model.outputs)
    if not isinstance(units, str):
        examples = list(source)
        each = zip(examples, _own_units(units, examples), strict=True)
        return (model.encode([example], own, segments) for example, own in each)
    rest = iter(source)
    return iter(lambda: model.encode(islice(rest, _CHUNK), units, segments), [])


def _targets(
    model: TextClassifier, encodings: Sequence[Encoding], target: Target, masking: str | Masking
) -> list[Sequence[str | int]]:
    """What is explained of each text, chosen once for all explainers."""
    if target == EACH:
        return [range(1, len(encoding.written) + 1) for encoding in encodings]
    if target == ABOVE:
        return list(Prober(model, masking).run(above(encoding) for encoding in encodings))
    if target == "gold" and model.outputs == "labels":
        return [gold_labels(model.labels, encoding.example) for encoding in encodings]
    return [each_target(target)] * len(encodings)


def above(encoding: Encoding) -> Ask[Sequence[str | int]]:
    """The labels that hold, the most probable first."""
    blank = Question(encoding, target=PREDICTED)
    answer = yield Look(blank, keep_all(blank))
    probabilities = answer.probabilities[0].tolist()
    held = [index for index, probability in enumerate(probabilities) if probability > answer.threshold]
    return sorted(held, key=lambda index: -probabilities[index])


def explanations(
    model: TextClassifier,
    explainer: Explainer,
    encoding: Encoding,
    targets: Sequence[str | int],
    *,
    against: str | int | None = None,
    seed: int = 0,
) -> Ask[list[Attribution]]:
    """One explanation per target; what does not depend on the target is asked once."""
    asks = [explanation(model, explainer, encoding, target=target, against=against, seed=seed) for target in targets]
    return [(yield from asks[0])] if len(asks) == 1 else (yield from together(asks))


def _own_units(units: Any, examples: Sequence[Example]) -> list[tuple[Span, ...]]:
    """The spans of every text; of one text they need no list around them."""
    arguments.iterable("units", units, "a name, or a list of (start, end)")
    given = list(units)
    if all(map(is_span, given)):
        given = [given]
    if len(given) != len(examples):
        raise TrothError(f"units are those of {len(given)} texts, but there are {len(examples)}: give a list for each")
    for spans in given:
        arguments.iterable("units", spans, "a name, or a list of (start, end)")
    return [tuple(spans) for spans in given]


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
    if model.continues:
        want = LOGITS  # what is read of one written token says nothing of the others
    if want.about_target and target == "gold" and model.outputs == "labels":
        want = LOGITS  # which of the gold labels it is depends on their probabilities
    early = PREDICTED
    if want.about_target:
        early = class_of(model.labels, target, encoding.example, PREDICTED, model.outputs)
    blank = Question(encoding, target=early, seed=seed)
    answer = yield Look(blank, keep_all(blank), want=want)
    predicted = int(answer.strongest[0])
    probabilities = answer.probabilities[0].tolist()
    chosen = class_of(model.labels, target, encoding.example, predicted, model.outputs, probabilities)
    other = None if against is None else class_of(model.labels, against, encoding.example, predicted, model.outputs)
    if other == chosen:
        other = _second(answer.logits[0].tolist(), chosen) if against == "predicted" else _contrast_error(model, chosen)
    ask = explainer.ask(Question(encoding, chosen, other, seed=seed))
    attribution = yield from (_answered(ask, want, answer) if want.about_target else ask)
    return replace(
        attribution,
        explainer=explainer.full_spec,
        model=model.fingerprint,
        labels=(labels := model.labels_of(encoding)),
        probabilities=tuple(probabilities[: len(labels)]),
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
        whole = look.want == want and look.masking is None and look.others is None and len(look.keep) == 1
        known = whole and bool((look.keep == 1).all())
        reply = replace(answer, question=look.question) if known else (yield look)


def _second(logits: list[float], chosen: int) -> int:
    return max((index for index in range(len(logits)) if index != chosen), key=lambda index: logits[index])


def _contrast_error(model: TextClassifier, chosen: int) -> int:
    raise TrothError(f"target and against are both {model.labels[chosen]!r}; a contrast needs two classes")
