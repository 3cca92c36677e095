"""The fast lane: known encoders (BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT) read by our own arithmetic.

It is over the model's own weights and gives what the model gives, up to the order in which numbers are added; it proves
that on first use (`trial`). Everything else is read by the model itself: another family, a model with hooks or
adapters, a caller who needs attentions or hidden states or follows each operation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models._row_choice import chosen
from troth.models.lane.copies import Copies
from troth.models.lane.packing import pack
from troth.models.lane.parts import FAMILIES, Known, Parts
from troth.models.lane.products import Exact, Linear
from troth.models.lane.reading import read
from troth.models.lane.trial import Reader, proved

Precision = Literal["exact", "fast"]
_TOKENS = 1024  # at a time on a CPU, so that what lies between two matrix products stays in its cache


def known_precision(precision: str, network: Any, name: str) -> Precision:
    """Refuses a precision that does not exist, or that this network cannot be read in."""
    if precision not in ("exact", "fast"):
        raise TrothError(f"precision must be exact or fast, not {precision!r}")
    if precision == "fast" and Known().parts(network) is None:
        kind = type(network).__name__
        raise TrothError(
            f'{name}: precision="fast" reads plain {", ".join(FAMILIES)} classifiers; this is a {kind} of another kind '
            "or with hooks or adapters: leave it out, or give dtype=bfloat16"
        )
    return "fast" if precision == "fast" else "exact"


class Lane:
    """The lane of one wrapper of a network."""

    def __init__(self, precision: Precision = "exact") -> None:
        copies = Copies()
        self._linear_of_layer: Callable[[int], Linear] = (lambda pieces: copies) if precision == "fast" else Exact
        self._known = Known()
        self._closed = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        """The model reads everything itself; whoever calls this holds the model's lock."""
        before, self._closed = self._closed, True
        try:
            yield
        finally:
            self._closed = before

    def knows(self, network: Any) -> bool:
        """Whether it may read this network's rows: as long as nobody needs the network's insides."""
        return not self._closed and self._known.parts(network) is not None

    def reads(self, network: Any, device: torch.device, plain: Reader) -> Parts | None:
        """The parts of a network that it reads now, and has proved to read as the model does; the model is frozen."""
        if self._closed or _is_followed(device):
            return None
        parts = self._known.parts(network)
        if parts is None:
            return None
        as_large = partial(Exact, large=1)  # what large ones are multiplied by is tried, too

        def lane(trial: Rows) -> Tensor:
            return _read(parts, trial, trial.lengths.tolist(), as_large)

        return parts if proved(network, parts, lane, plain) else None

    def logits(self, network: Any, rows: Rows, plain: Reader) -> Tensor | None:
        """[rows, classes]; None where the model must read these rows itself. The caller has frozen the model."""
        if len(rows) == 0 or (parts := self.reads(network, rows.ids.device, plain)) is None:
            return None
        lengths = rows.known_lengths
        return _read(parts, rows, lengths, self._linear_of_layer) if min(lengths) > 0 else None


def _read(parts: Parts, rows: Rows, lengths: list[int], linear_of_layer: Callable[[int], Linear]) -> Tensor:
    slices = list(_pieces(lengths)) if rows.ids.device.type == "cpu" else [slice(None)]
    pieces = []
    for piece in slices:
        some = rows if len(slices) == 1 else chosen(rows, piece)
        pieces.append((some, pack(some, lengths[piece], some.attention)))
    return read(parts, pieces, linear_of_layer)


def _pieces(lengths: list[int]) -> Iterator[slice]:
    """Neighbors whose tokens are about as many as a cache holds."""
    start = tokens = 0
    for row, length in enumerate(lengths):
        if tokens and tokens + length > _TOKENS:
            yield slice(start, row)
            start, tokens = row, 0
        tokens += length
    yield slice(start, len(lengths))


def _is_followed(device: torch.device) -> bool:
    """Whether somebody wants to see each operation of the model, or has changed what operations do."""
    return bool(
        torch._C._len_torch_function_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None  # vmap and its like
        or torch.is_autocast_enabled(device.type)
        or torch.compiler.is_compiling()
    )
