"""`fit`: fits an attribution model G to a classifier (pAML; Barkan et al., 2024): a search for the weights of its
losses, then one training per metric, which keeps the best G by that metric.

The classifier itself is not changed. Training and validation examples are stratified samples of the training split.
Trials of the search and trainings run one after the other or side by side.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from troth.attribution_model import saving
from troth.attribution_model.fitting import Course, is_better, most_together, stacked, train, train_together
from troth.attribution_model.losses import DualMask
from troth.attribution_model.maps import whole_maps
from troth.attribution_model.model import AttributionModel, ReadBatch
from troth.attribution_model.search import LAMBDAS, search, weighted
from troth.attribution_model.search import lambdas_of as lambdas_of
from troth.attribution_model.start import Examples, choose, start
from troth.attribution_model.start import FitSettings as Settings
from troth.attribution_model.start import settings_of as settings_of
from troth.core import arguments, catalog
from troth.core.errors import TrothError, unknown
from troth.core.files import write_json
from troth.core.types import Attribution, Question
from troth.data._classes import match_labels
from troth.engine.prober import Prober
from troth.models import TextClassifier, load_model
from troth.models._identity import fingerprint
from troth.models._loading import quiet
from troth.models.targets import require_exclusive
from troth.training.examples import Source, load_training
from troth.training.output import held, own_folder, settle
from troth.verbs.measure import measure_each

__all__ = ["METRICS", "Fitted", "Settings", "fit"]

METRICS = ("comprehensiveness", "sufficiency", "log_odds", "aopc_comprehensiveness", "aopc_sufficiency")
CHOSEN = "aopc_comprehensiveness"
MARKER = "fit.json"  # marks a folder as written by `fit`
_TEXTS = 50  # texts that pass through G at a time


@dataclass(frozen=True)
class Fitted:
    """The folder of the attribution model chosen by each metric, and the contents of its attributive.json."""

    folders: Mapping[str, Path]
    reports: Mapping[str, Mapping[str, Any]]


@arguments.typed()
@quiet()
def fit(
    model: Any,
    data: Source,
    out: str | Path,
    *,
    backbone: str | None = None,
    metrics: Sequence[str] = (CHOSEN,),
    lambdas: Mapping[str, float] | None = None,
    without: Sequence[str] = (),
    form: DualMask | None = None,
    settings: Settings | None = None,
    model_options: Mapping[str, Any] | None = None,
    restart: bool = False,
    progress: bool = True,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Fits G to a model on the training split of a data set and writes it to `out`, with one folder per metric.

    `backbone` is the model that G starts from: a folder, a hub name, or "explained"; by default the pretrained encoder
    that the model was fine-tuned from. `lambdas` sets the weights of the losses and skips the search; `without` drops
    losses. `model_options` are those of load_model. `out` must be new, empty or written by an earlier fit. When called
    again after an interruption, it does not repeat finished trials and trainings.
    """
    _check(metrics, without, lambdas)
    chosen, form = settings or Settings(), form or DualMask()
    weighted(form, lambdas or {})  # rejects invalid weights before any work
    folder = own_folder(Path(out), MARKER)
    explained = load_model(model, **(model_options or {}))
    require_exclusive(explained, "attributive_masking")
    drawn = match_labels(load_training(data, required=False), explained.labels, explained.name)
    begun = start(explained, backbone, chosen.seed, chosen.variant)
    training, validation = choose(explained, drawn, chosen)
    identity = json.loads(
        json.dumps(
            {
                "model": explained.fingerprint,
                "data": drawn.fingerprint,
                "backbone": begun.source,
                "start": fingerprint(begun.model),
                "settings": asdict(chosen),
                "form": asdict(form),
                "without": sorted(without),
                "lambdas": dict(lambdas) if lambdas else None,
            }
        )
    )
    with held(folder, MARKER):
        folders = {metric: folder if len(metrics) == 1 else folder / plain(metric) for metric in metrics}
        known = {metric: _finished(folders[metric], identity, metric, restart, say) for metric in metrics}
        reports = {metric: report for metric, report in known.items() if report is not None}
        if len(reports) == len(known):
            if not (folder / MARKER).is_file():  # interrupted after the last metric was saved
                _mark(folder, metrics)
            return Fitted(folders, reports)
        if restart:
            for file in folder.glob("search*.json"):
                file.unlink()
        if say is not None:
            say(f"the attribution model starts from {begun.words}")
        untrained = {name: weight.detach().clone() for name, weight in begun.model.state_dict().items()}
        job = FitJob(explained, begun.model, untrained, training, validation, chosen, form, tuple(without), say)

        def trials_of(metric: str) -> dict[str, Any]:
            if not lambdas:
                return job.searched(metric, metrics, folder, identity)
            return {"sampler": "given", "trials": [], "best": dict.fromkeys(metrics, asdict(weighted(form, lambdas)))}

        missing = [metric for metric in metrics if metric not in reports]
        for metric, trials, course in job.fitted(metrics, missing, trials_of, progress):
            loss = DualMask(**trials["best"][metric])
            facts = {
                "identity": identity,
                "model": {"name": explained.name, "fingerprint": explained.fingerprint},
                "backbone": begun.words,
                "metric": metric,
                "loss": asdict(loss),
                "learning_rate": chosen.learning_rate,
                "best_step": course.best_step,
                "scores": judge(explained, begun.model, validation, watched(metrics)),
                "history": course.history,
                "search": trials,
                "settings": asdict(chosen),
                "data": {
                    "name": drawn.name,
                    "split": drawn.split,
                    "fingerprint": drawn.fingerprint,
                    "training": len(training.encodings),
                    "validation": len(validation.encodings),
                },
                "seconds": round(course.seconds, 1),
                "device": str(explained.device),
                "versions": {name: metadata.version(name) for name in ("torch", "transformers", "safetensors")},
            }
            saving.save(folders[metric], begun.model, facts)
            reports[metric] = saving.facts(folders[metric])
        _mark(folder, metrics)
        return Fitted(folders, {metric: reports[metric] for metric in metrics})


