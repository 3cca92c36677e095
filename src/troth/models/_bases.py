"""Finds the pretrained encoder that a model was fine-tuned from in the model's files: train.json (ours),
adapter_config.json (LoRA), `_name_or_path` in config.json (Hugging Face).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from troth.core import catalog, reading, trust
from troth.core.errors import TrothError
from troth.core.hub import offline_where_unreachable


def place_of(name: str) -> str:
    """The path of a backbone: the shipped model by its name, any other source unchanged."""
    return str(files("troth.models") / "embedded_model") if name == "embedded" else name


def pretrained_of(name: str) -> tuple[str | None, str]:
    """The encoder that a model was fine-tuned from and the file that records it; or None and the reason."""
    if name == "embedded":
        return None, "the encoder that the shipped model was fine-tuned from is not shipped"
    why = f"no file of {name} says which encoder it was fine-tuned from"
    for file, base_of in _RECORDS.items():
        record = _read(name, file)
        base = base_of(record) if record is not None else None
        if base is None:
            continue
        if base == "":
            return None, f"{name} was not fine-tuned from a pretrained encoder ({file})"
        try:
            found = _found(base, name)
        except TrothError as error:  # a folder that the user has not named
            return None, str(error)
        if found is not None:
            return found, file
        why = f"{file} of {name} names {base}, which is not available here"
    return None, why


def _of_training(record: dict[str, Any]) -> str | None:
    """The base in our own train.json; empty for a model that was built for its data."""
    identity = record.get("identity")
    spec = identity.get("base") if isinstance(identity, dict) else None
    if not isinstance(spec, str):
        return None
    try:
        base, options = catalog.parse(spec)
    except TrothError:
        return None
    if base == "embedded":
        return base
    return str(options.get("path", "")) if base == "pretrained" else ""


_RECORDS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "train.json": _of_training,
    "adapter_config.json": lambda record: str(record.get("base_model_name_or_path") or "") or None,
    "config.json": lambda record: str(record.get("_name_or_path") or "") or None,
}


def _found(base: str, name: str) -> str | None:
    """A base in a form that can be loaded: a folder, relative to the working directory or to the model, or a hub
    name.
    """
    if base == "embedded":
        return base
    places = (Path(base), Path(name).parent / base)
    folder = next((str(place) for place in places if (place / "config.json").is_file()), None)
    if folder is not None:
        trust.Origin.file(Path(name) / "config.json", Path(name).absolute().parent).path(folder)
        return folder if Path(folder).resolve() != Path(name).resolve() else None
    on_hub = not base.startswith((".", "/", "~")) and base.count("/") <= 1 and base != name
    return base if on_hub and _cached(base, "config.json") is not None else None


def _cached(name: str, file: str, **options: Any) -> str | None:
    """The path of a file on the hub or in its cache; None if there is none."""
    from transformers.utils.hub import cached_file

    try:
        with offline_where_unreachable(name):
            return cached_file(name, file, **options)
    except (OSError, ValueError):
        return None


def _read(name: str, file: str) -> dict[str, Any] | None:
    """The content of a JSON file in a model's folder or in the hub's cache."""
    if Path(name).is_dir():
        path: str | None = str(Path(name) / file)
    else:
        path = _cached(name, file, local_files_only=True, _raise_exceptions_for_missing_entries=False)
    try:
        record = reading.json_of(path) if path else None
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
