"""Maskings, the ways to erase a unit: one file per masking."""

import warnings
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from troth.core import user_code
from troth.core.types import Rows
from troth.models import TextClassifier


@dataclass(frozen=True)
class Masking(ABC):
    """How units are erased; `keep` says which. An instance is a configuration."""

    level: ClassVar[Literal["ids", "embeddings", "attention"]]
    whole: ClassVar[bool] = False  # units are either kept or erased, never faded
    puts_mask: ClassVar[bool] = False  # erased units become the mask token or its substitute
    shortens: ClassVar[bool] = False  # removes the tokens of erased units from the row, except one whose label is asked
    stochastic: ClassVar[bool] = False  # rows with the same `keep` differ with the random seed
    tested_by_masf: ClassVar[bool] = True  # whether "in distribution" is meaningful for such inputs
    formula: ClassVar[str] = ""  # in the notation of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # a known limitation, in one sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        user_code.guard(cls, ("erase",), out_of_memory=False)

    @property
    def draws(self) -> int:
        """The number of random texts per row, over which answers are averaged; 0 = not random in this way.

        These draws depend only on the seed, the text and the position, so rows with the same `keep` are equal.
        """
        return 0

    def files(self, model: TextClassifier) -> str | None:
        """The hash of external files that the result depends on, such as another model's weights; None if there are
        none.
        """
        return None

    @abstractmethod
    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        """Erases the rows. `keep` is [rows, length], with 1 for tokens that must not be erased."""


_WARNED: weakref.WeakSet[TextClassifier] = weakref.WeakSet()


def mask_of(model: TextClassifier) -> int:
    """The id that replaces erased words; warns once per model if it is not a mask token."""
    if model.masked_by and model not in _WARNED:
        _WARNED.add(model)
        warnings.warn(model.masked_by, UserWarning, stacklevel=2)
    return model.mask_id


def put_token(rows: Rows, where: Tensor, token: int | Tensor, model: TextClassifier) -> Rows:
    """Replaces some tokens by one token or by [rows, length] tokens. Word vectors that an earlier masking has changed
    are updated, too.
    """
    ids, vectors = torch.where(where, token, rows.ids), rows.embeddings
    if vectors is not None:
        vectors = torch.where(where[..., None], model.embed(ids).to(vectors.dtype), vectors)
    return replace(rows, ids=ids, embeddings=vectors)
