"""`precision="fast"`: the large matrix products in bfloat16, everything between them in the model's own numbers.

A processor with bfloat16 instructions multiplies about twice as fast. Residuals and LayerNorm stay exact, so rounding
does not add up from layer to layer.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from troth.models.lane.products import has_onednn, laid_out, multiplied

_Mark = tuple[Any, ...]


class Copies:
    """Half-precision copies of weights, made again when a weight has changed."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, bool], tuple[_Mark, Tensor, Tensor | None]] = {}

    def __call__(self, values: Tensor, module: nn.Linear) -> Tensor:
        half = values.bfloat16()
        # Laid out for oneDNN, a weight cannot be read for a backward pass.
        for_onednn = not values.requires_grad and values.device.type == "cpu" and multiplies_halves()
        weight, bias = self._copy(module, for_onednn)
        return multiplied(half, weight, bias) if for_onednn else functional.linear(half, weight, bias)

    def _copy(self, module: nn.Linear, for_onednn: bool) -> tuple[Tensor, Tensor | None]:
        mark = (_mark(module.weight), None if module.bias is None else _mark(module.bias))
        known = self._copies.get((id(module), for_onednn))
        if known is None or known[0] != mark:
            weight = module.weight.detach().bfloat16()
            bias = None if module.bias is None else module.bias.detach().bfloat16()
            known = mark, laid_out(weight) if for_onednn else weight, bias
            self._copies[id(module), for_onednn] = known
        return known[1], known[2]


@cache
def multiplies_halves() -> bool:
    """Whether oneDNN has instructions for bfloat16 here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _mark(weight: Tensor) -> _Mark:
    """Changes when the weight does. `weight.data += …` leaves no trace but in the numbers."""
    numbers = weight.detach().flatten()[:4].tolist() if weight.device.type == "cpu" else ()
    return weight.data_ptr(), weight._version, weight.device, *numbers
