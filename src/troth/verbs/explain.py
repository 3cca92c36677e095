"""`explain`: chooses the class, explains every example, and records on the result how it was computed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, overload

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.progress import track
from troth.core.results import Attributions, Explanations
from troth.core.types import Attribution, Encoding, Example, Question
from troth.core.units import Span, UnitKind, is_span
from troth.data import Data, read_texts
from troth.data import Texts as Texts
from troth.data import as_examples as as_examples
from troth.data._classes import match_labels
from troth.engine.prober import PENDING_ELEMENTS, ROWS, Prober
from troth.engine.probes import LOGITS, PREDICTED, Readout, whole_inputs
from troth.engine.routines import Routine, T
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import Segments, TextClassifier, load_model
from troth.models.targets import ABOVE, EACH, Target, class_of, each_target, gold_labels, require_class
from troth.verbs.methods import EXPLAINERS, GivenExplainer

_CHUNK = 512
# A name, character spans of the text, or one list of spans per text.
Units = UnitKind | Sequence[Span] | Sequence[Sequence[Span]]


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
    explainer: Iterable[GivenExplainer] | Mapping[str, GivenExplainer],
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
    explainer: str | Explainer | Callable[..., Any] | Iterable[GivenExplainer] | Mapping[str, GivenExplainer],
    units: Units = "word",
    target: Target = "predicted",
    masking: str | Masking = "mask_token",
    seed: int = 0,
    *,
    against: str | int | None = None,
    segments: Segments = "first",
    progress: bool = True,
) -> Attributions | Explanations:
    """Returns one attribution per text: which units push toward the target class (rather than toward `against`).

    `target` is "predicted", "gold", a class index or a label; for a token classifier, it is a word of the text and its
    label: {"word": "London", "label": "LOC"} (docs/guide/heads.md). A list of targets gives one attribution per text
    and target, text by text. For a multi-label model, "above_threshold" (the labels above the threshold) and "gold"
    (the example's labels) do the same, and give none for a text without such labels; "each" gives one attribution for
    every token of a continuation. All targets share the model's forward passes. Several explainers return a dict of
    such lists, by the spec of each (as written, or of the object); they share the encodings and the model's output for
    the unmasked texts.

    An explainer may be your own function, or `my_file.py:MyExplainer` (docs/guide/own_methods.md). `units` are token,
    word, sentence, passage (separated by blank lines), or your own: character spans (start, end) of the text, or one
    list of spans per text (docs/guide/units.md). `progress` shows a progress bar on a terminal or in a notebook.
    """
    several = [explainer] if isinstance(explainer, str | Explainer) or callable(explainer) else explainer
    methods = EXPLAINERS.by_name(several)
    classifier = load_model(model)
    require_class(classifier, target, several=True)
    require_class(classifier, against)
    encodings = list(chain.from_iterable(_encoded(classifier, texts, units, segments)))
    targets = Prober(classifier, masking).ask(targets_of(classifier, encodings, target))
    pairs = aimed(classifier, zip(encodings, targets, strict=True))
    probers: dict[Readout, Prober] = {}  # explainers with equal readouts of the whole text share a prober
    attributions = Explanations()
    for name, method in methods.items():
        prober = probers.setdefault(method.reads(), Prober(classifier, masking))
        prober.forget_erased()
        prepared = method.prepare(prober, encodings)
        each = explain_pairs(prober, prepared, pairs, against=against, seed=seed)
        attributions[name] = Attributions(track(each, len(pairs), name, shown=progress))
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
    """As `explain` with one explainer and one target, but one attribution at a time, so the data may exceed memory."""
    method = catalog.build("explainers", explainer)
    encodings: Iterable[Encoding] = chain.from_iterable(_encoded(prober.model, texts, units, segments))
    if method.learns:
        encodings = list(encodings)
    method = method.prepare(prober, list(encodings) if method.learns else [])
    pairs = ((encoding, target) for encoding in encodings)
    yield from explain_pairs(prober, method, pairs, against=against, seed=seed)


def explain_pairs(
    prober: Prober,
    explainer: Explainer,
    pairs: Iterable[tuple[Encoding, str | int]],
    *,
    against: str | int | None = None,
    seed: int = 0,
) -> Iterator[Attribution]:
    """One attribution for each text and target, in order, by an explainer that has been prepared for the model."""
    batches = batches_by_cost(pairs, lambda pair: pair[0].n_units, explainer, prober)
    routines = (
        explanations(prober.model, explainer, some, against=against, seed=seed, masking=prober.masking)
        for some in batches
    )
    return chain.from_iterable(prober.run(routines, explainer.batch_size or prober.texts_at_once))


def batches_by_cost(
    items: Iterable[T], n_units: Callable[[T], int], explainer: Explainer, prober: Prober
) -> Iterator[list[T]]:
    """Batches of as many texts as the explainer accepts and the prober can process."""
    most = explainer.batch_size or prober.texts_at_once
    some: list[T] = []
    elements, rows = 0, 0.0
    for item in items:
        some.append(item)
        units = n_units(item)
        passes = explainer.passes(units)
        elements += units * passes
        # A recursive search erases one unit per round.
        rows += passes / units if explainer.recursive and units else passes
        if len(some) == most or elements > PENDING_ELEMENTS or (prober.pipeline_depth > 1 and rows >= ROWS):
            yield some
            some, elements, rows = [], 0, 0.0
    if some:
        yield some


def _encoded(model: TextClassifier, texts: Texts, units: Units, segments: Segments) -> Iterator[list[Encoding]]:
    """The encodings of the texts, in chunks."""
    source = read_texts(texts)
    if isinstance(source, Data):
        source = match_labels(source, model.labels, model.name, model.outputs)
    if not isinstance(units, str):
        examples = list(source)
        each = zip(examples, _own_units(units, examples), strict=True)
        return (model.encode([example], own, segments) for example, own in each)
    rest = iter(source)
    return iter(lambda: model.encode(islice(rest, _CHUNK), units, segments), [])


def targets_of(
    model: TextClassifier, encodings: Sequence[Encoding], target: Target
) -> Routine[list[Sequence[str | int]]]:
    """The targets of each text, chosen once for all explainers."""
    if target == EACH:
        return [range(1, len(encoding.written) + 1) for encoding in encodings]
    if target == "gold" and model.outputs == "labels":
        return [gold_labels(model.labels, encoding.example) for encoding in encodings]
    if target != ABOVE:
        return [each_target(target)] * len(encodings)
    answers = yield whole_inputs([Question(encoding, target=PREDICTED) for encoding in encodings])
    order = answers.probabilities.argsort(dim=1, descending=True, stable=True).tolist()
    held = (answers.probabilities > answers.threshold).tolist()
    return [[index for index in row if holds[index]] for row, holds in zip(order, held, strict=True)]


def aimed(model: TextClassifier, targets: Iterable[tuple[Encoding, Sequence[Any]]]) -> list[tuple[Encoding, str | int]]:
    """Pairs of each text with each of its targets; a target that names a word selects that word."""
    return [model.aimed(encoding, each) for encoding, chosen in targets for each in chosen]


def _own_units(units: Any, examples: Sequence[Example]) -> list[tuple[Span, ...]]:
    """The spans of every text; for a single text, the outer list may be omitted."""
    arguments.iterable("units", units, "a name, or a list of (start, end)")
    given = list(units)
    if all(map(is_span, given)):
        given = [given]
    if len(given) != len(examples):
        raise TrothError(
            f"units were given for {len(given)} texts, but there are {len(examples)} texts: give one list per text"
        )
    for spans in given:
        arguments.iterable("units", spans, "a name, or a list of (start, end)")
    return [tuple(spans) for spans in given]


def explanations(
    model: TextClassifier,
    explainer: Explainer,
    pairs: Sequence[tuple[Encoding, str | int]],
    *,
    against: str | int | None = None,
    seed: int = 0,
    masking: Masking | None = None,
) -> Routine[list[Attribution]]:
    """One explanation for each text and target: chooses the class, then explains it.

    The explainer's readout of the whole input is computed in the same forward pass.
    """
    unmasked = masking is not None and not masking.puts_mask and getattr(explainer, "baseline", "") != "mask"
    notes = [note for note in model.notes if not (unmasked and note == model.masked_by)]
    readout = explainer.reads()
    # Some readouts depend on a class that is not known yet (a contrast, or one of the gold labels), and a readout for
    # one written token does not apply to the others.
    unknown = against is not None or any(target == "gold" and model.outputs == "labels" for _, target in pairs)
    if model.continues or (readout.about_target and unknown):
        readout = LOGITS
    early = [PREDICTED] * len(pairs)
    if readout.about_target:
        early = [class_of(model.labels, target, each.example, PREDICTED, model.outputs) for each, target in pairs]
    blank = [Question(each, chosen, seed=seed) for (each, _), chosen in zip(pairs, early, strict=True)]
    whole = yield whole_inputs(blank, readout)
    probabilities = whole.probabilities.tolist()
    questions = []
    for row, (encoding, target) in enumerate(pairs):
        about, predicted = encoding.example, int(whole.strongest[row])
        chosen = class_of(model.labels, target, about, predicted, model.outputs, probabilities[row])
        other = None if against is None else class_of(model.labels, against, about, predicted, model.outputs)
        if other == chosen:
            if against != "predicted":
                both = f"target and against are both {model.labels[chosen]!r}"
                raise TrothError(f"{both}; a contrast needs two classes, so name another one")
            in_order = whole.logits[row].argsort(descending=True, stable=True).tolist()
            other = next(index for index in in_order if index != chosen)  # the strongest other class
        questions.append(Question(encoding, chosen, other, seed=seed))
    attributions = yield from explainer.ask(questions)
    made = {"explainer": explainer.full_spec, "model": model.fingerprint, "outputs": model.outputs}
    for attribution, shares in zip(attributions, probabilities, strict=True):
        labels = model.labels_of(attribution.question.encoding)
        own = (attribution.note, attribution.question.encoding.about)
        note = "; ".join(filter(None, (*own, *notes)))
        shown = tuple(shares[: len(labels)])
        # Not shared yet, so they can be changed in place: copying each object would take longer than everything else
        # here.
        vars(attribution).update(made, labels=labels, probabilities=shown, threshold=model.threshold, note=note)
    return attributions
