"""What a request asks of a model, as asks that share batches with those of other requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.results import matrices
from troth.core.types import Attribution, Encoding, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import PREDICTED, Probe
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import Segments, TextClassifier
from troth.models.targets import EACH, Target, require_class
from troth.serve import limits
from troth.serve.jobs import Job
from troth.training.record import usual_masking
from troth.verbs.explain import explanations, targets_of
from troth.verbs.proof import CHOICES, RATIO, proofs_of


def explained(
    job: Job,
    model: TextClassifier,
    example: Example,
    methods: Mapping[str, Explainer],
    *,
    units: Any,
    segments: Segments,
    target: Target,
    against: str | int | None,
    seed: int,
    proof: bool,
) -> Routine[list[list[Attribution]]]:
    """Each method's explanations of one text, as `troth explain` makes them; one per target."""
    require_class(model, target, several=True)
    require_class(model, against)
    encoding = _encoded(model, example, units, segments)
    (targets,) = yield from targets_of(model, [encoding], target)
    pairs = [(encoding, each) for each in targets]
    by_method = []
    for done, (name, method) in enumerate(methods.items()):
        job.begins(name, done, len(methods))
        prepared = method.prepare(Prober(model, job.lane.masking), [encoding])
        by_method.append((yield from explanations(model, prepared, pairs, against=against, seed=seed)) if pairs else [])
    if proof and target != EACH and encoding.n_units and targets:
        by_method = yield from _proved(model, by_method)
    return by_method


def _proved(model: TextClassifier, by_method: Sequence[Sequence[Attribution]]) -> Routine[list[list[Attribution]]]:
    """The same with their proofs; all of one text are compared."""
    masking: Masking = catalog.build("maskings", usual_masking(model))
    every = [attribution for several in by_method for attribution in several]
    proofs = iter((yield from proofs_of(every, RATIO, CHOICES, masking)))
    return [[replace(attribution, proof=next(proofs)) for attribution in several] for several in by_method]


def as_json(by_method: Sequence[Sequence[Attribution]], target: Target) -> list[dict[str, Any]]:
    """What `troth explain --json` prints of the same text."""
    if target == EACH:
        return [matrix.to_dict() for several in by_method for matrix in matrices(several)]
    return [attribution.to_dict() for row in zip(*by_method, strict=True) for attribution in row]


def erased(
    model: TextClassifier, example: Example, keep: Sequence[Sequence[int]], *, units: Any, segments: Segments, seed: int
) -> Routine[dict[str, Any]]:
    """What the model says of the whole text, and of what each row of `keep` leaves of it."""
    encoding = _encoded(model, example, units, segments)
    for row in keep:
        if len(row) != encoding.n_units:
            raise TrothError(f"keep has {len(row)} numbers, but the text has {encoding.n_units} {encoding.unit_kind}s")
    rows = torch.tensor([[1] * encoding.n_units, *keep], dtype=torch.float32).reshape(1 + len(keep), encoding.n_units)
    answer = yield Probe(Question(encoding, target=PREDICTED, seed=seed), rows)
    labels = model.labels_of(encoding)
    probabilities = [row[: len(labels)] for row in answer.probabilities.tolist()]
    return {
        "units": list(encoding.unit_texts),
        "spans": [list(span) for span in encoding.unit_spans],
        "segments": list(encoding.unit_segments),
        "labels": list(labels),
        "outputs": model.outputs,
        "whole": probabilities[0],
        "probabilities": probabilities[1:],
        "strongest": answer.strongest.tolist()[1:],
        "note": "; ".join(model.notes),
    }


def _encoded(model: TextClassifier, example: Example, units: Any, segments: Segments) -> Encoding:
    encoding = model.encode([example], units, segments)[0]
    limits.require_few_units(encoding)
    return encoding
