"""The data of a study that trains models, in three splits, and the settings that suit it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.units import word_spans
from troth.data import Data
from troth.studies._works import SPLITS
from troth.training import bases, presets, recipes
from troth.training import settings as every_setting
from troth.training.examples import Source, entry_of, load_three_splits


@dataclass(frozen=True, eq=False)
class Material:
    """A data set in three splits, whose labels are class numbers."""

    name: str
    labels: tuple[str, ...]
    splits: Mapping[str, Data]

    @property
    def pair(self) -> bool:
        return self.splits["train"][0].text_pair is not None

    @property
    def sizes(self) -> list[float]:
        """How many examples each split has, and the mean number of words of the first 2,000 texts to train on."""
        lengths = [len(word_spans(example.text)) for example in self.splits["train"][:2000]]
        return [*(len(self.splits[split]) for split in SPLITS), float(np.mean(lengths))]


def load(source: Source, *, like: str | None = None, limit: int | None = None, examples: int = 0) -> Material:
    """Train, validation and test, as a paper has them, or else as they are; what is missing is held out of train.

    `examples`: how many to test on, 0 = all.
    """
    source = presets.source_like(like, source)
    labeled = load_three_splits(source, hold_out=presets.held_out(like, source), limit=limit)
    test, entry = labeled.others["test"], entry_of(source)
    parts = (labeled.training, labeled.validation, test.limit(examples, seed=0) if examples else test)
    if entry is not None:
        name = catalog.name_of(entry)
    else:
        name = Path(source).stem if isinstance(source, str | os.PathLike) else labeled.name
    splits = {split: replace(part, name=name, labels=labeled.labels) for split, part in zip(SPLITS, parts, strict=True)}
    return Material(name, labeled.labels, splits)


def settings_like(
    paper: str | None, recipe: recipes.RecipeLike, base: str, material: Material, **changed: Any
) -> tuple[str, dict[str, Any]]:
    """A recipe with its λ; the base's settings, then the paper's, then the changed ones (0 and "" change nothing)."""
    start = bases.build(base)
    method = presets.recipe_like(paper, recipes.build(recipe), material.name)
    user = {name: value for name, value in changed.items() if value}
    without = ("head_learning_rate",) if "learning_rate" in user else ()
    settings = presets.resolve(user, paper, method, start, material.name, pair=material.pair, without=without)
    fields = {field.name for field in dataclasses.fields(every_setting.Settings)}
    # A wrong value is refused before any work.
    every_setting.settings(**{name: value for name, value in settings.items() if name in fields})
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    return recipes.spec(method, full=True), plain
