"""`prove`: runs the model without the top units of an explanation and, for comparison, without as many random units.

The random choices of a text are shared by all its methods. If there are no more possible choices than would be drawn,
all of them are evaluated, and the share that does at least as well is exact; otherwise it is (1 + how many) / (1 +
drawn), which is never too small. Ties count as doing as well. `comparison` decides which method is most faithful, if
that can be decided.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.proof import Proof
from troth.core.results import Attributions, Explanations
from troth.core.types import Attribution, Example
from troth.core.units import UnitKind
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.metrics._erasing import basis_points, top_units
from troth.models import Segments, TextClassifier, load_model
from troth.training.record import usual_masking
from troth.verbs.comparison import SAME, compare
from troth.verbs.measure import require_model_of

RATIO, CHOICES = 0.2, 100
_FEWEST = 20  # below this many choices, no p-value can reach 5 %


@overload
def prove(
    model: Any,
    attributions: Mapping[str, Sequence[Attribution]],
    *,
    ratio: float = ...,
    choices: int = ...,
    masking: str | Masking | None = ...,
) -> Explanations: ...


@overload
def prove(
    model: Any,
    attributions: Iterable[Attribution],
    *,
    ratio: float = ...,
    choices: int = ...,
    masking: str | Masking | None = ...,
) -> Attributions: ...


@arguments.typed()
def prove(
    model: Any,
    attributions: Iterable[Attribution] | Mapping[str, Sequence[Attribution]],
    *,
    ratio: float = RATIO,
    choices: int = CHOICES,
    masking: str | Masking | None = None,
) -> Attributions | Explanations:
    """Returns the attributions with their `.proof`: model outputs without their top units, and without random ones.

    Accepts what `explain` returns, for one method or several; the methods of one text are compared. By default,
    `masking` is the one that the model was trained for, else `mask_token`, else `delete`. A text without units has no
    proof.
    """
    classifier = load_model(model)
    if isinstance(attributions, Mapping):
        for name, several in attributions.items():
            arguments.iterable(f"attributions[{name!r}]", several, "a list of attributions")
        every = [attribution for several in attributions.values() for attribution in several]
        proved = iter(prove(classifier, every, ratio=ratio, choices=choices, masking=masking))
        parts = ((name, itertools.islice(proved, len(several))) for name, several in attributions.items())
        return Explanations((name, Attributions(part)) for name, part in parts)
    every = Attributions(attributions)
    for attribution in every:
        arguments.of_kind("each of attributions", attribution, Attribution, "an Attribution")
    if choices < _FEWEST:
        raise TrothError(f"a proof needs at least {_FEWEST} random choices, not {choices}")
    if basis_points(ratio) == 0:
        raise TrothError(f"the share of units that a proof erases must be above 0, not {ratio}")
    by: Masking = catalog.build("maskings", usual_masking(classifier) if masking is None else masking)
    if by.stochastic:
        raise TrothError(
            f"a proof needs a masking that erases the same way every time; {catalog.name_of(by)} draws at random"
        )
    groups: dict[object, list[int]] = {}
    for place, attribution in enumerate(every):
        require_model_of(attribution, classifier)
        if attribution.question.n_units:
            groups.setdefault(_text_of(attribution), []).append(place)
    asks = (proofs_of([every[place] for place in places], ratio, choices, by) for places in groups.values())
    for places, proofs in zip(groups.values(), Prober(classifier, by).run(asks), strict=True):
        for place, proof in zip(places, proofs, strict=True):
            every[place] = replace(every[place], proof=proof)
    return every


def masking_of_proof(model: TextClassifier, chosen: str | Masking | None) -> str:
    """The user's masking if it is deterministic; otherwise the usual masking for the model."""
    by: Masking = catalog.build("maskings", usual_masking(model) if chosen is None else chosen)
    return usual_masking(model) if by.stochastic else catalog.spec(by)


