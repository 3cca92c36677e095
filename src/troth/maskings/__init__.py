"""How a unit is erased: one file per masking."""

import warnings
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from troth.core import user_code
from troth.core.types import Encoding, Rows
from troth.models import TextClassifier


@dataclass(frozen=True)
class Masking(ABC):
    """An instance is its configuration; `keep` says which, a masking says how."""

    level: ClassVar[Literal["ids", "embeddings", "attention"]]
    whole: ClassVar[bool] = False  # a unit is kept or erased, nothing between
    puts_mask: ClassVar[bool] = False  # an erased unit becomes the mask token, or what stands for one
    shortens: ClassVar[bool] = False  # an erased unit's tokens are gone from the row
    stochastic: ClassVar[bool] = False  # the same keep gives other rows under other draws
    tested_by_masf: ClassVar[bool] = True  # whether "in distribution" means anything for such inputs
    formula: ClassVar[str] = ""  # in the signs of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # what to beware of, in a sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        user_code.guard(cls, ("erase", "lengths"), out_of_memory=False)

    @property
    def draws(self) -> int:
        """How many texts are drawn for each row, over which answers are averaged; 0 = nothing is drawn that way.

        Such draws depend on the seed, the text and the place alone, so that rows which keep the same are the same.
        """
        return 0

    def files(self, model: TextClassifier) -> str | None:
        """The hash of what its erasing depends on besides its options and the model; None where that is nothing."""
        return None

    @abstractmethod
    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        """The rows with each token kept as much as `keep` says: [rows, length], 1 wherever nothing may be erased."""

    def lengths(self, encoding: Encoding, keep: Tensor) -> Tensor:
        """How many tokens each row will have. [rows, units] -> [rows]"""
        return keep.new_full((len(keep),), len(encoding.ids)).long()


_WARNED: weakref.WeakSet[TextClassifier] = weakref.WeakSet()


def mask_of(model: TextClassifier) -> int:
    """The id that erased words become; warns once per model where that is not a mask token."""
    if model.masked_by and model not in _WARNED:
        _WARNED.add(model)
        warnings.warn(model.masked_by, UserWarning, stacklevel=2)
    return model.mask_id


def put_token(rows: Rows, where: Tensor, token: int | Tensor, model: TextClassifier) -> Rows:
    """The rows with another token in some places, one for all or [rows, length]; word vectors that an earlier masking
    has changed follow.
    """
    ids, vectors = torch.where(where, token, rows.ids), rows.embeddings
    if vectors is not None:
        vectors = torch.where(where[..., None], model.embed(ids).to(vectors.dtype), vectors)
    return replace(rows, ids=ids, embeddings=vectors)
