"""Turns requests into jobs: a request is validated before it is queued, and shares batches with other jobs."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from troth.models.targets import EACH, require_class
from troth.report import cited_answer, explanation, export, matrix
from troth.serve import requests
from troth.serve.work_queue import BatchKey, Job
from troth.verbs.cite import cite
from troth.verbs.comparison import sentence
from troth.verbs.explain import aimed, explanations, targets_of
from troth.verbs.methods import usual_explainer
from troth.verbs.proof import CHOICES, RATIO, masking_of_proof, proofs_of

_PROOF = "proof"  # its name among what is in progress or refused


@dataclass(frozen=True)
class ExplainedText:
    """The explanations of one text by every method."""

    model: str
    by_method: Sequence[Sequence[Attribution]]
    is_each: bool  # whether every token of a continuation is explained
    refused: Mapping[str, str]  # the reason of each explainer, or the proof, that cannot be used here

    @property
    def by_target(self) -> list[Sequence[Attribution]]:
        """For each target, the explanations of all methods."""
        return list(zip(*self.by_method, strict=True))

    def to_json(self) -> list[dict[str, Any]]:
        """The output of `troth explain --json` for the same text."""
        if self.is_each:
            return [matrix.to_dict() for several in self.by_method for matrix in matrices(several)]
        return [attribution.to_dict() for row in self.by_target for attribution in row]

    def with_verdict(self) -> dict[str, Any]:
        """The explanations with a comparison of the methods, and the explainers that cannot explain this."""
        comparison = [] if self.is_each else list(filter(None, map(sentence, self.by_target)))
        refused = [{"explainer": name, "error": why} for name, why in self.refused.items()]
        return {"model": self.model, "explanations": self.to_json(), "comparison": comparison, "refused": refused}

    def sections(self) -> list[str]:
        """Sections of a page: the content of `troth explain --html` without its header."""
        refusals = (f'<p role="alert">{html.escape(f"{name}: {why}")}</p>' for name, why in self.refused.items())
        each = zip(*map(matrices, self.by_method), strict=True)
        return [*refusals, *(matrix.sections(list(each)) if self.is_each else explanation.sections(self.by_target))]


class Served:
    """Creates jobs for the served models."""

    def __init__(self, models: Mapping[str, TextClassifier]) -> None:
        self.models = models

    def explaining(
        self,
        asked: requests.Explain | requests.Compare,
        name: str | None,
        shape: Callable[[ExplainedText], Any],
        *,
        may_refuse: bool = False,
    ) -> Job:
        """A job that explains as `troth explain` does; `shape` converts the explanations to its result.

        With `may_refuse`, an explainer that cannot explain this model or text does not end the job, unless none can;
        nor does a proof whose masking the model does not support.
        """
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
                if name in job.refused:
                    continue
                job.begins(name, done, len(methods))
                prober = Prober(model, key.masking)
                prepared = method.prepare(prober, [encoding])
                asks = explanations(
                    model, prepared, pairs, against=asked.against, seed=asked.seed, masking=prober.masking
                )
                by_method.append((yield from asks) if pairs else [])
            is_each = asked.target == EACH
            if asked.proof and not is_each and encoding.n_units and targets and _PROOF not in job.refused:
                job.proves(_PROOF, len(methods))
                by_method = yield from _proved(model, by_method, asked.masking)
            job.compares()
            return shape(ExplainedText(key.model, by_method, is_each, job.refused))

        return Job(key, begin, may_refuse=may_refuse)

    def citing(self, asked: requests.Cite) -> Job:
        """A job that finds the passages that support an answer, as `troth.cite` does."""
        model, name = self._named(asked.model)
        masking = requests.masking(asked.masking, otherwise="delete")

        def begin(job: Job) -> Routine[dict[str, Any]]:
            # The served model itself gets no probes, because `cite` puts the passages into its own prompt.
            yield from ()
            job.begins("passages", 0, 1)
            answer = asked.answer or None
            found = cite(
                model, asked.question, asked.passages, answer, masking=masking, seed=asked.seed,
                generate=asked.generate,
            )  # fmt: skip
            sections = [export.made_by(name), cited_answer.html(found)]
            return {**found.to_dict(), "page": export.html_page("What the answer rests on", sections)}

        return Job(BatchKey(name, masking), begin)

    def erasing(self, asked: requests.Erase) -> Job:
        """A job that runs the model on the whole text, and on the units that each row of `keep` leaves."""
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
        """The model, the batch key and the text of a request."""
        model, chosen = self._named(name)
        key = BatchKey(chosen, requests.masking(asked.masking))
        if not asked.text.strip():
            raise TrothError("the text is empty, so there is nothing to explain")
        return model, key, Example("0", asked.text, asked.text_pair)

    def _named(self, name: str | None) -> tuple[TextClassifier, str]:
        """The model of this name (by default, the first) and its name."""
        chosen = next(iter(self.models)) if name is None else name
        if chosen not in self.models:
            raise unknown("served model", chosen[:200], self.models)
        return self.models[chosen], chosen


def _encoded(model: TextClassifier, example: Example, asked: Any) -> Encoding:
    encoding = model.encode([example], asked.units, asked.segments)[0]
    if encoding.n_units > requests.UNITS:
        raise TrothError(
            f"the text has {encoding.n_units:,} {encoding.unit_kind}s, but at most {requests.UNITS:,} are explained "
            "here; use larger units (sentence), a part of the text, or troth explain"
        )
    return encoding


def _proved(
    model: TextClassifier, by_method: Sequence[Sequence[Attribution]], chosen: str | None
) -> Routine[list[list[Attribution]]]:
    """The same attributions with their proofs; all methods for the text are compared."""
    masking: Masking = catalog.build("maskings", masking_of_proof(model, chosen))
    every = [attribution for several in by_method for attribution in several]
    proofs = iter((yield from proofs_of(every, RATIO, CHOICES, masking)))
    return [[replace(attribution, proof=next(proofs)) for attribution in several] for several in by_method]
