"""The folders of trainings: `files/NAME`, NAME being what the training is, with its result and perhaps its model.

All folders of a cell appear at once and are then moved to their places, so that a cell that was killed did either
nothing or everything.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.models.encoder import Encoder
from troth.store import quarantine, records
from troth.store.cells import Cell
from troth.store.records import DamagedError
from troth.studies.roar._plan import Training
from troth.sweep.context import Context
from troth.training.checkpoints import weights_of

_NAME = "result.json"


@dataclass(frozen=True)
class Result:
    """files/NAME/result.json: what was trained, and the result."""

    seed: int
    by: str
    trail: Sequence[int]
    counted: str
    predicted: Sequence[int]
    validation: float | None  # None: undefined
    best_epoch: int
    seconds: float


def is_done(context: Context, name: str, training: Training, tested: int, classes: int, with_model: bool) -> bool:
    """Whether a training is done, with its model where that is needed; a damaged one is named and set aside."""
    folder = context.folder_path(name)
    try:
        stored = result(context, name)
        if any(stored[key] != value for key, value in training.specs().items()):
            raise DamagedError(folder / _NAME, "it is about another training")
        if len(stored["predicted"]) != tested or not all(0 <= label < classes for label in stored["predicted"]):
            raise DamagedError(folder / _NAME, "its predictions are not those of the test examples")
    except FileNotFoundError:
        return False
    except DamagedError as damage:
        warnings.warn(f"{damage.path} is damaged ({damage.why}): set aside, the training is done again", stacklevel=2)
        quarantine.set_aside(context.store, folder)
        return False
    return not with_model or ((folder / "config.json").is_file() and any(folder.glob("*.safetensors")))


def result(context: Context, name: str) -> dict[str, Any]:
    """A training's result; an error where its file is not what was written."""
    return records.read(context.folder_path(name) / _NAME, Result)


def write(folder: Path, result: Mapping[str, Any], model: Encoder | None) -> None:
    """A training's folder: its result, and its model where that is needed."""
    folder.mkdir()
    if model is not None:
        model.model.save_pretrained(folder, state_dict=weights_of(model.model))
        model.tokenizer.save_pretrained(folder)
    validation = result["validation"] if math.isfinite(result["validation"]) else None  # JSON has no NaN
    (folder / _NAME).write_text(json.dumps({**result, "validation": validation}))


def distribute(context: Context, cell: Cell) -> None:
    """Moves every training of a finished cell to its own place; after a kill, those that are not there yet."""
    whole = context.folder_path(cell.name)
    if not whole.is_dir():
        return
    for part in sorted(whole.iterdir()):
        place = context.folder_path(part.name)
        if place.exists():  # without its model, which nothing needed then
            shutil.rmtree(place)
        part.rename(place)
    whole.rmdir()
