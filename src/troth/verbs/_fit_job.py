"""The work of a fit: trials of the search and trainings, one by one or side by side, and how good G's maps are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from troth.attribution_model.fitting import Course, is_better, most_together, stacked, train, train_together
from troth.attribution_model.losses import DualMask
from troth.attribution_model.maps import whole_maps
from troth.attribution_model.model import AttributionModel, ReadBatch
from troth.attribution_model.search import search, weighted
from troth.attribution_model.start import Examples, FitSettings
from troth.core.types import Attribution, Question
from troth.engine.prober import Prober
from troth.models import TextClassifier
from troth.verbs.measure import measure_each

_TEXTS = 50  # that go through G at a time
METRICS = ("comprehensiveness", "sufficiency", "log_odds", "aopc_comprehensiveness", "aopc_sufficiency")


@dataclass(frozen=True, eq=False)
class FitJob:
    """What every trial and every training of one fit share; each begins with the same weights of G."""

    model: TextClassifier
    own: AttributionModel
    untrained: Mapping[str, Tensor]  # G's weights before the first step
    training: Examples
    validation: Examples
    settings: FitSettings
    form: DualMask
    without: tuple[str, ...]
    say: Callable[[str], None] | None

    def given(self, lambdas: Mapping[str, float], metrics: Sequence[str]) -> dict[str, Any]:
        """What a search would have found, if the user gave the weights."""
        loss = asdict(weighted(self.form, lambdas))
        return {"sampler": "given", "trials": [], "best": dict.fromkeys(metrics, loss)}

    def searched(self, metric: str, metrics: Sequence[str], folder: Path, identity: Mapping[str, Any]) -> Any:
        """The weights for a metric: from its own search, or from the one of all metrics."""
        chosen = self.settings
        aims = [metric] if chosen.trials_per_metric else watched(metrics)
        file = folder / (f"search-{plain(metric)}.json" if chosen.trials_per_metric else "search.json")

        few = self.training.first(chosen.trial_examples)

        def attempt(losses: Sequence[DualMask]) -> list[dict[str, float]]:
            self.own.load_state_dict(self.untrained)
            if len(losses) == 1:
                train(self.model, self.own, few, losses[0], chosen, epochs=chosen.trial_epochs)
                return [judge(self.model, self.own, self.validation, aims)]
            copies = [Course(loss) for loss in losses]
            train_together(self.model, self.own, few, copies, chosen, epochs=chosen.trial_epochs)
            trained = stacked([copy.weights for copy in copies])
            return judge_copies(self.model, self.own, trained, self.validation, [aims] * len(copies))

        together = most_together(self.model, self.own, few, chosen)
        return search(
            self.form, self.without, aims, chosen.trials, chosen.seed, attempt, file, identity, self.say, chosen.search,
            together,
        )  # fmt: skip

    def fitted(
        self, metrics: Sequence[str], missing: Sequence[str], trials_of: Callable[[str], dict[str, Any]], progress: bool
    ) -> Iterator[tuple[str, dict[str, Any], Course]]:
        """Each missing metric with its trials and its course, while G holds the best weights by it.

        Side by side all metrics are trained, also those that are there: what dropout draws depends on the company.
        """
        together = min(most_together(self.model, self.own, self.training, self.settings), len(metrics))
        if together == 1:
            for metric in missing:
                trials = trials_of(metric)
                yield metric, trials, self.trained(DualMask(**trials["best"][metric]), metric, progress)
            return
        for start in range(0, len(metrics), together):
            some = metrics[start : start + together]
            if not set(some) & set(missing):
                continue
            found = {metric: trials_of(metric) for metric in some}
            copies = {metric: Course(DualMask(**found[metric]["best"][metric]), is_better(metric)) for metric in some}
            self.own.load_state_dict(self.untrained)
            train_together(
                self.model, self.own, self.training, list(copies.values()), self.settings, epochs=self.settings.epochs,
                watch=partial(self._watch_copies, some), progress=progress,
            )  # fmt: skip
            for metric, copy in copies.items():
                if metric in missing:
                    self._holding(copy)
                    yield metric, found[metric], copy

    def trained(self, loss: DualMask, metric: str, progress: bool) -> Course:
        """Leaves in G the best weights by a metric."""
        self.own.load_state_dict(self.untrained)
        return train(
            self.model, self.own, self.training, loss, self.settings, epochs=self.settings.epochs, progress=progress,
            better=is_better(metric), watch=lambda now: judge(self.model, now, self.validation, [metric]),
        )  # fmt: skip

    def _watch_copies(self, metrics: Sequence[str], weights: Mapping[str, Tensor]) -> list[dict[str, float]]:
        """Each copy by its own metric."""
        return judge_copies(self.model, self.own, weights, self.validation, [[metric] for metric in metrics])

    def _holding(self, copy: Course) -> AttributionModel:
        """G with the weights of one of the trainings."""
        self.own.load_state_dict(copy.weights, strict=False)  # what is frozen is not among them
        return self.own


def judge(model: TextClassifier, own: AttributionModel, examples: Examples, metrics: Sequence[str]) -> dict[str, float]:
    """How good G's maps are by each metric: the mean over the examples, undefined ones left out."""
    own.eval()
    return _judge(model, _explained(own, examples, lambda *page: own.scores(*page)[None]), [metrics])[0]


def judge_copies(
    model: TextClassifier,
    own: AttributionModel,
    weights: Mapping[str, Tensor],
    examples: Examples,
    metrics: Sequence[Sequence[str]],
) -> list[dict[str, float]]:
    """As `judge` for several sets of weights, [copies, …] each, and the metrics of each; all maps share batches."""
    own.eval()
    return _judge(model, _explained(own, examples, partial(own.scores_of_copies, dict(weights))), metrics)


def _explained(
    own: AttributionModel, examples: Examples, scores: Callable[[ReadBatch, Tensor], Tensor]
) -> list[list[Attribution]]:
    """The maps of each copy; what F predicts is known."""
    encodings, targets = examples.encodings, examples.probabilities.argmax(-1).tolist()
    maps = whole_maps(own, encodings, examples.probabilities, scores, _TEXTS)
    questions = [Question(encoding, target) for encoding, target in zip(encodings, targets, strict=True)]
    return [
        [
            Attribution(question, each[copy].numpy(), signed=False)
            for question, each in zip(questions, maps, strict=True)
        ]
        for copy in range(len(maps[0]))
    ]


def _judge(
    model: TextClassifier, maps: Sequence[Sequence[Attribution]], metrics: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """The mean of each copy by each of its metrics."""
    prober = Prober(model)
    means: list[dict[str, float]] = [{} for _ in maps]
    for metric in dict.fromkeys(chain.from_iterable(metrics)):
        copies = [copy for copy, wanted in enumerate(metrics) if metric in wanted]
        scores = measure_each(prober, [each for copy in copies for each in maps[copy]], metric)
        values = np.array([score.value for score in scores]).reshape(len(copies), -1)
        for copy, row in zip(copies, values, strict=True):
            means[copy][metric] = float(np.nanmean(row)) if not np.isnan(row).all() else float("nan")
    return means


def watched(metrics: Sequence[str]) -> list[str]:
    """The metrics that judge a trial of the search for all of them."""
    return list(dict.fromkeys([*metrics, *METRICS]))


def plain(metric: str) -> str:
    """A metric as part of a file's name."""
    return re.sub(r"[^\w.=-]+", "-", metric).strip("-")
