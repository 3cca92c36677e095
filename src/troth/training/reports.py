"""train.json: what a finished training was and came to. Where it is, the model next to it is whole."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.files import write_json
from troth.core.sheet import without_nan
from troth.training import output, quality
from troth.training.examples import Labeled
from troth.training.loop import Fitted
from troth.training.settings import Settings
from troth.training.state import difference

NAME = "train.json"
_PARTS: Mapping[str, type] = {
    "identity": dict, "scores": dict, "majority": dict, "metric": str, "best_epoch": int, "notes": list,
}  # fmt: skip


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
            f"{folder} holds another training: {differs}; choose another --out, or pass --restart to replace it"
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
    identity: Mapping[str, Any], asked: Mapping[str, Any], labeled: Labeled, settings: Settings, fitted: Fitted
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
