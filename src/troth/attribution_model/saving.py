"""A fitted attribution model as a folder: weights as safetensors, its tokenizer, and attributive.json, which records
how it was fitted.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from troth.attribution_model.losses import DualMask
from troth.attribution_model.model import AttributionModel
from troth.core import reading, trust
from troth.core.errors import TrothError
from troth.core.files import write_json, writing_into
from troth.core.hashing import files_digest
from troth.models import _pretrained

FACTS = "attributive.json"
_WEIGHTS = "attributive.safetensors"


def save(folder: Path, model: AttributionModel, facts: Mapping[str, Any]) -> None:
    """Writes the model; attributive.json is written last, so its presence means that the folder is complete."""
    with writing_into(folder) as aside:
        model.backbone.config.save_pretrained(aside)
        model.tokenizer.save_pretrained(aside)
        weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
        save_file({name: weight.clone() for name, weight in weights.items()}, str(aside / _WEIGHTS))
    write_json(folder / FACTS, {"labels": list(model.labels), "variant": model.variant, **facts}, indent=1)


def facts(folder: str | Path) -> dict[str, Any]:
    """The contents of attributive.json."""
    path = Path(folder) / FACTS
    if not path.is_file():
        # An existing folder belongs to somebody else; fitting would refuse to write into it.
        there = Path(folder).exists()
        found, out = ("no attribution model is in", "NEW_FOLDER") if there else ("there is no folder", folder)
        raise TrothError(f"{found} {folder}; fit one: troth fit attributive_masking --out {out}")
    try:
        about: dict[str, Any] = reading.json_of(path)
        if not isinstance(about, dict) or not {"labels", "variant", "loss", "metric"} <= about.keys():
            raise ValueError("something is missing")
        trust.Origin.file(path).spec("metrics", str(about["metric"]))
    except ValueError as error:
        raise TrothError(f"{path} cannot be read ({error}); fit the attribution model again") from None
    return about


def load(folder: str | Path) -> AttributionModel:
    """Loads the model once; it is moved to the device of the classifier."""
    path = Path(folder)
    facts(path)
    return _load(str(path.resolve()), (path / FACTS).stat().st_mtime_ns)


def content(folder: str | Path) -> str:
    """A hash of all files of a fitted model: weights, tokenizer and record of the fit."""
    facts(folder)
    return files_digest(Path(folder))


def loss_of(about: Mapping[str, Any]) -> DualMask:
    """The loss that the model was fitted with."""
    return DualMask(**about["loss"])


@lru_cache(maxsize=4)
def _load(folder: str, written: int) -> AttributionModel:
    about = facts(folder)
    with _pretrained.loading(f"the attribution model in {folder}", "; fit it again"), torch.random.fork_rng(devices=[]):
        backbone = _pretrained.untrained("AutoModel", folder, torch.float32)
        tokenizer = _pretrained.tokenizer_of(folder)
        model = AttributionModel(backbone, tokenizer, tuple(about["labels"]), about["variant"])
        model.load_state_dict(load_file(str(Path(folder) / _WEIGHTS)))
    model.fitted_to = about.get("model", {}).get("fingerprint")
    return model.eval()
