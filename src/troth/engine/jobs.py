"""What the engine has under way: an ask between two looks, and a look whose rows are being answered."""

from collections.abc import Hashable
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.types import Encoding
from troth.engine.looks import Answer, Ask, Look
from troth.maskings import Masking

T = TypeVar("T")


class Running(Generic[T]):
    """One ask under way."""

    def __init__(self, ask: Ask[T]) -> None:
        self.ask = ask
        self.look: Look | None = None  # what it waits for
        self.answer: Answer | None = None
        self.done = False
        self.result: T

    def advance(self) -> Look | None:
        """Hands the ask its answer and takes its next look; None when it is done."""
        try:
            self.look = next(self.ask) if self.answer is None else self.ask.send(self.answer)
        except StopIteration as stop:
            self.look, self.done, self.result = None, True, stop.value
        self.answer = None
        return self.look

    @property
    def can_advance(self) -> bool:
        return not self.done and self.look is None

    def receive(self, answer: Answer) -> None:
        self.look, self.answer = None, answer


class Job:
    """One look, its repeated rows dropped."""

    def __init__(self, look: Look, default: Masking) -> None:
        self.look, self.question, self.encoding = look, look.question, look.question.encoding
        encoding, base = self.encoding, self.question.base
        require_readable(encoding)
        if look.keep.dim() != 2 or look.keep.shape[1] != encoding.n_units:
            raise TrothError(f"keep must be [rows, {encoding.n_units} units], not {list(look.keep.shape)}")
        self.want, self.others = look.want, look.others
        self.masking = look.masking or default
        # Erased already by the same masking: one operation does both. By another: first that, then this.
        self.erased_by = None if base is None else self.question.erased_by or default
        keep = look.keep if _is_plain(look.keep) else look.keep.detach().to("cpu", torch.float32)
        if encoding.has_tokenless:
            # A unit that no token joins cannot be erased: such rows are one, and its score exactly 0.
            keep = torch.where(encoding.tokenless, 1.0, keep)
        if base is not None and self.erased_by == self.masking:
            keep, self.erased_by = keep * base, None
        self.keep: NDArray[Any] = keep.numpy()  # [rows, units] bool where every unit is kept or erased
        self.asked = len(self.keep)  # rows
        self.inverse: NDArray[np.int64] | None = None  # which of its rows each row asked for is; None = the same
        kept = self.keep == 1
        self.erases = not kept.all() or (self.others is not None and bool((self.others != 1).any()))
        self.is_binary = not self.erases or bool((kept | (self.keep == 0)).all())
        if self.is_binary:
            self.keep = kept
        elif self.masking.whole:
            name = catalog.name_of(self.masking)
            raise TrothError(f"{name} erases whole units; to fade them use zero, mix, soft, gaussian or attention")
        differs = look.distinct and not encoding.has_tokenless
        alike = self.asked > 1 and encoding.n_units > 0 and not differs  # perhaps
        if alike and not self.masking.stochastic and self.others is None:
            self.keep, self.inverse = distinct(self.keep)

    def __len__(self) -> int:
        return len(self.keep)

    @property
    def group(self) -> Hashable:
        """Jobs that share it share batches."""
        return (self.want, self.masking, self.erased_by)

    @property
    def is_remembered(self) -> bool:
        """Whether its rows are worth a place in memory: looks of many rows, or of fractions, seldom repeat."""
        return (
            self.is_binary and len(self.keep) <= _REMEMBERED_ROWS
            and not self.masking.stochastic and self.want.remembered
        )  # fmt: skip

    @property
    def is_whole(self) -> bool:
        """Whether it asks about the input as it is, and nothing else."""
        return not self.erases and len(self.keep) == 1 and self.erased_by is None and self.others is None

    @property
    def against(self) -> int:
        return -1 if self.question.against is None else self.question.against

    def lengths(self) -> NDArray[np.int64]:
        """[rows] how many tokens each row has once it is erased."""
        lengths = self._lengths(self.masking, self.keep)
        if self.erased_by is None:
            return lengths
        # At most one of the two deletes.
        return np.minimum(lengths, self._lengths(self.erased_by, self.question.left[None].numpy()))

    def _lengths(self, masking: Masking, keep: NDArray[Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = masking.lengths(self.encoding, torch.from_numpy(keep).float()).numpy()
        return lengths

    def about(self, kind: int) -> Hashable:
        """What its rows are about; `kind` is the number of its group."""
        question = self.question
        left = b"" if question.base is None or self.erased_by is None else question.base.numpy().tobytes()
        target = (question.target, question.against) if self.want.about_target else None
        return kind, target, left, self.base_key

    def row_keys(self) -> list[Hashable]:
        """A name for each row; only of whole units."""
        if self.is_whole:
            return [_all_of(self.keep.shape[1])]
        names: list[Hashable] = packed(self.keep).tolist()
        return names if self.others is None else list(zip(self.others.tolist(), names, strict=True))

    @property
    def base_key(self) -> int:
        """What was erased at random before stays the same in every row."""
        by_chance = self.erased_by is not None and self.erased_by.stochastic
        return self.question.draws(catalog.spec(self.erased_by, full=True)).key if by_chance else 0

    @property
    def key(self) -> int:
        """Of the random draws of its rows."""
        spec = catalog.spec(self.masking, full=True)
        return draws.key(self.question.seed, self.encoding.example.id, self.look.purpose, spec)


_REMEMBERED_ROWS = 32


def require_readable(encoding: Encoding) -> None:
    """One line for an example that has no tokens to be read."""
    if not encoding.readable:
        raise TrothError(
            f"example {encoding.example.id} was read back without its model; "
            "use Attribution.from_dict(facts, model) to ask about it"
        )


def _is_plain(keep: Tensor) -> bool:
    return keep.dtype == torch.float32 and keep.device.type == "cpu" and not keep.requires_grad


@cache
def _all_of(n_units: int) -> Hashable:
    """The name of the row that keeps every unit."""
    name: Hashable = packed(np.ones((1, n_units), np.bool_)).tolist()[0]
    return name


def packed(keep: NDArray[np.bool_]) -> NDArray[Any]:
    """A name for each row, in the order of rows: a number, or bytes of over 64 units. [rows, units] -> [rows]"""
    # Eight units a byte: searches ask about so many rows that sorting them would cost as much as a fast model.
    bits = np.packbits(keep, axis=1)
    if bits.shape[1] > 8:
        return bits.view(np.dtype((np.void, bits.shape[1])))[:, 0]
    padded = np.zeros((len(bits), 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(">u8")[:, 0].astype(np.uint64)


def distinct(keep: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each row once, and which of these every row is."""
    if keep.dtype != np.bool_:
        rows, of_row = torch.unique(torch.from_numpy(keep), dim=0, return_inverse=True)
        return rows.numpy(), of_row.numpy()
    names = packed(keep)
    if len(keep) > _REMEMBERED_ROWS:
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        return keep[first], inverse
    # The same without numpy, which takes longer on so few.
    places: dict[Any, int] = {}
    listed = names.tolist()
    for row, name in enumerate(listed):
        places.setdefault(name, row)
    ordered = sorted(places)
    number = {name: place for place, name in enumerate(ordered)}
    return keep[[places[name] for name in ordered]], np.array([number[name] for name in listed])
