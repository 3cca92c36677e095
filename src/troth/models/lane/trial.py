"""A lane proves on first use that it says what the model says: of rows of several lengths, in logits and gradients."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from troth.core.memory import ran_out
from troth.core.types import Rows
from troth.models.lane.parts import Parts

_LENGTHS = (14, 3, 9, 9)
_PROVED: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
Reader = Callable[[Rows], Tensor]


def proved(network: Any, parts: Parts, lane: Reader, plain: Reader) -> bool:
    """Whether both readers give the same logits and gradients, up to the noise of the number format."""
    if (known := _PROVED.get(network)) is not None:
        return known
    rows = _rows(parts)
    try:
        theirs = _logits_and_gradient(plain, rows, parts)
        noise = _noise(theirs[0])
        if bool((theirs[0] - theirs[0][:1]).abs().max() <= noise * theirs[0].abs().max()):
            return False  # it says the same of everything; once it is trained it is asked again
        ours = _logits_and_gradient(lane, rows, parts)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        if ran_out(error):
            raise
        _PROVED[network] = False
        return False
    # A gradient passes twice as many operations, and its largest number stands for all.
    _PROVED[network] = all(
        bool((own - other).abs().max() <= allowed * other.abs().max())
        for own, other, allowed in zip(ours, theirs, (noise, 4 * noise), strict=True)
    )
    return _PROVED[network]


def _noise(logits: Tensor) -> float:
    eps = torch.finfo(logits.dtype).eps
    return float(max(0.1 * eps**0.5, 32 * eps))


def _logits_and_gradient(reader: Reader, rows: Rows, parts: Parts) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        logits = reader(rows)
    with torch.enable_grad():
        vectors = parts.words.weight.detach()[rows.ids].requires_grad_()
        read = reader(replace(rows, embeddings=vectors))
        value = (read * torch.arange(1, read.shape[1] + 1, device=read.device)).sum()
        (gradient,) = torch.autograd.grad(value, vectors)
    return logits, gradient * rows.real[..., None]


def _rows(parts: Parts) -> Rows:
    """Tokens drawn from the whole vocabulary, as they might come from any text or pair."""
    draws = torch.Generator().manual_seed(0)
    vocabulary, positions = len(parts.words.weight), len(parts.positions.weight) - parts.first_position
    lengths = torch.tensor(_LENGTHS).clamp(max=positions)
    shape = (len(lengths), int(lengths.max()))
    kinds = 0 if parts.types is None else len(parts.types.weight)
    device = parts.words.weight.device
    nothing = torch.zeros(len(lengths), dtype=torch.int64, device=device)
    return Rows(
        encodings=(),
        ids=torch.randint(vocabulary, shape, generator=draws).to(device),
        units=torch.zeros(shape, dtype=torch.int64, device=device),
        lengths=lengths.to(device),
        target=nothing,
        against=nothing - 1,
        keys=nothing,
        token_types=torch.randint(kinds, shape, generator=draws).to(device) if kinds else None,
    )
