"""Matrix products with the model's own weights, by whatever torch has on board that multiplies fastest.

torch hands single precision to MKL. oneDNN, which it has for other number formats, multiplies large matrices faster: by
4 to 6 % on an AMD EPYC, by 9 % where a weight is laid out for it beforehand. The numbers are the same, but each adds
them up in an order of its own, so that results differ in the last bits.
"""

import os
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Linear = Callable[[Tensor, nn.Linear], Tensor]
_LARGE = 128  # rows of the values; to be told of a new shape takes oneDNN half a millisecond, once
_CALLS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")  # torch's own compiler's
_OFTEN = 3  # products with one weight; for fewer, laying it out does not pay
_Mark = tuple[Any, ...]

# Every number of rows is a new shape to oneDNN. By itself it remembers 1,024, and torch as many in every thread:
# hundreds of megabytes that never come back. Both ask the environment when they are first used, so it is told here.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "64")


def exact(values: Tensor, module: nn.Linear) -> Tensor:
    """A linear layer as the model has it."""
    return functional.linear(values, module.weight, module.bias)


class Exact:
    """The linear layers of one layer of the model; each is to multiply so many `pieces`."""

    def __init__(self, pieces: int, large: int | None = None) -> None:
        self._often, self._large = pieces >= _OFTEN, _LARGE if large is None else large
        self._laid_out: dict[nn.Linear, Tensor] = {}

    def __call__(self, values: Tensor, module: nn.Linear) -> Tensor:
        weight = module.weight
        single = values.dtype == weight.dtype == torch.float32 and values.device.type == "cpu"
        # A weight of a kind of its own knows how to multiply.
        if len(values) < self._large or not single or type(weight) is not nn.Parameter or not has_onednn():
            return exact(values, module)
        if values.requires_grad:
            product: Tensor = _Product.apply(values, weight, module.bias)  # type: ignore[no-untyped-call]
            return product
        return multiplied(values, self._weight(module), module.bias)

    def _weight(self, module: nn.Linear) -> Tensor:
        if not self._often:
            return module.weight
        if module not in self._laid_out:
            self._laid_out[module] = laid_out(module.weight)
        return self._laid_out[module]


@cache
def has_onednn() -> bool:
    """Whether torch can be told to multiply by oneDNN here; elsewhere than on x86 it is made of other parts."""
    built_in = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    known = built_in and all(hasattr(torch.ops.mkldnn, name) for name in _CALLS)
    return known and platform.machine().lower() in ("x86_64", "amd64")


def laid_out(weight: Tensor) -> Tensor:
    """A weight in the order in which oneDNN reads it; only `multiplied` understands it."""
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return result


def multiplied(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """values · weightᵀ + bias, by oneDNN"""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


class _Product(torch.autograd.Function):
    """The same with a gradient of the values; weights never ask for one."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return multiplied(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody needs the gradient of this gradient
            return gradient @ weight, None, None
        return multiplied(gradient.contiguous(), weight.t(), None), None, None


class Copies:
    """`precision="fast"`: the large products in bfloat16, by copies of weights, made again when a weight has changed.

    A processor with bfloat16 instructions multiplies about twice as fast. Residuals and LayerNorm stay exact, so
    rounding does not add up from layer to layer.
    """

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
