"""DeepLift's multipliers for any network: how much a change of the input contributes to the change of the output.

The network is traced operation by operation as it runs, first on the reference, then on the input; nothing in the
model is hooked or replaced. In the second run every nonlinear operation gives autograd a linear stand-in m · x with
Σ m · Δx = Δy, so the backward pass chains multipliers instead of derivatives and the scores stay complete:

- elementwise f: m = Δf / Δx (the rescale rule), or the slope halfway if Δx is too small to divide by;
- a product of two changing factors: Δ(a·b) = Δa · (b + b′)/2 + (a + a′)/2 · Δb, the derivative halfway;
- softmax: exp, sum and log by the rescale rule, written with logarithmic means so that nothing overflows;
- a quotient: the product rule solved for the quotient; LayerNorm: its formula, by the rules above.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from troth.engine.probes import at_least_single

_ELEMENTWISE = {
    "abs", "celu", "clamp", "clip", "cos", "elu", "erf", "exp", "expm1", "gelu", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log", "log1p", "log_sigmoid", "mish", "pow", "reciprocal", "relu", "relu6", "rpow", "rsqrt", "selu",
    "sigmoid", "silu", "sin", "softplus", "softsign", "sqrt", "square", "tanh",
}  # fmt: skip
_PRODUCTS = {"baddbmm", "bmm", "dot", "einsum", "matmul", "mm", "mul", "multiply", "mv", "rmatmul", "rmul"}


def multipliers(function: Callable[[Tensor], Tensor], inputs: Tensor, reference: Tensor) -> tuple[Tensor, ...]:
    """The values of a function (one value per row) at the input and the reference, and a multiplier per input
    element.

    In each row Σ multiplier · (input − reference) is the difference of the values.
    """
    with torch.enable_grad():
        # The reference run also needs gradient tracking to know what depends on the input, but has no backward pass, so
        # the saved tensors are dropped.
        with saved_tensors_hooks(lambda _: None, lambda _: torch.empty(0)), _Following() as first:
            before = function(reference.detach().requires_grad_()).detach()
        now = inputs.detach().requires_grad_()
        with _Following(first.noted):
            value = function(now)
        (factors,) = torch.autograd.grad(value.sum(), now)
    return value.detach(), before, factors


@dataclass(frozen=True, eq=False)
class _Operation:
    """One call of a torch function, as a function of the arguments that depend on the input."""

    func: Callable[..., Tensor]
    args: Sequence[Any]
    kwargs: dict[str, Any]

    @property
    def changing(self) -> list[Tensor]:
        return [argument for argument in self.args if _changes(argument)]

    @property
    def dim(self) -> int:
        return int(self.kwargs["dim"] if "dim" in self.kwargs else self.args[1])

    def __call__(self, *tensors: Tensor) -> Tensor:
        left = iter(tensors)
        return self.func(*[next(left) if _changes(argument) else argument for argument in self.args], **self.kwargs)


class _Following(TorchFunctionMode):
    """Records the inputs of nonlinear operations; given the records of a reference run, applies their rules."""

    def __init__(self, reference: deque[list[Tensor]] | None = None) -> None:
        super().__init__()
        self.noted: deque[list[Tensor]] = deque()
        self.reference = reference  # consumed during the run, which frees memory

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation = _Operation(func, args, kwargs or {})
        changing = operation.changing
        name = getattr(func, "__name__", "").strip("_")
        if changing and name in _FORMULAS:
            with self:
                return _FORMULAS[name](*args, **operation.kwargs)
        rule = _rule(name, operation)
        if rule is None:
            return func(*args, **operation.kwargs)
        if self.reference is None:
            self.noted.append([tensor.detach() for tensor in changing])
            return operation(*changing)
        with torch.no_grad():
            value = operation(*changing)
        stand_in = rule(operation, changing, self.reference.popleft())
        return _StandIn.apply(stand_in.to(value.dtype), value)  # type: ignore[no-untyped-call]


class _StandIn(torch.autograd.Function):
    """The value of one tensor with the derivative of another."""

    @staticmethod
    def forward(ctx: Any, stand_in: Tensor, value: Tensor) -> Tensor:
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def _changes(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.requires_grad


def _elementwise(operation: _Operation, changing: list[Tensor], reference: list[Tensor]) -> Tensor:
    now, before = at_least_single(changing[0]), at_least_single(reference[0])
    halfway = ((now.detach() + before) / 2).requires_grad_()
    (slope,) = torch.autograd.grad(operation(halfway).sum(), halfway)
    with torch.no_grad():
        change = now - before
        divisible = change.abs() > torch.finfo(now.dtype).eps ** 0.5
        multiplier = torch.where(divisible, (operation(now) - operation(before)) / change, slope)
    return now * multiplier


def _product(operation: _Operation, changing: list[Tensor], reference: list[Tensor]) -> Tensor:
    # The values are halfway between input and reference; the gradients reach the input unscaled.
    return operation(*[now + (before - now.detach()) / 2 for now, before in zip(changing, reference, strict=True)])


def _log_softmax(operation: _Operation, changing: list[Tensor], reference: list[Tensor]) -> Tensor:
    now, before, dim = at_least_single(changing[0]), at_least_single(reference[0]), operation.dim
    with torch.no_grad():
        totals = _log_mean(now.logsumexp(dim, keepdim=True), before.logsumexp(dim, keepdim=True))
        shares = (_log_mean(now, before) - totals).exp()  # share of each input in the change of log Σ exp
    return now - (shares * now).sum(dim, keepdim=True)


def _softmax(operation: _Operation, changing: list[Tensor], reference: list[Tensor]) -> Tensor:
    now, before, dim = at_least_single(changing[0]), at_least_single(reference[0]), operation.dim
    with torch.no_grad():
        multiplier = _log_mean(now.log_softmax(dim), before.log_softmax(dim)).exp()
    return multiplier * _log_softmax(operation, changing, reference)


def _log_mean(a: Tensor, b: Tensor) -> Tensor:
    """log of (exp a − exp b) / (a − b), which is the multiplier of exp."""
    apart = (a - b).abs()
    return torch.maximum(a, b) + torch.where(apart > 0, -torch.expm1(-apart) / apart, 1).log()


def _quotient(operation: _Operation, changing: list[Tensor], reference: list[Tensor]) -> Tensor:
    # The product rule for a = q · b: Δq = (Δa − Δb · (q + q′)/2) / ((b + b′)/2), stable even if b is small on one side.
    dividend, divisor = operation.args
    with torch.no_grad():
        quotient = (operation(*changing) + operation(*reference)) / 2
        halfway = (divisor + reference[-1]) / 2
    stand_in: Tensor = (dividend - quotient * divisor) / halfway
    return stand_in


_Rule = Callable[[_Operation, list[Tensor], list[Tensor]], Tensor]


def _rule(name: str, operation: _Operation) -> _Rule | None:
    changing = len(operation.changing)
    if name == "div":
        return _quotient if _changes(operation.args[1]) else None
    if name in _PRODUCTS:
        return _product if changing > 1 else None
    if changing == 1 and name in _ELEMENTWISE:
        return _elementwise
    if changing == 1 and name in ("softmax", "log_softmax"):
        return _softmax if name == "softmax" else _log_softmax
    return None


def _layer_norm(
    inputs: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    whole = at_least_single(inputs)
    centered = whole - whole.mean(dims, keepdim=True)
    normal = (centered / ((centered * centered).mean(dims, keepdim=True) + eps).sqrt()).to(inputs.dtype)
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias


# Functions that are followed through their formula: LayerNorm, and number / tensor.
_FORMULAS: dict[str, Callable[..., Tensor]] = {
    "layer_norm": _layer_norm,
    "rdiv": lambda tensor, number: tensor.reciprocal() * number,
}
