"""Trains a classifier: data, a base and a recipe become a model folder that any Hugging Face tool can load."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from troth.core import arguments, catalog, files
from troth.core.errors import TrothError
from troth.data import Dataset
from troth.models._loading import quiet
from troth.models.encoder import Encoder
from troth.training import bases, output, presets, recipes, record
from troth.training import settings as every_setting
from troth.training.checkpoints import Checkpoints, reason, weights_of
from troth.training.corpus import Corpus
from troth.training.examples import Labeled, Source, entry_of, load_labeled
from troth.training.fit import fit
from troth.training.loop import TrainingResult
from troth.training.settings import Settings

__all__ = ["Trained", "TrainingPlan", "fit", "plan", "train"]

_FORMAT = 3  # of train.json and checkpoints; another number is a different run
_CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Trained:
    """A finished training: its folder and the contents of train.json."""

    folder: Path
    report: Mapping[str, Any]

    @property
    def scores(self) -> Mapping[str, Any]:
        """The scores of the chosen weights, by split and set of inputs."""
        scores: Mapping[str, Any] = self.report["scores"]
        return scores


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that is decided before the first step: recipe, base, examples and settings."""

    recipe: recipes.Recipe
    base: bases.Base
    labeled: Labeled
    settings: Settings
    max_length: int | None
    asked: Mapping[str, Any]  # data and settings as the user gave them, recorded in train.json

    def model(self) -> Encoder:
        """The base with one output per class; new parameters are drawn with the seed."""
        examples = self.labeled.training.examples
        return self.base.build(examples, self.labeled.labels, self.settings.seed, self.max_length)


@arguments.typed(recipe='a name such as "plain", or a Recipe', base="a folder, a hub name, or a Base")
@quiet()
def train(
    recipe: recipes.RecipeLike,
    data: Source,
    base: str | bases.Base,
    out: str | os.PathLike[str],
    *,
    resume: bool = True,
    checkpoint_seconds: float = 300.0,
    checkpoints: bool = True,
    progress: bool = True,
    cpu: bool = False,
    **options: Any,
) -> Trained:
    """Trains `base` on `data` by a recipe and writes the model to `out`; if it was killed, calling it again resumes.

    With `checkpoints=False`, for a training of seconds, it starts over instead. The options are those of `plan`: `like`
    (a paper's settings: fmm, roar, soft, saloss), any field of `Settings`, and which examples to use.
    """
    folder = record.own(out)
    planned = plan(recipe, data, base, **options)
    model = planned.model()
    identity = _identify(planned, model)
    with output.held(folder, record.NAME):
        notes: list[str] = []
        report = record.finished(folder, identity, notes) if resume else None
        if report is not None:
            if _is_first():
                _tidy(folder)
            return Trained(folder, report)
        if not resume and _is_first():
            (folder / record.NAME).unlink(missing_ok=True)
        labeled = planned.labeled
        fitted = fit(
            model,
            planned.recipe,
            corpus_of(model, labeled.training),
            corpus_of(model, labeled.validation),
            planned.settings,
            others={name: corpus_of(model, examples) for name, examples in labeled.others.items()},
            folder=folder / _CHECKPOINTS if checkpoints else None,
            identity=identity,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
            cpu=cpu,
        )
        return _write(folder, model, planned, identity, fitted, notes)


@arguments.typed(recipe='a name such as "plain", or a Recipe', base="a folder, a hub name, or a Base")
def plan(
    recipe: recipes.RecipeLike,
    data: Source,
    base: str | bases.Base,
    *,
    like: str | None = None,
    validation: Source | None = None,
    tests: Iterable[str] = (),
    hold_out: float | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    max_length: int | None = None,
    **settings: Any,
) -> TrainingPlan:
    """Resolves all settings of a training. Without a validation split, a fifth of train is held out; `tests` are scored
    at the end.

    Settings are the base's own, overridden by those of the paper in `like`, overridden by those given one by one.
    """
    method, start, data = recipes.build(recipe), bases.build(base), presets.source_like(like, data)
    entry = entry_of(data)
    name, pair = ("", False) if entry is None else (catalog.name_of(entry), entry.auxiliary is not None)
    method = presets.recipe_like(like, method, name)
    chosen = presets.resolve(settings, like, method, start, name, pair=pair)
    share = presets.held_out(like, data) if hold_out is None else hold_out
    labeled = load_labeled(data, validation, hold_out=share, tests=tests, limit=limit, columns=columns)
    if labeled.metric is not None:
        chosen = {"metric": labeled.metric, **chosen}
    sources = {"data": _named(data), "validation": _named(validation), "tests": list(tests)}
    which = {"hold_out": share, "limit": limit, "columns": dict(columns or {}), "max_length": max_length}
    asked: dict[str, Any] = {**sources, **which, "like": like}
    settled = every_setting.settings(**chosen)
    every_setting.require_weights(settled, len(labeled.labels))
    return TrainingPlan(method, start, labeled, settled, max_length, asked)


def _named(source: Source | None) -> str | None:
    """The name of a data source, for train.json."""
    if source is None or isinstance(source, Dataset):
        return None if source is None else source.name
    return str(source) if isinstance(source, str | os.PathLike) else "examples in memory"


def corpus_of(model: Encoder, examples: Any) -> Corpus:
    """The examples as the model reads them, with their classes."""
    # With the tokens of both texts, which masked fine-tuning may erase. For plain training this makes no difference.
    encodings = model.encode(examples, units="token", segments="both")
    return Corpus(encodings, [int(example.label) for example in examples])


def _identify(planned: TrainingPlan, model: Encoder) -> dict[str, Any]:
    """The identity of a training: a checkpoint resumes only the run that wrote it."""
    labeled, recipe_files = planned.labeled, recipes.files_of(planned.recipe)
    return {
        "format": _FORMAT,
        "recipe": recipes.spec(planned.recipe, full=True),
        "base": catalog.spec(planned.base, full=True),
        **every_setting.as_dict(planned.settings),
        "training data": labeled.training.fingerprint,
        "validation data": labeled.validation.fingerprint,
        "labels": list(labeled.labels),
        "max_length": model.max_length,
        "base fingerprint": model.fingerprint,
        **({"recipe files": recipe_files} if recipe_files else {}),
    }


def _write(
    folder: Path,
    model: Encoder,
    planned: TrainingPlan,
    identity: Mapping[str, Any],
    fitted: TrainingResult,
    notes: Sequence[str] = (),
) -> Trained:
    """Writes the model folder; train.json is written last, so its presence means that the training is finished."""
    report = record.compose(identity, planned.asked, planned.labeled, planned.settings, fitted)
    report["notes"] += [*notes, *fitted.notes]
    if not _is_first():
        return Trained(folder, report)
    try:
        with files.writing_into(folder) as aside:
            model.model.save_pretrained(aside, state_dict=weights_of(model.model))
            model.tokenizer.save_pretrained(aside)
        record.write(folder, report)
    except (OSError, SafetensorError, files.CannotWriteError) as error:
        raise TrothError(
            f"cannot write the model to {folder} ({reason(error)}); its checkpoint is kept: "
            f"{files.remedy(error)} and run the same command again"
        ) from error
    _tidy(folder)
    return Trained(folder, report)


def _tidy(folder: Path) -> None:
    """Deletes the files of an unfinished training, which may remain if it was killed after the report was written."""
    output.settle(folder, record.NAME)
    Checkpoints(folder / _CHECKPOINTS).clear()


def _is_first() -> bool:
    """Whether this is the process that writes files."""
    return int(os.environ.get("RANK", "0")) == 0
