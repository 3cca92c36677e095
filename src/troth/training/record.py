"""What a model folder's train.json says of the training: how texts were masked in it, and which were held out of it."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from troth.core import catalog, reading, trust
from troth.core.errors import TrothError
from troth.data import Data
from troth.data.sources.published import Published
from troth.models import TextClassifier
from troth.training import recipes, reports
from troth.training.examples import entry_of, load_labeled
from troth.training.recipes.masked import Masked

_SHARES = {"no": 0.0, "50/50": 0.5, "masking": 1.0}  # of the rows that each strategy of `masked` masks


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
    file = Path(folder) / reports.NAME
    try:
        if not reports.is_ours(file):
            return None
        report = reading.json_of(file)
    except reading.ExcessError as problem:
        raise TrothError(f"{file} {problem}; restore it, or move it away to go without it") from None
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
        raise TrothError(f"{source} is not what it was when the model was trained")
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
