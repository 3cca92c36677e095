"""What is retrained again and again: labeled examples of three splits, a base, its settings, and the explainers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.data import Data
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.maskings import Masking
from troth.models.encoder import Encoder
from troth.studies._training import SPLITS
from troth.training import bases, presets
from troth.training import settings as every_setting
from troth.training.bases import Base
from troth.training.bases.scratch import Scratch
from troth.training.examples import Labeled, Source, load_three_splits
from troth.training.recipes.plain import Plain
from troth.training.settings import Metric, Settings
from troth.training.stacked import why_not

_SMALL = 20_000_000  # parameters of a model that is worth training side by side with others
_SIDE_BY_SIDE = 64  # such models on a GPU, which is idle with fewer


@dataclass(frozen=True, eq=False)
class BenchmarkSetup:
    """Everything the trainings have in common."""

    labeled: Labeled
    base: Base
    settings: Settings
    max_length: int | None
    masking: Masking
    score: Metric
    methods: Sequence[Explainer]  # without `random`, which is always there

    @property
    def name(self) -> str:
        return self.labeled.name

    @property
    def sets(self) -> dict[str, Data]:
        """The examples by split."""
        parts = (self.labeled.training, self.labeled.validation, self.labeled.others["test"])
        return dict(zip(SPLITS, parts, strict=True))

    @cached_property
    def model(self) -> Encoder:
        """The untrained model of seed 0."""
        return self.base.build(self.labeled.training.examples, self.labeled.labels, 0, self.max_length)

    def side_by_side(self, seeds: int) -> int:
        """How many trainings one cell does at once: small models fill a GPU together; a core does a measure's seeds."""
        small = sum(parameter.numel() for parameter in self.model.model.parameters()) <= _SMALL
        if self.why_alone is not None or not small:
            return 1
        return _SIDE_BY_SIDE if torch.cuda.is_available() else seeds

    @property
    def why_alone(self) -> str | None:
        """Why its trainings cannot share a cell; None where they can."""
        if self.masking.level != "ids":
            name = catalog.name_of(self.masking)
            return f"copies side by side can only have tokens replaced or deleted (mask_token, pad, delete), not {name}"
        return why_not(self.model)

    @cached_property
    def specs(self) -> dict[str, Any]:
        """What every cell must know, and every result depends on."""
        settings = {name: value for name, value in every_setting.as_dict(self.settings).items() if name != "seed"}
        return {
            "base": catalog.spec(self.base, full=True), "settings": settings, "labels": list(self.labeled.labels),
            "max_length": self.max_length, "masking": catalog.spec(self.masking, full=True),
            "fingerprints": {name: data.fingerprint for name, data in self.sets.items()},
        }  # fmt: skip


def settle(
    data: Source | Labeled,
    base: Any,
    explainers: Sequence[str | Explainer],
    *,
    stack: int | None = None,
    masking: str | Masking = "mask_token",
    limit: int | None = None,
    max_length: int | None = None,
    score: Metric | None = None,
    **settings: Any,
) -> BenchmarkSetup:
    """The subject of a benchmark; what cannot be trained, explained or scored is refused before any work.

    `score` is what the curves show: by default macro-F1 of single texts, accuracy (micro-F1) of pairs.
    """
    if stack is not None and stack < 1:
        raise TrothError(f"stack must be 1 training or more, not {stack}")
    built: list[Explainer] = [catalog.build("explainers", explainer) for explainer in explainers]
    methods = [method for method in dict.fromkeys(built) if not isinstance(method, Random)]
    if not isinstance(base, str | Base):
        raise TrothError(
            f"a {type(base).__name__} cannot be trained: a benchmark that retrains needs a base such as "
            "bilstm_attention, scratch, a hub name or a model folder, not a loaded model or a black box"
        )
    start = bases.build(base)
    if isinstance(data, Labeled):
        labeled = data
    else:
        labeled = load_three_splits(data, hold_out=presets.held_out("roar", data), limit=limit)
    pair = labeled.training[0].text_pair is not None
    # The paper fine-tunes or trains a BiLSTM, nothing else.
    paper = None if isinstance(start, Scratch) else "roar"
    resolved = presets.resolve(settings, paper, Plain(), start, labeled.name, pair=pair)
    chosen = every_setting.settings(**{"metric": "accuracy", **resolved})
    metric: Metric = score or ("accuracy" if pair else "macro_f1")
    subject = BenchmarkSetup(labeled, start, chosen, max_length, catalog.build("maskings", masking), metric, methods)
    _enough(subject, limit)
    if stack is not None and stack > 1 and subject.why_alone is not None:
        raise TrothError(f"stack={stack}: {subject.why_alone}; use stack=1")
    _try_out(subject)
    return subject


def _enough(subject: BenchmarkSetup, limit: int | None) -> None:
    """Erasing drops no example, but a limit or a split may: a class with a single example cannot be learned."""
    labels = subject.labeled.labels
    for split in ("train", "test"):
        data = subject.sets[split]
        counts = Counter(example.class_index for example in data if example.class_index is not None)
        for index, label in enumerate(labels):
            if counts[index] < 2:
                remedy = "raise --limit" if limit is not None else "drop that class or add examples"
                raise TrothError(
                    f"{subject.labeled.name}: {counts[index]} of {len(data)} {split} examples are of class {label!r}; "
                    f"retraining needs two of each class: {remedy}"
                )


def _try_out(subject: BenchmarkSetup) -> None:
    """Each explainer on the two shortest texts, partly erased: what the model lacks is refused before any training."""
    chosen: list[Example] = sorted(subject.labeled.training, key=lambda example: len(example.text))[:2]
    encodings = subject.model.encode(chosen, units="token")
    prober = Prober(subject.model, subject.masking)
    for explainer in (Random(), *subject.methods):
        method = explainer.prepare(prober, encodings)
        for encoding in encodings:
            left = torch.ones(encoding.n_units)
            left[: encoding.n_units // 2] = 0
            target = encoding.example.class_index or 0
            prober.ask(method.ask(Question(encoding, target, base=left, erased_by=subject.masking)))
