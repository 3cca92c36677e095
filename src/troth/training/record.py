"""train.json: what a finished training was and came to. Where it is, the model next to it is whole.

Whoever loads the model reads from it how texts were masked in the training, and which were held out of it.
"""

import importlib.metadata
import json
import os
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core import catalog, reading, trust
from troth.core.errors import TrothError
from troth.core.files import write_json
from troth.core.sheet import without_nan
from troth.data import Data
from troth.data.sources.published import Published
from troth.models import TextClassifier
from troth.training import output, quality, recipes
from troth.training.checkpoints import difference
from troth.training.examples import Labeled, entry_of, load_labeled
from troth.training.loop import TrainingResult
from troth.training.recipes.masked import Masked
from troth.training.settings import Settings

NAME = "train.json"
_PARTS: Mapping[str, type] = {
    "identity": dict, "scores": dict, "majority": dict, "metric": str, "best_epoch": int, "notes": list,
}  # fmt: skip
_SHARES = {"no": 0.0, "50/50": 0.5, "masking": 1.0}  # of the rows that each strategy of `masked` masks


def own(out: str | os.PathLike[str]) -> Path:
    """The folder of a training, unless it is somebody else's or cannot be written."""
    return output.own_folder(Path(out), NAME, is_ours)


def is_ours(file: Path) -> bool:
    """Whether a train.json is one of ours, perhaps damaged: other tools call their training data so."""
    with reading.opened(file, reading.DATA) as stream:
        return b'"identity"' in stream.read(200)


def finished(folder: Path, identity: Mapping[str, Any], notes: list[str]) -> Mapping[str, Any] | None:
    """The report of the same training, if it is done already; another's is never overwritten.

    A damaged report is set aside and noted: the training is done again.
    """
    file = folder / NAME
    if not file.is_file():
        return None
    report = read(file)
    if report is None:
        aside = file.with_name(f"{NAME}.damaged")
        output.claim_file(folder, NAME).touch()
        file.replace(aside)
        notes.append(f"{file} was damaged: it is kept as {aside.name}, and the training was done again")
        return None
    if differs := difference(report["identity"], identity):
        raise TrothError(
            f"{folder} contains a different training: {differs}; choose another --out, or pass --restart to replace it"
        )
    return report


def read(file: Path) -> dict[str, Any] | None:
    """A whole report; None where it is not."""
    try:
        report = reading.json_of(file)
    except (OSError, ValueError):
        return None
    whole = isinstance(report, dict) and all(isinstance(report.get(name), kind) for name, kind in _PARTS.items())
    return report if whole and isinstance(report["scores"].get("validation"), dict) else None


def compose(
    identity: Mapping[str, Any], asked: Mapping[str, Any], labeled: Labeled, settings: Settings, fitted: TrainingResult
) -> dict[str, Any]:
    """What train.json says of a training that ended."""
    versions = ("troth", "torch", "transformers", "tokenizers", "accelerate", "safetensors", "numpy")
    metric = labeled.metric or settings.metric  # the one to quote, not always the one the epoch was chosen by
    parts = {"validation": labeled.validation, **labeled.others}
    known, classes = _labels(labeled.training), len(labeled.labels)
    majority = {name: quality.majority(metric, known, _labels(data), classes) for name, data in parts.items()}
    report = {
        "identity": dict(identity),
        "asked": dict(asked),
        "data": {
            "name": labeled.training.name,
            "training": len(labeled.training),
            "validation": len(labeled.validation),
            "validation split": labeled.validation.split,
            **{name: len(data) for name, data in labeled.others.items()},
        },
        "notes": list(labeled.notes),
        "metric": metric,
        "best_epoch": fitted.best_epoch,
        "scores": fitted.scores,
        "majority": majority,
        "history": fitted.history,
        "steps": fitted.steps,
        "seconds": round(fitted.seconds, 1),
        "device": fitted.device,
        "precision": fitted.precision,
        "processes": fitted.processes,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in versions},
    }
    plain: dict[str, Any] = without_nan(report)
    return plain


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """Whole or not at all; from then on the folder needs no claim."""
    write_json(folder / NAME, report, indent=2)
    output.settle(folder, NAME)