def _mark(folder: Path, metrics: Sequence[str]) -> None:
    """Marks a folder as finished and releases the claim on it."""
    write_json(folder / MARKER, {"explainer": "attributive_masking", "metrics": list(metrics)})
    settle(folder, MARKER)


def _check(metrics: Sequence[str], without: Sequence[str], lambdas: Mapping[str, float] | None) -> None:
    for metric in metrics:
        judged: Any = catalog.build("metrics", metric)
        if judged.explains_again or judged.needs_rationale or judged.needs_label or judged.higher_is_better is None:
            raise TrothError(f"an attribution model cannot be chosen by {metric}; use one of {', '.join(METRICS)}")
    for name in without:
        if name not in LAMBDAS:
            raise unknown("loss", name, LAMBDAS)
    if lambdas and without:
        raise TrothError("pass either lambdas (0 leaves a loss out) or without, not both")
    if len(set(without)) == len(LAMBDAS):
        raise TrothError("without leaves out every loss, so there is nothing to fit; keep at least one")


def _finished(
    folder: Path, identity: Mapping[str, Any], metric: str, restart: bool, say: Callable[[str], None] | None
) -> dict[str, Any] | None:
    if restart:
        (folder / saving.FACTS).unlink(missing_ok=True)
    if not (folder / saving.FACTS).is_file():
        return None
    try:
        known = saving.facts(folder)
    except TrothError as error:
        if say is not None:
            say(str(error))
        return None
    if known.get("identity") != identity or known["metric"] != metric:
        raise TrothError(f"{folder} contains a different attribution model; choose another --out, or use --restart")
    return known


