"""Matrix products with the model's weights, by the fastest implementation that torch provides.

For single precision torch calls MKL. oneDNN, which torch uses for other number formats, multiplies large matrices
faster: by 4 to 6 % on an AMD EPYC, and by 9 % if the weight was reordered for it beforehand. The two add numbers in
different orders, so results differ in the last bits.
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
_LARGE = 128  # rows; oneDNN needs half a millisecond, once, for every new shape
# Operations of torch's own compiler.
_CALLS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
_OFTEN = 3  # products with one weight; for fewer, reordering it costs more than it saves
_Mark = tuple[Any, ...]

# oneDNN treats every number of rows as a new shape. By default it caches 1,024 of them, and torch as many per thread:
# hundreds of megabytes that are never released. Both read these environment variables on first use.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "64")


def exact(values: Tensor, module: nn.Linear) -> Tensor:
    """A linear layer, computed as the model does."""
    return functional.linear(values, module.weight, module.bias)


class Exact:
    """The linear layers of one layer of the model, each applied to a number of `pieces`."""

    def __init__(self, pieces: int, large: int | None = None) -> None:
        self._often, self._large = pieces >= _OFTEN, _LARGE if large is None else large
        self._laid_out: dict[nn.Linear, Tensor] = {}

    def __call__(self, values: Tensor, module: nn.Linear) -> Tensor:
        weight = module.weight
        single = values.dtype == weight.dtype == torch.float32 and values.device.type == "cpu"
        # Special tensor types (quantized, for example) implement their own product.
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
    """Whether torch can use oneDNN here; on other processors than x86 it is built differently."""
    built_in = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    known = built_in and all(hasattr(torch.ops.mkldnn, name) for name in _CALLS)
    return known and platform.machine().lower() in ("x86_64", "amd64")


def laid_out(weight: Tensor) -> Tensor:
    """A weight in the memory layout of oneDNN, which only `multiplied` can read."""
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return result


def multiplied(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """values · weightᵀ + bias, by oneDNN"""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


class _Product(torch.autograd.Function):
    """The same with a gradient for the values, but not for the weights."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return multiplied(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of this gradient is needed
            return gradient @ weight, None, None
        return multiplied(gradient.contiguous(), weight.t(), None), None, None


class Copies:
    """`precision="fast"`: large products in bfloat16, with copies of the weights that are renewed when a weight
    changes.

    A processor with bfloat16 instructions multiplies about twice as fast. Residuals and LayerNorm stay in single
    precision, so rounding errors do not accumulate over the layers.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, bool], tuple[_Mark, Tensor, Tensor | None]] = {}

    def __call__(self, values: Tensor, module: nn.Linear) -> Tensor:
        half = values.bfloat16()
        # A weight in oneDNN's layout cannot be used in a backward pass.
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
    """Whether oneDNN has bfloat16 instructions on this processor."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _mark(weight: Tensor) -> _Mark:
    """A value that changes with the weight. `weight.data += …` is only visible in the numbers themselves."""
    numbers = weight.detach().flatten()[:4].tolist() if weight.device.type == "cpu" else ()
    return weight.data_ptr(), weight._version, weight.device, *numbers