def passes_of(
    model: TextClassifier,
    examples: Sequence[Example],
    methods: Mapping[str, Explainer],
    units: UnitKind = "word",
    *,
    segments: Segments = "first",
    proof: bool = True,
) -> dict[str, int]:
    """The approximate number of model inputs (for an endpoint, requests) for each method and for the proof."""
    counts = [encoding.n_units for encoding in model.encode(examples, units, segments)]
    passes = {name: round(sum(1 + method.passes(count) for count in counts)) for name, method in methods.items()}
    choices = (min(CHOICES, math.comb(count, count_of(RATIO, count))) for count in counts if count)
    return passes | ({"proof": sum(choices) + len(methods) * len(counts)} if proof else {})


def count_of(ratio: float, n_units: int) -> int:
    """How many units are erased: rounded to the nearest integer, and at least one.

    >>> [count_of(0.2, n_units) for n_units in (1, 7, 8, 12, 13)]
    [1, 1, 2, 2, 3]
    """
    return max(1, (basis_points(ratio) * n_units + 5_000) // 10_000)


def _text_of(attribution: Attribution) -> object:
    question = attribution.question
    encoding = question.encoding
    return attribution.example, attribution.spans, encoding.unit_segments, encoding.asked, question.seed


def proofs_of(attributions: Sequence[Attribution], ratio: float, most: int, masking: Masking) -> Routine[list[Proof]]:
    """The proofs of one text's explanations."""
    question = attributions[0].question
    count = count_of(ratio, question.n_units)
    exact = math.comb(question.n_units, count) <= most
    if exact:
        chosen = torch.tensor(list(itertools.combinations(range(question.n_units), count)))
    else:
        order = question.draws("proof").uniforms(most, question.n_units).argsort(dim=1, stable=True)
        chosen = order[:, :count]
    random_units = torch.zeros(len(chosen), question.n_units).scatter_(1, chosen, 1.0)  # [choices, units]
    top = torch.cat([top_units(attribution.scores, [count]) for attribution in attributions])
    answer = yield Probe(question, torch.cat([keep_all(question), 1 - top, 1 - random_units]), masking)
    answer = replace(answer, logits=answer.logits.double())
    probabilities = answer.probabilities.numpy()  # [rows, classes]
    whole, tops, random = probabilities[0], probabilities[1 : 1 + len(top)], probabilities[1 + len(top) :]

    def proofs() -> Iterator[Proof]:
        for row, (attribution, erased) in enumerate(zip(attributions, tops, strict=True), start=1):
            target = attribution.target
            others = random[:, target]
            as_low = int((others <= erased[target] + SAME).sum())
            low, high = np.percentile(others, [2.5, 97.5])
            rivals = [index for index in range(len(whole)) if index != target and answer.outputs != "values"]
            runner_up = max(rivals, key=lambda index: whole[index], default=None)
            yield Proof(
                ratio=ratio,
                count=count,
                masking=catalog.spec(masking),
                probability=float(whole[target]),
                without_top=float(erased[target]),
                without_random=float(others.mean()),
                random_low=float(low),
                random_high=float(high),
                choices=len(others),
                exact=exact,
                chance=as_low / len(others) if exact else (1 + as_low) / (1 + len(others)),
                predicted_without_top=_said(attribution, answer, row),
                runner_up=attribution.label(runner_up),
                runner_up_probability=None if runner_up is None else float(whole[runner_up]),
                runner_up_without_top=None if runner_up is None else float(erased[runner_up]),
                random=tuple(others.tolist()),
            )

    found = list(proofs())
    # With two classes, one's loss is the other's gain, so only explanations of the same class are compared.
    for target in {attribution.target for attribution in attributions}:
        places = [place for place, attribution in enumerate(attributions) if attribution.target == target]
        best = compare([found[place] for place in places]).best if len(places) > 1 else None
        if best is not None:
            for place in places:
                found[place] = replace(found[place], most_faithful=place == places[best])
    return found


def _said(attribution: Attribution, answer: Answers, row: int) -> str:
    """The model's prediction for a row: the class, or whether the explained label holds; empty for values."""
    if answer.outputs == "values":
        return ""
    name = attribution.label(attribution.target)
    said = int(replace(answer, questions=[attribution.question]).predicted[row])
    return attribution.label(said) if answer.outputs == "classes" else name if said else f"not {name}"
