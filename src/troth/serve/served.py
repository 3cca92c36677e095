"""Requests as jobs: what a request names is looked up and checked before it waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from troth.core.errors import TrothError, unknown
from troth.core.types import Attribution, Example
from troth.engine.routines import Routine
from troth.models import TextClassifier
from troth.serve import asks, limits, requests
from troth.serve.jobs import Job, Lane


class Served:
    """Makes jobs for the models that are served."""

    def __init__(self, models: Mapping[str, TextClassifier]) -> None:
        self.models = models

    def explaining(
        self,
        asked: requests.Explain | requests.Compare,
        name: str | None,
        shape: Callable[[list[list[Attribution]], Any], Any] = asks.as_json,
    ) -> Job:
        """A job that explains; `shape` makes its result of each method's explanations and the target."""
        model, lane = self._lane(name, asked.masking)
        example = _example(asked)
        methods = limits.explainers(asked.explainers)

        def begin(job: Job) -> Routine[Any]:
            found = yield from asks.explained(
                job, model, example, methods, units=asked.units, segments=asked.segments, target=asked.target,
                against=asked.against, seed=asked.seed, proof=asked.proof,
            )  # fmt: skip
            return shape(found, asked.target)

        return Job(lane, begin)

    def erasing(self, asked: requests.Erase) -> Job:
        """A job that asks about erased inputs."""
        model, lane = self._lane(asked.model, asked.masking)
        example = _example(asked)

        def begin(job: Job) -> Routine[Any]:
            return asks.erased(model, example, asked.keep, units=asked.units, segments=asked.segments, seed=asked.seed)

        return Job(lane, begin)

    def _lane(self, name: str | None, masking: str) -> tuple[TextClassifier, Lane]:
        chosen = next(iter(self.models)) if name is None else name
        if chosen not in self.models:
            raise unknown("served model", chosen[:200], self.models)
        return self.models[chosen], Lane(chosen, limits.masking(masking))


def _example(asked: requests.Explain | requests.Compare | requests.Erase) -> Example:
    if not asked.text.strip():
        raise TrothError("the text is empty: there is nothing to explain")
    return Example("0", asked.text, asked.text_pair)
