"""Several trainings of an attribution model side by side: the same examples in the same order, each with weights of its
own for the losses.

A single training of a small G leaves a GPU waiting for Python. Side by side, every copy of G takes the steps it would
take alone; only what dropout draws differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from troth.attribution_model.fitting import Course, Examples, Found, Settings, take_steps
from troth.attribution_model.losses import DualMask, repeated
from troth.attribution_model.model import AttributionModel
from troth.attribution_model.reading import Page
from troth.core.types import Rows
from troth.models import TextClassifier, families

_SHARE = 0.1  # of a GPU's free memory that copies may take
_COPIES = 5  # of a copy's weights: they, their gradient, two moments, and room to work
_NUMBERS = 20  # that a layer keeps of a token for the way back, per dimension


@dataclass(eq=False)
class Copy:
    """One of the trainings: its loss, what chooses among its weights, and what came of it."""

    loss: DualMask
    watch: Callable[[AttributionModel], Found] | None = None
    better: Callable[[Found, Found], bool] | None = None
    course: Course = field(default_factory=Course)
    weights: dict[str, Tensor] = field(default_factory=dict)  # the best by `watch`; without it, the last

    def look(self, own: AttributionModel, step: int) -> None:
        """Watches weights that G holds now, and keeps them if they are the best so far."""
        if self.watch is not None and self.better is not None:
            found = self.watch(own)
            self.course.history.append({"step": step, **found})
            if self.weights and not self.better(found, self.course.best):
                return
            self.course.best_step, self.course.best = step, found
        self.weights = {name: weight.detach().clone() for name, weight in own.trained_weights().items()}


def most_together(model: TextClassifier, own: AttributionModel, examples: Examples, settings: Settings) -> int:
    """How many copies may be trained side by side; 1 where that is no gain (a CPU) or cannot be done."""
    if own.device.type != "cuda" or own.backbone.config.model_type not in families.MAPPED:
        return 1
    if settings.together is not None:
        return settings.together
    weights = sum(weight.numel() * weight.element_size() for weight in own.trained_weights().values())
    tokens = settings.batch_size * max(len(encoding.ids) for encoding in examples.encodings)
    read_back = _NUMBERS * tokens * (2 * _depth(getattr(model, "model", None)) + _depth(own.backbone))
    free, _ = torch.cuda.mem_get_info(own.device)
    return max(1, int(free * _SHARE) // (_COPIES * weights + read_back))


def _depth(network: Any) -> int:
    """Bytes of a token's vectors, one per layer."""
    config, dtype = getattr(network, "config", None), getattr(network, "dtype", torch.float32)
    dimensions, layers = getattr(config, "hidden_size", 768), getattr(config, "num_hidden_layers", 12)
    return int(dimensions * layers * dtype.itemsize)


def train_together(
    model: TextClassifier,
    own: AttributionModel,
    training: Examples,
    copies: Sequence[Copy],
    settings: Settings,
    *,
    epochs: float,
    progress: bool = False,
) -> None:
    """As `fitting.train` for each copy; all begin with G's weights, and G ends with those of one of them."""
    begun = time.perf_counter()
    count, form = len(copies), copies[0].loss
    lambdas = torch.tensor([copy.loss.weights for copy in copies], device=own.device)  # [copies, 3]
    weights = {
        name: weight.detach().expand(count, *weight.shape).clone().requires_grad_()
        for name, weight in own.trained_weights().items()
    }

    def losses(rows: Rows, page: Page, said: Tensor) -> Tensor:
        scores = own.scores_of_copies(weights, page, said).flatten(0, 1)  # [copies · rows, units]
        terms = form.terms(model, repeated(rows, count), scores, page.present.repeat(count, 1), said.repeat(count, 1))
        return (terms.view(count, len(said), 3) * lambdas[:, None]).sum(-1)

    last = settings.steps(len(training.encodings), epochs)

    def look(step: int, is_due: bool) -> None:
        for place, copy in enumerate(copies):
            if step == last or (copy.watch is not None and is_due):
                _load(own, weights, place)
                copy.look(own, step)

    take_steps(model, own, training, weights.values(), losses, look, settings, epochs=epochs, progress=progress)
    own.eval()
    for copy in copies:
        copy.course.seconds = time.perf_counter() - begun


def _load(own: AttributionModel, weights: dict[str, Tensor], place: int) -> None:
    """Puts a copy's weights into G."""
    with torch.no_grad():
        for name, weight in own.trained_weights().items():
            weight.copy_(weights[name][place])
    own.eval()
