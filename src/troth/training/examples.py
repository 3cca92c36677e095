"""Labeled examples to train and to validate on: splits found or held out, classes numbered alike, oddities said."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data import Data, Dataset, load_data
from troth.data._base import hold_out as hold_out_of
from troth.data.sources.folders import tables_in
from troth.data.sources.labels import index_labels
from troth.training.settings import Metric

Source = str | os.PathLike[str] | Dataset | Iterable[Any]
_HELD_OUT = 0.2  # of the training examples, where there is no validation split
_TAKEN = ("name", "training", "validation", "validation split")  # by other things in a training's report


@dataclass(frozen=True)
class Labeled:
    """Examples whose labels are class numbers, and the names of the classes."""

    name: str
    training: Data
    validation: Data
    others: Mapping[str, Data]
    labels: tuple[str, ...]
    metric: Metric | None  # the data set's own
    notes: tuple[str, ...]


def load_labeled(
    source: Source,
    validation: Source | None = None,
    *,
    hold_out: float | None = None,
    tests: Iterable[str] = (),
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Labeled:
    """What to train and validate on: the train and validation splits, another source, or a share held out of train."""
    entry, options = entry_of(source), dict(columns or {})
    splits = splits_of(source, entry)
    training = load_data(source, split="train" if splits and "train" in splits else None, limit=limit, **options)
    if splits and "train" not in splits and len(splits) > 1:
        raise TrothError(f"{training.name} has no train split, only {', '.join(sorted(splits))}")
    if entry is None and training.labels:
        options["labels"] = training.labels  # the same numbers for the same words everywhere
    checking = None
    if validation is not None:
        checking = load_data(validation, **(options if entry_of(validation) is None else {}))
    elif splits and "validation" in splits and hold_out is None:
        checking = load_data(source, split="validation", limit=limit, **options)
    elif hold_out is None and _on_hub(source, entry):
        checking = _if_there(source, "validation", limit, options)
    others = {_tested(name): load_data(source, split=name, limit=limit, **options) for name in tests}
    notes = list(training.notes)
    if checking is None:
        share = _HELD_OUT if hold_out is None else hold_out
        training, checking = hold_out_of(training, share)
        notes.append(
            f"held out {len(checking):,} of {len(training) + len(checking):,} training examples to validate on"
        )
    training, labels = _numbered(training, training.labels)
    checking, _ = _numbered(checking, labels)
    others = {name: _numbered(data, labels)[0] for name, data in others.items()}
    labels = _named(labels, [training, checking, *others.values()])
    notes += _oddities(training, checking, labels)
    return Labeled(
        name=catalog.name_of(entry) if entry is not None else training.name,
        training=training,
        validation=checking,
        others=others,
        labels=labels,
        metric=cast(Metric, entry.metric) if entry is not None else None,
        notes=tuple(notes),
    )


def _tested(split: str) -> str:
    """What a split is called where it is scored at the end: never what a report calls something else."""
    return f"{split} (test)" if split in _TAKEN else split


def entry_of(source: Source) -> Dataset | None:
    """The catalog entry a source stands for, if it does."""
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str) and source.partition("(")[0].strip() in catalog.names("data"):
        found: Dataset = catalog.build("data", source)
        return found
    return None


def splits_of(source: Source, entry: Dataset | None) -> set[str] | None:
    """The splits there are; None where only reading would tell, or where there are none."""
    if entry is not None:
        return set(entry.split_names)
    if isinstance(source, Mapping):
        return {str(name) for name in source}
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        return set(tables_in(Path(source)))
    return {"train"} if _on_hub(source, entry) else None


def _on_hub(source: Source, entry: Dataset | None) -> bool:
    return entry is None and isinstance(source, str) and not Path(source).exists()


def _if_there(source: Source, split: str, limit: int | None, options: Mapping[str, Any]) -> Data | None:
    try:
        return load_data(source, split=split, limit=limit, **options)
    except TrothError as error:
        if "no split is called" in str(error):
            return None
        raise


def _numbered(data: Data, names: tuple[str, ...]) -> tuple[Data, tuple[str, ...]]:
    """Labels as class numbers, whatever they were given as."""
    if not len(data):
        raise TrothError(f"{data.name} has no {data.split} examples".replace("  ", " "))
    for example in data:
        if example.label is None:
            raise TrothError(f"{data.name}: example {example.id} has no label; training needs one for each")
    source = f"{data.name} {data.split}".strip()
    indices, names, _ = index_labels(source, [example.label for example in data], names, unlabelled=False)
    numbered: list[Example] = [replace(example, label=index) for example, index in zip(data, indices, strict=True)]
    return replace(data, examples=numbered), names


def _named(names: tuple[str, ...], sets: Iterable[Data]) -> tuple[str, ...]:
    highest = max(int(example.label) for data in sets for example in data if example.label is not None)
    return names or tuple(str(index) for index in range(highest + 1))


def _oddities(training: Data, validation: Data, labels: tuple[str, ...]) -> list[str]:
    """What the user should know before hours are spent; each is warned of."""
    counts = Counter(int(example.label) for example in training if example.label is not None)
    if len(counts) < 2:
        raise TrothError(
            f"all {len(training):,} training examples of {training.name} are of class {labels[next(iter(counts))]!r}; "
            "a classifier needs two"
        )
    found = []
    absent = [label for index, label in enumerate(labels) if not counts[index]]
    if absent:
        found.append(f"no training example is of class {', '.join(absent)}: the model cannot learn to answer it")
    known = {(example.text, example.text_pair) for example in training}
    shared = sum((example.text, example.text_pair) in known for example in validation)
    if shared:
        found.append(f"{shared:,} of {len(validation):,} validation examples are also training examples")
    for note in found:
        warnings.warn(note, stacklevel=4)
    return found
