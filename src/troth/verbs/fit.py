"""`fit`: an attribution model G for a classifier (pAML; Barkan et al., 2024): a search for the weights of its losses,
then a training for each metric, of which the best G by that metric is kept.

The classifier stays as it is. Examples to train and to validate on are drawn, stratified, from the training split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from troth.attribution_model import saving
from troth.attribution_model.losses import DualMask
from troth.attribution_model.search import LAMBDAS, weighted
from troth.attribution_model.search import lambdas_of as lambdas_of
from troth.attribution_model.start import Examples, choose, start
from troth.attribution_model.start import FitSettings as Settings
from troth.attribution_model.start import settings_of as settings_of
from troth.core import arguments, catalog
from troth.core.errors import TrothError, unknown
from troth.core.files import write_json
from troth.data import Data
from troth.data._classes import match_labels
from troth.models import load_model
from troth.models._identity import fingerprint
from troth.models._loading import quiet
from troth.models.targets import require_exclusive
from troth.training.examples import Source, load_training
from troth.training.output import held, own_folder, settle
from troth.verbs._fit_job import METRICS, FitJob, plain
from troth.verbs._fit_job import judge as judge
from troth.verbs._fit_job import watched as watched

__all__ = ["METRICS", "Fitted", "Settings", "fit"]

CHOSEN = "aopc_comprehensiveness"
MARKER = "fit.json"  # what makes a folder ours


@dataclass(frozen=True)
class Fitted:
    """The folder of the attribution model chosen by each metric, and what its attributive.json says."""

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
    """Fits G to a model on a data set's training split and writes it to `out`, for several metrics to a folder each.

    `backbone` is what G starts from: a folder, a hub name, or "explained"; by default the pretrained encoder that the
    model was fine-tuned from. `lambdas` gives the weights of the losses and saves the search; `without` leaves losses
    out. `model_options` are those of load_model. `out` must be new, empty or of an earlier fit. Called again after a
    kill, trials and trainings that were finished are not done again.
    """
    _check(metrics, without, lambdas)
    chosen, form = settings or Settings(), form or DualMask()
    weighted(form, lambdas or {})  # a weight that cannot be is refused before any work
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
            if not (folder / MARKER).is_file():  # killed after the last of them
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
            return job.given(lambdas, metrics) if lambdas else job.searched(metric, metrics, folder, identity)

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
                "data": _about(drawn, training, validation),
                "seconds": round(course.seconds, 1),
                "device": str(explained.device),
                "versions": {name: metadata.version(name) for name in ("torch", "transformers", "safetensors")},
            }
            saving.save(folders[metric], begun.model, facts)
            reports[metric] = saving.facts(folders[metric])
        _mark(folder, metrics)
        return Fitted(folders, {metric: reports[metric] for metric in metrics})


def _mark(folder: Path, metrics: Sequence[str]) -> None:
    """A finished folder needs no claim any more."""
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
        raise TrothError("give lambdas, with 0 for a loss to leave out, or without; not both")
    if len(set(without)) == len(LAMBDAS):
        raise TrothError("without every loss there is nothing to fit")


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
        raise TrothError(f"{folder} holds another attribution model; choose another --out, or use --restart")
    return known


def _about(data: Data, training: Examples, validation: Examples) -> dict[str, Any]:
    return {
        "name": data.name,
        "split": data.split,
        "fingerprint": data.fingerprint,
        "training": len(training.encodings),
        "validation": len(validation.encodings),
    }
