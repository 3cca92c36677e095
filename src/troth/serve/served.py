"""Requests as jobs: what a request names is checked before it waits, and what it asks shares batches with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from troth.core import catalog
from troth.core.errors import TrothError, unknown
from troth.core.results import matrices
from troth.core.types import Attribution, Encoding, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import PREDICTED, Probe
from troth.engine.routines import Routine
from troth.maskings import Masking
from troth.models import TextClassifier
from troth.models.targets import EACH, Target, require_class
from troth.serve import requests
from troth.serve.work_queue import BatchKey, Job
from troth.verbs.explain import aimed, explanations, targets_of
from troth.verbs.methods import usual_explainer
from troth.verbs.proof import CHOICES, RATIO, masking_of_proof, proofs_of


def as_json(by_method: Sequence[Sequence[Attribution]], target: Target) -> list[dict[str, Any]]:
    """What `troth explain --json` prints of the same text."""
    if target == EACH:
        return [matrix.to_dict() for several in by_method for matrix in matrices(several)]
    return [attribution.to_dict() for row in zip(*by_method, strict=True) for attribution in row]


class Served:
    """Makes jobs for the models that are served."""

    def __init__(self, models: Mapping[str, TextClassifier]) -> None:
        self.models = models

    def explaining(
        self,
        asked: requests.Explain | requests.Compare,
        name: str | None,
        shape: Callable[[list[list[Attribution]], Any], Any] = as_json,
    ) -> Job:
        """A job that explains as `troth explain` does; `shape` makes its result of each method's explanations."""
        model, key, example = self._checked(asked, name)
        methods = requests.explainers(asked.explainers or [usual_explainer(model)])

        def begin(job: Job) -> Routine[Any]:
            require_class(model, asked.target, several=True)
            require_class(model, asked.against)
            encoding = _encoded(model, example, asked)
            (targets,) = yield from targets_of(model, [encoding], asked.target)
            pairs = aimed(model, [(encoding, targets)])
            by_method: list[list[Attribution]] = []
            for done, (name, method) in enumerate(methods.items()):
                job.begins(name, done, len(methods))
                prober = Prober(model, key.masking)
                prepared = method.prepare(prober, [encoding])
                asks = explanations(
                    model, prepared, pairs, against=asked.against, seed=asked.seed, masking=prober.masking
                )
                by_method.append((yield from asks) if pairs else [])
            if asked.proof and asked.target != EACH and encoding.n_units and targets:
                by_method = yield from _proved(model, by_method, asked.masking)
            return shape(by_method, asked.target)

        return Job(key, begin)

    def erasing(self, asked: requests.Erase) -> Job:
        """A job that asks about the whole text, and about what each row of `keep` leaves of it."""
        model, key, example = self._checked(asked, asked.model)

        def begin(job: Job) -> Routine[dict[str, Any]]:
            encoding = _encoded(model, example, asked)
            units, kind = encoding.n_units, encoding.unit_kind
            for row in asked.keep:
                if len(row) != units:
                    raise TrothError(f"keep has {len(row)} numbers, but the text has {units} {kind}s")
            rows = torch.tensor([[1] * units, *asked.keep], dtype=torch.float32).reshape(1 + len(asked.keep), units)
            answer = yield Probe(Question(encoding, target=PREDICTED, seed=asked.seed), rows)
            labels = model.labels_of(encoding)
            whole, *left = (row[: len(labels)] for row in answer.probabilities.tolist())
            return {
                "units": list(encoding.unit_texts),
                "spans": [list(span) for span in encoding.unit_spans],
                "segments": list(encoding.unit_segments),
                "labels": list(labels),
                "outputs": model.outputs,
                "whole": whole,
                "probabilities": left,
                "strongest": answer.strongest.tolist()[1:],
                "note": "; ".join(model.notes),
            }

        return Job(key, begin)

    def _checked(
        self, asked: requests.Explain | requests.Compare | requests.Erase, name: str | None
    ) -> tuple[TextClassifier, BatchKey, Example]:
        """The model, the key and the text of a request."""
        chosen = next(iter(self.models)) if name is None else name
        if chosen not in self.models:
            raise unknown("served model", chosen[:200], self.models)
        key = BatchKey(chosen, requests.masking(asked.masking))
        if not asked.text.strip():
            raise TrothError("the text is empty: there is nothing to explain")
        return self.models[chosen], key, Example("0", asked.text, asked.text_pair)


def _encoded(model: TextClassifier, example: Example, asked: Any) -> Encoding:
    encoding = model.encode([example], asked.units, asked.segments)[0]
    if encoding.n_units > requests.UNITS:
        raise TrothError(
            f"the text has {encoding.n_units:,} {encoding.unit_kind}s, and at most {requests.UNITS:,} are explained "
            "here; use larger units (sentence), a part of the text, or troth explain"
        )
    return encoding


def _proved(
    model: TextClassifier, by_method: Sequence[Sequence[Attribution]], chosen: str | None
) -> Routine[list[list[Attribution]]]:
    """The same with their proofs; all of one text are compared."""
    masking: Masking = catalog.build("maskings", masking_of_proof(model, chosen))
    every = [attribution for several in by_method for attribution in several]
    proofs = iter((yield from proofs_of(every, RATIO, CHOICES, masking)))
    return [[replace(attribution, proof=next(proofs)) for attribution in several] for several in by_method]