def _labels(data: Any) -> Tensor:
    return torch.tensor([int(example.label) for example in data])


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from its source
        return "unknown"


@dataclass(frozen=True)
class Record:
    """How a model was trained."""

    masking: str  # the masking it learned, empty for a model that saw only whole texts
    masked_share: float  # of the training rows
    file: Path  # the train.json itself
    asked: Mapping[str, Any]  # what `plan` was given of data, as far as it was recorded
    validation: str  # fingerprint of the examples that were held out

    @property
    def data(self) -> str:
        """What it was trained on; empty where that was not recorded."""
        return str(self.asked.get("data") or "")

    def held_out(self) -> Data:
        """The examples its epochs were chosen on, rebuilt from the same source; nothing is downloaded for it.

        Raises where that cannot be done, or where what comes out is not what it was.
        """
        if not self.data or self.data == "examples in memory":
            raise TrothError("train.json does not name the data of the training")
        known = os.environ.get("TROTH_DATA")
        origin = trust.Origin.file(self.file, self.file.absolute().parent.parent, *([Path(known)] if known else []))
        for name in filter(None, (self.data, self.asked.get("validation"))):
            origin.data(str(name))
        return _rebuilt(json.dumps([dict(self.asked), self.validation]), os.environ.get("TROTH_DATA"), os.getcwd())


def record_of(model: TextClassifier) -> Record | None:
    """The record in the folder that a model was loaded from; of models of other origins nothing is known."""
    folder = getattr(model.model, "name_or_path", None)
    if not folder:
        return None
    file = Path(folder) / NAME
    try:
        if not is_ours(file):
            return None
        report = reading.json_of(file)
    except reading.ExcessError as problem:
        raise TrothError(f"{file} {problem}; restore it, or move it away to continue without it") from None
    except (OSError, ValueError):
        return None
    try:
        identity, asked = report["identity"], report.get("asked", {})
        masking, share = _masked(str(identity["recipe"]))
        return Record(masking, share, file, dict(asked), str(identity.get("validation data", "")))
    except (KeyError, TypeError, AttributeError, TrothError):
        return None


def _masked(recipe: str) -> tuple[str, float]:
    """The masking of a recipe and the share of rows it masks: of "salience(…) + masked(…)", too."""
    # Only what matters here is built: another part may name a file that is gone by now.
    for name, options in map(catalog.parse, recipes.split(recipe)):
        share = _SHARES[options.get("train", Masked.train)] if name == catalog.name_of(Masked) else 0.0
        if share:
            return str(options.get("masking", Masked.masking)), share
    return "", 0.0


@lru_cache(maxsize=1)  # read by what chooses the texts to test and by the test itself
def _rebuilt(report: str, data_folder: str | None, folder: str) -> Data:
    asked, fingerprint = json.loads(report)
    source = asked["data"]
    for name in filter(None, (source, asked.get("validation"))):
        if not _at_hand(name):
            raise TrothError(f"{name} is not on this machine (TROTH_DATA names the folder of data sets)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said when the model was trained
        held = load_labeled(
            source, asked.get("validation"), hold_out=asked.get("hold_out"), limit=asked.get("limit"),
            columns=asked.get("columns"),
        ).validation  # fmt: skip
    if held.fingerprint != fingerprint:
        raise TrothError(f"{source} has changed since the model was trained")
    return held


def _at_hand(source: str) -> bool:
    entry = entry_of(source)
    if isinstance(entry, Published):
        return "train" in entry.local_tables()
    return entry is not None or Path(source).exists()


def usual_masking(model: TextClassifier) -> str:
    """How to erase units of a model's texts: as in its training, if that masked; else by its mask token, if any."""
    record = record_of(model)
    if record is not None and record.masking:
        return record.masking
    try:
        model.mask_id  # noqa: B018  (raises where there is none)
    except TrothError:
        return "delete"
    return "mask_token"
