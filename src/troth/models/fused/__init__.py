"""Fused encoders: BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA and DistilBERT, computed by code of our own.

A fused encoder uses the model's own weights and returns the model's numbers, up to the order of additions; this is
verified on first use (`proved`). All other cases are computed by the model itself: other families, models with hooks or
adapters, and callers that need attentions or hidden states or that trace operations.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.types import Rows
from troth.models._row_edits import chosen
from troth.models.fused.parts import FAMILIES, EncoderParts, parts_of, unchanged_modules
from troth.models.fused.products import Copies, Exact, Linear
from troth.models.fused.reading import pack, read

Precision = Literal["exact", "fast"]
_TOKENS = 1024  # tokens at a time on a CPU, so that intermediate results stay in its cache
_LENGTHS = (14, 3, 9, 9)  # lengths of the rows for the verification
_PROVED: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
Reader = Callable[[Rows], Tensor]


def proved(network: Any, parts: EncoderParts, fused: Reader, plain: Reader) -> bool:
    """Whether both implementations give the same logits and gradients, up to the precision of the number format;
    cached.
    """
    if (known := _PROVED.get(network)) is not None:
        return known
    rows = _trial_rows(parts)
    try:
        theirs = _logits_and_gradient(plain, rows, parts)
        eps = torch.finfo(theirs[0].dtype).eps
        noise = max(0.1 * eps**0.5, 32 * eps)
        if bool((theirs[0] - theirs[0][:1]).abs().max() <= noise * theirs[0].abs().max()):
            return False  # the output is constant, so the comparison is inconclusive; it is repeated after training
        ours = _logits_and_gradient(fused, rows, parts)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        if ran_out(error):
            raise
        _PROVED[network] = False
        return False
    # A gradient passes through twice as many operations, and errors are relative to its largest element.
    _PROVED[network] = all(
        bool((own - other).abs().max() <= allowed * other.abs().max())
        for own, other, allowed in zip(ours, theirs, (noise, 4 * noise), strict=True)
    )
    return _PROVED[network]


def _logits_and_gradient(reader: Reader, rows: Rows, parts: EncoderParts) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        logits = reader(rows)
    with torch.enable_grad():
        vectors = parts.words.weight.detach()[rows.ids].requires_grad_()
        read = reader(replace(rows, embeddings=vectors))
        value = (read * torch.arange(1, read.shape[1] + 1, device=read.device)).sum()
        (gradient,) = torch.autograd.grad(value, vectors)
    return logits, gradient * rows.real[..., None]


def _trial_rows(parts: EncoderParts) -> Rows:
    """Random tokens from the whole vocabulary, as single texts and pairs."""
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


def known_precision(precision: str, network: Any, name: str) -> Precision:
    """Rejects an unknown precision, or one that is not available for this network."""
    if precision not in ("exact", "fast"):
        raise TrothError(f"precision must be exact or fast, not {precision!r}")
    if precision == "fast" and FusedEncoder().parts(network) is None:
        kind = type(network).__name__
        raise TrothError(
            f'{name}: precision="fast" reads plain {", ".join(FAMILIES)} classifiers; this is a {kind} of another kind '
            "or with hooks or adapters: leave it out, or give dtype=bfloat16"
        )
    return "fast" if precision == "fast" else "exact"


class FusedEncoder:
    """The fused implementation of one network, for one of its wrappers."""

    def __init__(self, precision: Precision = "exact") -> None:
        copies = Copies()
        self._linear_of_layer: Callable[[int], Linear] = (lambda pieces: copies) if precision == "fast" else Exact
        self._modules: list[nn.Module] = []
        self._parts: EncoderParts | None = None

    def parts(self, network: Any) -> EncoderParts | None:
        """The network's modules, looked up again after one was replaced; None if the model must read the rows
        itself.
        """
        modules = unchanged_modules(network)
        if modules is None:
            return None
        if modules != self._modules:
            self._modules, self._parts = modules, parts_of(network)
        return self._parts

    def reads(self, network: Any, device: torch.device, plain: Reader) -> EncoderParts | None:
        """The modules, if they can be used now and are verified; the model is frozen."""
        if _is_followed(device) or (parts := self.parts(network)) is None:
            return None
        as_large = partial(Exact, large=1)  # also verifies the code for large products

        def fused(trial: Rows) -> Tensor:
            return _read(parts, trial, trial.lengths.tolist(), as_large)

        return parts if proved(network, parts, fused, plain) else None

    def logits(self, network: Any, rows: Rows, plain: Reader) -> Tensor | None:
        """[rows, classes]; None if the model must read these rows itself. The caller has frozen the model."""
        if len(rows) == 0 or (parts := self.reads(network, rows.ids.device, plain)) is None:
            return None
        lengths = rows.known_lengths
        return _read(parts, rows, lengths, self._linear_of_layer) if min(lengths) > 0 else None


def _read(parts: EncoderParts, rows: Rows, lengths: list[int], linear_of_layer: Callable[[int], Linear]) -> Tensor:
    slices = list(_pieces(lengths)) if rows.ids.device.type == "cpu" else [slice(None)]
    pieces = []
    for piece in slices:
        some = rows if len(slices) == 1 else chosen(rows, piece)
        pieces.append((some, pack(some, lengths[piece], some.attention)))
    return read(parts, pieces, linear_of_layer)


def _pieces(lengths: list[int]) -> Iterator[slice]:
    """Groups of adjacent rows with about as many tokens as fit into the cache."""
    start = tokens = 0
    for row, length in enumerate(lengths):
        if tokens and tokens + length > _TOKENS:
            yield slice(start, row)
            start, tokens = row, 0
        tokens += length
    yield slice(start, len(lengths))


def _is_followed(device: torch.device) -> bool:
    """Whether the caller traces the model's operations or has overridden them."""
    return bool(
        torch._C._len_torch_function_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None  # vmap and other function transforms
        or torch.is_autocast_enabled(device.type)
        or torch.compiler.is_compiling()
    )
