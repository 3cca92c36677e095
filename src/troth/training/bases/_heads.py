"""A classification head that was trained for named classes: its outputs follow the names, not their places."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from troth.data._classes import order_of


def name_outputs(model: nn.Module, before: Sequence[str], labels: Sequence[str]) -> None:
    """Puts the outputs of a head for the classes `before` in the order of `labels`; for other classes, draws it again.

    A head of another size is new already, and classes that nobody named (LABEL_0) stay where they are.
    """
    output = _output(model, len(labels))
    if output is None or len(before) != len(labels) or list(before) == list(labels):
        return
    order = order_of(labels, before)
    with torch.no_grad():
        if order is None:
            output.weight.normal_(std=getattr(model.config, "initializer_range", 0.02))
        else:
            output.weight.copy_(output.weight[order])
        if output.bias is not None:
            output.bias.copy_(torch.zeros_like(output.bias) if order is None else output.bias[order])


def _output(model: nn.Module, classes: int) -> nn.Linear | None:
    """The last layer that gives one number per class."""
    layers = [part for part in model.modules() if isinstance(part, nn.Linear) and part.out_features == classes]
    return layers[-1] if layers else None
