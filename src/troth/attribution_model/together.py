"""Several trainings of an attribution model side by side: the same examples in the same order, each with weights of its
own for the losses.

A single training of a small G leaves a GPU waiting for Python. Side by side, every copy of G takes the steps it would
take alone; only what dropout draws differs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from troth.attribution_model.fitting import Course, Examples, FitSettings, Found, take_steps
from troth.attribution_model.losses import repeated
from troth.attribution_model.model import AttributionModel, ReadBatch
from troth.core.memory import free
from troth.core.types import Rows
from troth.models import TextClassifier, families

_SHARE = 0.1  # of a GPU's free memory that copies may take
_COPIES = 5  # of a copy's weights: they, their gradient, two moments, and room to work
_NUMBERS = 20  # that a layer keeps of a token for the way back, per dimension

Watch = Callable[[Mapping[str, Tensor]], Sequence[Found]]  # weights of all copies -> how good each is


def most_together(model: TextClassifier, own: AttributionModel, examples: Examples, settings: FitSettings) -> int:
    """How many copies may be trained side by side; 1 where that is no gain (a CPU) or cannot be done."""
    if own.device.type != "cuda" or own.backbone.config.model_type not in families.MAPPED:
        return 1
    if settings.together is not None:
        return settings.together
    weights = sum(weight.numel() * weight.element_size() for weight in own.trained_weights().values())
    tokens = settings.batch_size * max(len(encoding.ids) for encoding in examples.encodings)
    read_back = _NUMBERS * tokens * (2 * _depth(getattr(model, "model", None)) + _depth(own.backbone))
    return max(1, int(free(own.device) * _SHARE) // (_COPIES * weights + read_back))


def _depth(network: Any) -> int:
    """Bytes of a token's vectors, one per layer."""
    config, dtype = getattr(network, "config", None), getattr(network, "dtype", torch.float32)
    dimensions, layers = getattr(config, "hidden_size", 768), getattr(config, "num_hidden_layers", 12)
    return int(dimensions * layers * dtype.itemsize)


def train_together(
    model: TextClassifier, own: AttributionModel, training: Examples, copies: Sequence[Course], settings: FitSettings,
    *, epochs: float, watch: Watch | None = None, progress: bool = False,
) -> None:  # fmt: skip
    """As `fitting.train` for each copy; all begin with G's weights, which stay as they are."""
    begun = time.perf_counter()
    count, form = len(copies), copies[0].loss
    lambdas = torch.tensor([copy.loss.weights for copy in copies], device=own.device)  # [copies, 3]
    weights = stacked([own.trained_weights()] * count)
    for weight in weights.values():
        weight.requires_grad_()

    def losses(rows: Rows, page: ReadBatch, said: Tensor) -> Tensor:
        scores = own.scores_of_copies(weights, page, said).flatten(0, 1)  # [copies · rows, units]
        terms = form.terms(model, repeated(rows, count), scores, page.present.repeat(count, 1), said.repeat(count, 1))
        return (terms.view(count, len(said), 3) * lambdas[:, None]).sum(-1)

    last = settings.steps(len(training.encodings), epochs)

    def look(step: int, is_due: bool) -> None:
        if watch is not None and is_due:
            own.eval()
            for place, (copy, found) in enumerate(zip(copies, watch(weights), strict=True)):
                copy.look(step, found, _one_of(weights, place))
        elif watch is None and step == last:
            for place, copy in enumerate(copies):
                copy.keep(_one_of(weights, place))

    take_steps(model, own, training, weights.values(), losses, look, settings, epochs=epochs, progress=progress)
    own.eval()
    for copy in copies:
        copy.seconds = time.perf_counter() - begun


def stacked(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several sets of weights as one, [copies, …] each."""
    return {name: torch.stack([weights[name].detach() for weights in each]) for name in each[0]}


def _one_of(weights: Mapping[str, Tensor], place: int) -> dict[str, Tensor]:
    return {name: weight[place] for name, weight in weights.items()}
