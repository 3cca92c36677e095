"""The meaning of the columns of a model's logits; only this module turns them into probabilities and predictions.

"classes": exactly one of them is true, so they share a softmax. "labels": each is true or false on its own, with its
own sigmoid. "values": plain numbers (a regression, log-probabilities), which are explained as they are.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from troth.core.errors import TrothError

Outputs: TypeAlias = Literal["classes", "labels", "values"]
Of: TypeAlias = Literal["logit", "probability", "log_probability", "largest_logit"]
PREDICTED = -1  # as a target: the class that is predicted for each row
THRESHOLD = 0.5  # labels with a higher probability are predicted


def probabilities(logits: Tensor, outputs: Outputs) -> Tensor:
    """The probability of each column; values are returned unchanged. [..., columns] -> [..., columns]"""
    if outputs == "classes":
        return logits.softmax(-1)
    return logits.sigmoid() if outputs == "labels" else logits


def log_probabilities(logits: Tensor, outputs: Outputs) -> Tensor:
    """Log-probabilities, never −inf; values are returned unchanged."""
    if outputs == "classes":
        return logits.log_softmax(-1)
    return torch.nn.functional.logsigmoid(logits) if outputs == "labels" else logits


def averaged(logits: Tensor, counts: Tensor, outputs: Outputs) -> Tensor:
    """Logits whose probabilities are the mean over the draws of each row. [draws, columns], [rows] -> [rows,
    columns]

    For classes: the log of the mean probability plus the mean normalizer, so that equal draws return their own logits.
    Values are averaged directly. A row with a single draw is unchanged.
    """
    if outputs == "values":
        return means(logits, counts)
    exact = logits.double()
    if outputs == "classes":
        pooled = _log(means(exact.softmax(-1), counts)) + means(exact.logsumexp(-1, keepdim=True), counts)
    else:
        pooled = _log(means(exact.sigmoid(), counts)) - _log(means((-exact).sigmoid(), counts))
    single = logits[counts.cumsum(0) - counts]
    return torch.where((counts == 1)[:, None], single, pooled.to(logits.dtype))


def means(values: Tensor, counts: Tensor) -> Tensor:
    """The mean over the draws of each row. [draws, ...], [rows] -> [rows, ...]"""
    rows = torch.arange(len(counts)).repeat_interleave(counts)
    sums = values.new_zeros(len(counts), *values.shape[1:]).index_add_(0, rows, values)
    return sums / counts.view(-1, *[1] * (values.dim() - 1)).to(values.dtype)


def _log(shares: Tensor) -> Tensor:
    return shares.clamp(min=torch.finfo(shares.dtype).tiny).log()


def strongest(logits: Tensor, outputs: Outputs) -> Tensor:
    """The column that "predicted" refers to: the most probable one; for values, the first. [..., columns] -> [...]"""
    return logits.argmax(-1) if outputs != "values" else torch.zeros_like(logits[..., 0], dtype=torch.int64)


def decisions(logits: Tensor, outputs: Outputs, target: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """The predicted class; for labels, 1 if the target is predicted, else 0. [rows, columns] -> [rows]"""
    if outputs == "classes":
        return logits.argmax(-1)
    if outputs == "labels":
        return (logits.gather(1, target[:, None])[:, 0].sigmoid() > threshold).long()
    raise TrothError("a model that returns values makes no decision; use comprehensiveness, sufficiency or deletion")


def value_of(of: Of, logits: Tensor, target: Tensor, against: Tensor, outputs: Outputs) -> Tensor:
    """The number that is explained for each row. [rows, columns], [rows], [rows] -> [rows]"""
    logits = at_least_single(logits)
    if of == "probability":
        values = probabilities(logits, outputs)
    elif of == "log_probability":
        values = log_probabilities(logits, outputs)
    else:
        values = logits
    if of == "largest_logit" and outputs == "classes":
        return values.amax(-1)
    target = torch.where(target == PREDICTED, strongest(logits, outputs), target)
    chosen = values.gather(1, target[:, None])[:, 0]
    other = values.gather(1, against.clamp(min=0)[:, None])[:, 0]
    return chosen - torch.where(against >= 0, other, 0)


def at_least_single(tensor: Tensor) -> Tensor:
    """Converts half precision to single precision; single and double precision are unchanged."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