@dataclass(frozen=True, eq=False)
class FitJob:
    """What all trials and trainings of one fit share; each starts from the same weights of G."""

    model: TextClassifier
    own: AttributionModel
    untrained: Mapping[str, Tensor]  # the weights of G before the first step
    training: Examples
    validation: Examples
    settings: Settings
    form: DualMask
    without: tuple[str, ...]
    say: Callable[[str], None] | None

    def searched(
        self, metric: str, metrics: Sequence[str], folder: Path, identity: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The loss weights for a metric, from its own search or from the one shared by all metrics."""
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

        return search(
            self.form, self.without, aims, chosen.trials, chosen.seed, attempt, file, identity, self.say, chosen.search,
            most_together(self.model, self.own, few, chosen),
        )  # fmt: skip

    def fitted(
        self, metrics: Sequence[str], missing: Sequence[str], trials_of: Callable[[str], dict[str, Any]], progress: bool
    ) -> Iterator[tuple[str, dict[str, Any], Course]]:
        """Yields each missing metric with its trials and course of training, while G holds its best weights.

        Side by side, all metrics of a group are trained, even finished ones: the random dropout of a copy depends on
        which others are trained with it.
        """
        together = min(most_together(self.model, self.own, self.training, self.settings), len(metrics))
        if together == 1:
            for metric in missing:
                trials = trials_of(metric)
                self.own.load_state_dict(self.untrained)
                course = train(
                    self.model, self.own, self.training, DualMask(**trials["best"][metric]), self.settings,
                    epochs=self.settings.epochs, progress=progress, better=is_better(metric),
                    watch=partial(judge, self.model, examples=self.validation, metrics=[metric]),
                )  # fmt: skip
                yield metric, trials, course
            return
        for first in range(0, len(metrics), together):
            some = metrics[first : first + together]
            if not set(some) & set(missing):
                continue
            found = {metric: trials_of(metric) for metric in some}
            copies = {metric: Course(DualMask(**found[metric]["best"][metric]), is_better(metric)) for metric in some}
            each_by_its_own = [[metric] for metric in some]
            self.own.load_state_dict(self.untrained)
            train_together(
                self.model, self.own, self.training, list(copies.values()), self.settings, epochs=self.settings.epochs,
                watch=partial(judge_copies, self.model, self.own, examples=self.validation, metrics=each_by_its_own),
                progress=progress,
            )  # fmt: skip
            for metric, copy in copies.items():
                if metric in missing:
                    self.own.load_state_dict(copy.weights, strict=False)  # frozen weights are not included
                    yield metric, found[metric], copy


def judge(model: TextClassifier, own: AttributionModel, examples: Examples, metrics: Sequence[str]) -> dict[str, float]:
    """The quality of G's maps by each metric: the mean over the examples, ignoring undefined scores."""
    return _judge(model, own, examples, lambda *page: own.scores(*page)[None], [metrics])[0]


def judge_copies(
    model: TextClassifier,
    own: AttributionModel,
    weights: Mapping[str, Tensor],
    examples: Examples,
    metrics: Sequence[Sequence[str]],
) -> list[dict[str, float]]:
    """As `judge`, for several sets of weights ([copies, …] each) with their own metrics; all maps share batches."""
    return _judge(model, own, examples, partial(own.scores_of_copies, dict(weights)), metrics)


def _judge(
    model: TextClassifier,
    own: AttributionModel,
    examples: Examples,
    scores: Callable[[ReadBatch, Tensor], Tensor],
    metrics: Sequence[Sequence[str]],
) -> list[dict[str, float]]:
    """The mean of each copy by each of its metrics; the predictions of the classifier are already known."""
    own.eval()
    targets = examples.probabilities.argmax(-1).tolist()
    questions = [Question(encoding, target) for encoding, target in zip(examples.encodings, targets, strict=True)]
    maps = whole_maps(own, examples.encodings, examples.probabilities, scores, _TEXTS)  # each [copies, units]
    prober = Prober(model)
    means: list[dict[str, float]] = [{} for _ in metrics]
    for metric in dict.fromkeys(chain.from_iterable(metrics)):
        copies = [copy for copy, wanted in enumerate(metrics) if metric in wanted]
        attributions = [
            Attribution(question, each[copy].numpy(), signed=False)
            for copy in copies
            for question, each in zip(questions, maps, strict=True)
        ]
        values = np.array([score.value for score in measure_each(prober, attributions, metric)])
        for copy, row in zip(copies, values.reshape(len(copies), -1), strict=True):
            means[copy][metric] = float(np.nanmean(row)) if not np.isnan(row).all() else float("nan")
    return means


def watched(metrics: Sequence[str]) -> list[str]:
    """The metrics that judge a trial of the shared search."""
    return list(dict.fromkeys([*metrics, *METRICS]))


def plain(metric: str) -> str:
    """A metric's name as part of a file name."""
    return re.sub(r"[^\w.=-]+", "-", metric).strip("-")
