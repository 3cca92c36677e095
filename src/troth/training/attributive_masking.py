"""`fit`: an attribution model G for a classifier (pAML; Barkan et al., 2024): a search for the weights of its losses,
then a training for each metric, of which the best G by that metric is kept.

The classifier stays as it is. Examples to train and to validate on are drawn, stratified, from the training split.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from troth import catalog
from troth.attributive import saving
from troth.attributive.losses import DualMask
from troth.attributive.model import AttributionModel, from_backbone, from_model
from troth.data import Data, load_data
from troth.data._classes import match_labels
from troth.data._folders import tables_in
from troth.errors import TrothError, unknown
from troth.models import TextClassifier, load_model
from troth.training._attributive_loop import Examples, Settings, choose, is_better, judge, train
from troth.training._attributive_search import LAMBDAS, search, weighted
from troth.training.examples import Source, entry_of

__all__ = ["METRICS", "Fitted", "Settings", "fit"]

METRICS = ("comprehensiveness", "sufficiency", "log_odds", "aopc_comprehensiveness", "aopc_sufficiency")
CHOSEN = "aopc_comprehensiveness"


@dataclass(frozen=True)
class Fitted:
    """The folder of the attribution model chosen by each metric, and what its attributive.json says."""

    folders: Mapping[str, Path]
    reports: Mapping[str, Mapping[str, Any]]


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
    restart: bool = False,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Fits G to a model on a data set's training split and writes it to `out`, for several metrics to a folder each.

    `lambdas` gives the weights of the losses and spares the search; `without` leaves losses out. Called again after a
    kill, trials and trainings that were finished are not done again.
    """
    explained, chosen, folder = load_model(model), settings or Settings(), Path(out)
    _check(metrics, without, lambdas)
    drawn = match_labels(_load(data), explained.labels, explained.name)
    own = _start(explained, backbone, chosen)
    training, validation = choose(explained, drawn, chosen)
    identity = {
        "model": explained.fingerprint,
        "data": drawn.fingerprint,
        "backbone": backbone,
        "settings": asdict(chosen),
        "form": asdict(form or DualMask()),
        "without": sorted(without),
        "lambdas": dict(lambdas) if lambdas else None,
    }
    folders = {metric: folder if len(metrics) == 1 else folder / _plain(metric) for metric in metrics}
    reports = {metric: _finished(folders[metric], identity, metric, restart) for metric in metrics}
    if restart:
        (folder / "search.json").unlink(missing_ok=True)
    if all(report is not None for report in reports.values()):
        return Fitted(folders, cast(Mapping[str, Mapping[str, Any]], reports))
    before = {name: weight.detach().clone() for name, weight in own.state_dict().items()}
    watched = list(dict.fromkeys([*metrics, *METRICS]))

    def attempt(loss: DualMask) -> Mapping[str, float]:
        own.load_state_dict(before)
        train(explained, own, training.first(chosen.trial_examples), loss, chosen, epochs=chosen.trial_epochs)
        return judge(explained, own, validation, watched)

    base = form or DualMask()
    if lambdas:
        losses = {metric: asdict(weighted(base, lambdas)) for metric in metrics}
        found: dict[str, Any] = {"sampler": "given", "trials": [], "best": losses}
    else:
        found = search(
            base, without, watched, chosen.trials, chosen.seed, attempt, folder / "search.json", identity, say
        )
    for metric in metrics:
        if reports[metric] is not None:
            continue
        own.load_state_dict(before)
        loss = DualMask(**found["best"][metric])
        course = train(
            explained, own, training, loss, chosen, epochs=chosen.epochs, progress=progress, better=is_better(metric),
            watch=_watch(explained, validation, metric),
        )  # fmt: skip
        facts = {
            "identity": identity,
            "model": {"name": explained.name, "fingerprint": explained.fingerprint},
            "backbone": backbone or "a copy of the explained model's encoder, as in the released code",
            "metric": metric,
            "loss": asdict(loss),
            "learning_rate": chosen.learning_rate,
            "best_step": course.best_step,
            "scores": judge(explained, own, validation, watched),
            "history": course.history,
            "search": found,
            "settings": asdict(chosen),
            "data": _about(drawn, training, validation),
            "seconds": round(course.seconds, 1),
            "device": str(explained.device),
            "versions": {name: metadata.version(name) for name in ("torch", "transformers", "safetensors")},
        }
        saving.save(folders[metric], own, facts)
        reports[metric] = saving.facts(folders[metric])
    return Fitted(folders, cast(Mapping[str, Mapping[str, Any]], reports))


def lambdas_of(text: str) -> dict[str, float]:
    """The weights of the losses as people write them: λ_p, λ_a, λ_inv.

    >>> lambdas_of("1,0.5,0.2")
    {'prediction': 1.0, 'sparsity': 0.5, 'inverse': 0.2}
    """
    try:
        weights = [float(part) for part in text.split(",")]
        return dict(zip(LAMBDAS, weights, strict=True))
    except ValueError:
        raise TrothError(f"lambdas are three numbers, of L_p, L_a and L_inv, as 1,0.5,0.2, not {text!r}") from None


def settings_of(**options: Any) -> Settings:
    """Settings from options by name; None leaves the default."""
    known = {field.name for field in fields(Settings)}
    for name in options:
        if name not in known:
            raise unknown("setting", name, known)
    return Settings(**{name: value for name, value in options.items() if value is not None})


def _start(model: TextClassifier, backbone: str | None, settings: Settings) -> AttributionModel:
    model.embedding_matrix  # noqa: B018  (a black box refuses by name: the masks mix word vectors)
    if backbone is None:
        return from_model(model, settings.seed, settings.variant)
    return from_backbone(backbone, model, settings.seed, settings.variant)


def _watch(model: TextClassifier, validation: Examples, metric: str) -> Callable[[AttributionModel], dict[str, float]]:
    return lambda own: judge(model, own, validation, [metric])


def _load(data: Source) -> Data:
    """The training split where there is one, else what there is."""
    entry = entry_of(data)
    splits: Iterable[str] = () if entry is None else entry.split_names
    if entry is None and isinstance(data, str | Path) and Path(data).is_dir():
        splits = tables_in(Path(data))
    return load_data(data, split="train" if "train" in splits else None)


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


def _finished(folder: Path, identity: Mapping[str, Any], metric: str, restart: bool) -> dict[str, Any] | None:
    if restart:
        (folder / saving.FACTS).unlink(missing_ok=True)
    if not (folder / saving.FACTS).is_file():
        return None
    known = saving.facts(folder)
    if known.get("identity") != json.loads(json.dumps(identity)) or known["metric"] != metric:
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


def _plain(metric: str) -> str:
    return re.sub(r"[^\w.=-]+", "-", metric).strip("-")
