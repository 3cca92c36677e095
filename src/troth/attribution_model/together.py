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

from troth.attribution_model.fitting import Course, Examples, Found, Settings, batch, parts_of
from troth.attribution_model.losses import DualMask, repeated
from troth.attribution_model.model import AttributionModel
from troth.attribution_model.reading import read
from troth.core import draws
from troth.models import TextClassifier, families
from troth.training.corpus import Corpus
from troth.training.progress import Progress

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
    corpus = Corpus(training.encodings, torch.zeros(len(training.encodings), dtype=torch.int64)).to(model.device)
    probabilities = training.probabilities.to(model.device)
    size = min(settings.batch_size, len(corpus))
    a_round = -(-len(corpus) // size)
    steps = settings.steps(len(corpus), epochs)
    every = max(1, round(settings.validate_every * a_round))
    count, form = len(copies), copies[0].loss
    lambdas = torch.tensor([copy.loss.weights for copy in copies], device=own.device)  # [copies, 3]
    weights = {
        name: weight.detach().expand(count, *weight.shape).clone().requires_grad_()
        for name, weight in own.trained_weights().items()
    }
    on_gpu = own.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        weights.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=on_gpu
    )
    with (
        draws.seeded(draws.key(settings.seed, "attributive training")),
        Progress(steps, 0, shown=progress) as line,
        model.at_rest(),
    ):
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * (1 - step / steps)
            own.train()
            index = batch(len(corpus), size, step, settings.seed)
            for part in parts_of(model, corpus, index, settings.rows_per_pass):
                rows = corpus.rows(part, torch.zeros_like(part), model)
                page, said = read(own, rows), probabilities[part.to(probabilities.device)]
                scores = own.scores_of_copies(weights, page, said).flatten(0, 1)  # [copies · rows, units]
                terms = form.terms(
                    model, repeated(rows, count), scores, page.present.repeat(count, 1), said.repeat(count, 1)
                )
                each = (terms.view(count, len(part), 3) * lambdas[:, None]).sum(-1)
                (each.sum() / len(index)).backward()  # type: ignore[no-untyped-call]
            for weight in weights.values():
                assert weight.grad is not None
                weight.grad = weight.grad.contiguous()  # vmap may leave strides that the fused kernel refuses
            optimizer.step()
            optimizer.zero_grad()
            line.step(step // a_round + 1, -(-steps // a_round), float(each.detach().mean()) if progress else 0.0)
            last = step + 1 == steps
            for place, copy in enumerate(copies):
                if last or (copy.watch is not None and (step + 1) % every == 0):
                    _load(own, weights, place)
                    copy.look(own, step + 1)
    own.eval()
    for copy in copies:
        copy.course.seconds = time.perf_counter() - begun


def _load(own: AttributionModel, weights: dict[str, Tensor], place: int) -> None:
    """Puts a copy's weights into G."""
    with torch.no_grad():
        for name, weight in own.trained_weights().items():
            weight.copy_(weights[name][place])
    own.eval()
