"""Loads labeled examples for training, validation and testing: finds or holds out splits, numbers the classes, and
notes oddities in the data.
"""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from troth.core import catalog
from troth.core.errors import NoSplitError, TrothError
from troth.core.types import Example
from troth.data import Data, Dataset, load_data
from troth.data import entry_of as entry_of
from troth.data._base import hold_out as hold_out_of
from troth.data.sources.folders import tables_in
from troth.data.sources.labels import index_labels
from troth.training.settings import Metric

Source = str | os.PathLike[str] | Dataset | Iterable[Any]
_HELD_OUT = 0.2  # share of the training examples, if there is no validation split
_TAKEN = ("name", "training", "validation", "validation split")  # reserved names in a training's report


@dataclass(frozen=True)
class Labeled:
    """Examples whose labels are class indices, with the names of the classes."""

    name: str
    training: Data
    validation: Data
    others: Mapping[str, Data]
    labels: tuple[str, ...]
    metric: Metric | None  # the data set's own metric
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
    """Loads training and validation examples: the two splits, another source, or a share held out of the training
    split.
    """
    entry, options = entry_of(source), dict(columns or {})
    splits = splits_of(source, entry)
    training = load_training(source, required=True, limit=limit, **options)
    if entry is None and training.labels:
        options["labels"] = training.labels  # the same class indices for the same labels in all splits
    checking = None
    if validation is not None:
        checking = load_data(validation, **(options if entry_of(validation) is None else {}))
    elif splits and "validation" in splits and hold_out is None:
        checking = load_data(source, split="validation", limit=limit, **options)
    elif hold_out is None and _on_hub(source, entry):
        with suppress(NoSplitError):
            checking = load_data(source, split="validation", limit=limit, **options)
    others = {
        f"{name} (test)" if name in _TAKEN else name: load_data(source, split=name, limit=limit, **options)
        for name in tests
    }
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
    highest = max(example.class_index or 0 for data in (training, checking, *others.values()) for example in data)
    labels = labels or tuple(str(index) for index in range(highest + 1))
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


def load_training(source: Source, *, required: bool, limit: int | None = None, **columns: Any) -> Data:
    """The training split. If there is none: an error if it is `required`, else whichever split exists."""
    splits = splits_of(source, entry_of(source)) or set()
    try:
        training = load_data(source, split="train" if "train" in splits else None, limit=limit, **columns)
    except NoSplitError:  # data on the hub must be read to find out
        if required:
            raise
        return load_data(source, limit=limit, **columns)
    if required and "train" not in splits and len(splits) > 1:
        raise TrothError(f"{training.name} has no train split, only {', '.join(sorted(splits))}")
    return training


def load_three_splits(source: Source, *, hold_out: float | None = None, limit: int | None = None) -> Labeled:
    """As `load_labeled`, with test examples in `others["test"]`, from whichever splits exist.

    Without a test split, the validation split is used for testing, or a fifth of train if that is missing, too. A share
    of the remaining training examples (`hold_out`, by default a fifth) is then used for validation.
    """
    # Not a DatasetDict, which has this attribute.
    if isinstance(source, Mapping) and not hasattr(source, "column_names"):
        return _in_memory({str(name): part for name, part in source.items()}, limit)
    splits = splits_of(source, entry_of(source)) or ()
    if "test" in splits and len(splits) > 1:  # data with a single split are divided, whatever the split is called
        return load_labeled(source, tests=("test",), hold_out=hold_out, limit=limit)
    outer = load_labeled(source, limit=limit)
    inner = load_labeled(replace(outer.training, labels=outer.labels), hold_out=hold_out)
    notes = (*outer.notes, *inner.notes)
    return replace(inner, name=outer.name, metric=outer.metric, others={"test": outer.validation}, notes=notes)


def _in_memory(splits: Mapping[str, Any], limit: int | None) -> Labeled:
    if not {"train", "test"} <= splits.keys():
        raise TrothError(f"splits in memory must be train, test and perhaps validation, not {', '.join(splits)}")
    tested = load_labeled(splits["train"], splits["test"], limit=limit).validation
    labeled = load_labeled(splits["train"], splits.get("validation"), limit=limit)
    return replace(labeled, others={"test": tested if limit is None else tested.limit(limit)})


def splits_of(source: Source, entry: Dataset | None) -> set[str] | None:
    """The names of the splits; None if they are only known after reading, or if there are none."""
    if entry is not None:
        return set(entry.split_names)
    if isinstance(source, Mapping):
        return {str(name) for name in source}
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        return set(tables_in(Path(source)))
    return {"train"} if _on_hub(source, entry) else None


def _on_hub(source: Source, entry: Dataset | None) -> bool:
    return entry is None and isinstance(source, str) and not Path(source).exists()


def _numbered(data: Data, names: tuple[str, ...]) -> tuple[Data, tuple[str, ...]]:
    """Converts labels of any type to class indices."""
    if not len(data):
        raise TrothError(f"{data.name} has no {data.split} examples".replace("  ", " "))
    if all(example.label is None for example in data):
        raise TrothError(f"{data.name}: no labels were found, and training needs them; name their column (--label)")
    for example in data:
        if example.label is None:
            raise TrothError(
                f"{data.name}: example {example.id} has no label, and training needs one for each; "
                "add it or drop the example"
            )
    source = f"{data.name} {data.split}".strip()
    indices, names, _ = index_labels(source, [example.label for example in data], names, unlabelled=False)
    numbered: list[Example] = [replace(example, label=index) for example, index in zip(data, indices, strict=True)]
    return replace(data, examples=numbered), names


def _oddities(training: Data, validation: Data, labels: tuple[str, ...]) -> list[str]:
    """Properties of the data that the user should know before a long training; each is shown as a warning."""
    counts = Counter(example.class_index for example in training if example.class_index is not None)
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
