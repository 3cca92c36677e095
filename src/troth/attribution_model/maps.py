"""Attribution maps of a batch of examples: by one pass of G (pAML), or by a few training steps on each example alone
(fAML).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from troth.attribution_model.losses import DualMask
from troth.attribution_model.model import AttributionModel, ReadBatch, read, read_whole
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.outputs import probabilities, strongest
from troth.core.types import Encoding, Rows
from troth.engine.probes import PREDICTED, Cost, Reading, Readout, at_least_single
from troth.models import TextClassifier
from troth.models._row_edits import chosen

Decay = Literal["linear", "constant"]

_SHARE = 0.4  # of a GPU's free memory that examples side by side may use
_ON_CPU = 1 << 30  # bytes
_COPIES = 5  # memory per example, in copies of its weights: weights, gradient, two moments and workspace


@dataclass(frozen=True)
class Map(Readout):
    """One pass of F, one of G."""

    attribution_model: AttributionModel

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        own = self.attribution_model
        with torch.no_grad():
            logits = model.forward(rows).logits
            page, prediction = _ready(own, model, rows, logits)
            maps = own.scores(page, prediction).sigmoid()
        return Reading(logits, rows={"maps": maps[:, None]}, more=Cost(side_model_rows=len(rows)))


@dataclass(frozen=True)
class Tuned(Readout):
    """The map of G and the maps after each training step on the example alone, with its own copy of the weights."""

    backward: ClassVar[bool] = True

    attribution_model: AttributionModel
    loss: DualMask
    steps: int
    learning_rate: float
    decay: Decay = "linear"  # of the learning rate, from its full value at the first step toward 0 after the last
    together: int | None = None  # the largest number of examples side by side; None = what fits into memory

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        own = self.attribution_model
        with torch.no_grad():
            logits = model.forward(rows).logits
            page, prediction = _ready(own, model, rows, logits)
        size = min(len(rows), self.together or _fitting(own))
        parts = []
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            parts.append(self._tune(model, chosen(rows, part), page.take(part), prediction[part]))
        count, steps = len(rows), self.steps
        more = Cost(2 * steps * count, (2 * steps - 1) * count, side_model_rows=(2 * steps + 1) * count)
        return Reading(logits, rows={"maps": torch.cat(parts)}, more=more)

    def _tune(self, model: TextClassifier, rows: Rows, page: ReadBatch, prediction: Tensor) -> Tensor:
        """[rows, steps + 1, units] every example with its own copy of the weights; AdamW works element by element."""
        own = self.attribution_model
        weights = {
            name: weight.detach().expand(len(rows), *weight.shape).clone().requires_grad_()
            for name, weight in own.own_weights().items()
        }
        on_gpu = own.device.type == "cuda"
        optimizer = torch.optim.AdamW(weights.values(), lr=self.learning_rate, fused=on_gpu)
        label = own.label_vector(prediction).detach()
        maps = []
        with torch.enable_grad():
            for step in range(self.steps):
                for group in optimizer.param_groups:
                    group["lr"] = self.learning_rate * (1 - step / self.steps if self.decay == "linear" else 1)
                scores = own.scores_of_each(weights, page, label)
                maps.append(scores.detach().sigmoid())
                loss = self.loss(model, rows, scores, page.present, prediction)
                gradients = torch.autograd.grad(loss.sum(), list(weights.values()))
                for weight, gradient in zip(weights.values(), gradients, strict=True):
                    weight.grad = gradient.contiguous()  # vmap may return strides that the fused kernel refuses
                optimizer.step()
        with torch.no_grad():
            maps.append(own.scores_of_each(weights, page, label).sigmoid())
        return torch.stack(maps, dim=1)


def whole_maps(
    own: AttributionModel, encodings: Sequence[Encoding], probabilities: Tensor,
    scores: Callable[[ReadBatch, Tensor], Tensor], size: int,
) -> list[Tensor]:  # fmt: skip
    """The maps of whole texts, [copies, units], where F's predictions [texts, classes] are known; `scores` reads a
    batch.

    `size` texts of similar length go through G at a time; fewer if they do not fit into memory.
    """
    maps: list[Tensor] = [torch.empty(0)] * len(encodings)
    waiting = sorted(range(len(encodings)), key=lambda place: encodings[place].n_tokens)
    while waiting:
        places = waiting[:size]
        try:
            page = read_whole(own, [encodings[place] for place in places]).to(own.device)
            with torch.no_grad():
                found = (scores(page, probabilities[places].to(own.device)).sigmoid() * page.present).cpu()
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            if size == 1:
                length = encodings[places[0]].n_tokens
                raise TrothError(f"a text of {length} tokens does not fit into memory") from None
            size //= 2
            continue
        for row, place in enumerate(places):
            maps[place] = found[..., row, : encodings[place].n_units]
        waiting = waiting[size:]
    return maps


def _ready(own: AttributionModel, model: TextClassifier, rows: Rows, logits: Tensor) -> tuple[ReadBatch, Tensor]:
    """The rows as G reads them, and the prediction given to G: that of F, or the class asked about if it is another
    one.
    """
    own.require_fit(model)
    if own.device != model.device:
        own.to(model.device)
    own.eval()
    said = probabilities(at_least_single(logits), model.outputs)
    asked = torch.nn.functional.one_hot(rows.target.clamp(min=0), logits.shape[-1]).to(said)
    predicted = (rows.target == PREDICTED) | (rows.target == strongest(logits, model.outputs))
    return read(own, rows), torch.where(predicted[:, None], said, asked)


def _fitting(own: AttributionModel) -> int:
    """How many examples with weights of their own fit into memory together."""
    size = sum(weight.numel() * weight.element_size() for weight in own.own_weights().values()) * _COPIES
    if own.device.type != "cuda":
        return max(1, _ON_CPU // size)
    return max(1, int(free(own.device) * _SHARE) // size)
