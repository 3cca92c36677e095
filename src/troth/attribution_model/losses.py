"""The dual-mask loss: the prediction of F should stay for the masked input and change for the inversely masked one."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows, spread
from troth.engine.probes import at_least_single
from troth.maskings.mix import Mix
from troth.models import TextClassifier
from troth.models._row_edits import stacked

Inverse = Literal["log", "probability", "negative_entropy"]
Sparsity = Literal["cross_entropy", "l1"]
_SMALLEST = math.log(1e-30)


@dataclass(frozen=True)
class DualMask:
    """λ_p L_p + λ_a L_a + λ_inv L_inv, with the variants of the last two that the paper tried."""

    prediction: float = 1.0  # λ_p
    sparsity: float = 1.0  # λ_a
    inverse: float = 1.0  # λ_inv
    inverse_form: Inverse = "log"
    sparsity_form: Sparsity = "cross_entropy"

    def __post_init__(self) -> None:
        for name in ("prediction", "sparsity", "inverse"):
            if not 0 <= getattr(self, name) < math.inf:
                raise TrothError(f"the weight of a loss must be 0 or more, not {name} = {getattr(self, name)}")

    def __call__(
        self, model: TextClassifier, rows: Rows, scores: Tensor, present: Tensor, probabilities: Tensor
    ) -> Tensor:
        """[rows] the loss of each example, from scores before the sigmoid, [rows, units], and the prediction of F."""
        weights = scores.new_tensor(self.weights)
        return self.terms(model, rows, scores, present, probabilities) @ weights

    @property
    def weights(self) -> tuple[float, float, float]:
        """λ_p, λ_a, λ_inv."""
        return self.prediction, self.sparsity, self.inverse

    def terms(
        self, model: TextClassifier, rows: Rows, scores: Tensor, present: Tensor, probabilities: Tensor
    ) -> Tensor:
        """[rows, 3] L_p, L_a and L_inv of each example, without their weights."""
        masked, inverted = dual_logits(model, rows, scores.sigmoid())
        return torch.stack(
            [
                prediction_loss(masked, probabilities),
                sparsity_loss(scores, present, self.sparsity_form),
                inverse_loss(inverted, probabilities.argmax(-1), self.inverse_form),
            ],
            dim=-1,
        )


def dual_logits(model: TextClassifier, rows: Rows, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of F for the input mixed with the map and with its inverse. [rows, units] -> [rows, classes] twice

    Special tokens and the prompt are in no unit, so both inputs keep them whole.
    """
    both = repeated(rows, 2)
    kept = spread(torch.cat([keep, 1 - keep]), both.units)
    mixed = replace(Mix().erase(both, kept, model), prompt_is_fixed=True)
    logits = at_least_single(model.forward(mixed).logits)
    masked, inverted = logits.chunk(2)
    return masked, inverted


def prediction_loss(logits: Tensor, probabilities: Tensor) -> Tensor:
    """L_p: the cross-entropy of F's prediction for the masked input with that for the whole input. -> [rows]"""
    return -(probabilities * logits.log_softmax(-1)).sum(-1)


def inverse_loss(logits: Tensor, target: Tensor, form: Inverse = "log") -> Tensor:
    """L_inv: −log(1 − p + 1e-30) of the class that F predicts, or p itself, or −entropy. [rows, classes] -> [rows]"""
    logs = logits.log_softmax(-1)
    chosen = torch.nn.functional.one_hot(target, logits.shape[-1]).bool()
    if form == "probability":
        return logs.exp()[chosen]
    if form == "negative_entropy":
        return (logs.exp() * logs).sum(-1)
    # 1 − p is computed as the sum of the other classes' probabilities, which does not round to 0 when p is close to 1.
    others = logs.masked_fill(chosen, -torch.inf).logsumexp(-1)
    return -torch.logaddexp(others, torch.full_like(others, _SMALLEST))


def sparsity_loss(scores: Tensor, present: Tensor, form: Sparsity = "cross_entropy") -> Tensor:
    """L_a: the text's mean of −log(1 − a), or of a (L1), from scores before the sigmoid. [rows, units] -> [rows]"""
    each = torch.nn.functional.softplus(scores) if form == "cross_entropy" else scores.sigmoid()
    return torch.where(present, each, 0).sum(-1) / present.sum(-1).clamp(min=1)


def repeated(rows: Rows, times: int) -> Rows:
    """The rows twice, one copy after the other."""
    after = None if rows.lengths_after is None else np.tile(rows.lengths_after, times)
    return replace(stacked([rows] * times), lengths_after=after)
