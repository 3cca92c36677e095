"""Masked fine-tuning (Madsen et al., 2024): half of each mini-batch loses a random share of its tokens, so that erased
inputs are in distribution and erasure metrics need no retraining.

A row's rate is uniform on [0, 1] and each token of both texts is erased with that probability, so the number erased is
uniform on 0..n. Special tokens are never erased. Paper: every second row of the mini-batch; the released code takes its
second half (`variant="released"`); which rows stand there is drawn in each epoch, whatever their texts. `train` and
`validate` are the strategies of the paper's ablation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.types import Encoding, Rows, spread
from troth.maskings import Masking
from troth.models import TextClassifier
from troth.training.recipes import Recipe


@dataclass(frozen=True)
class Masked(Recipe):
    erases: ClassVar[bool] = True

    train: Literal["no", "masking", "50/50"] = "50/50"
    validate: Literal["no", "masking", "both"] = "both"
    masking: str = "mask_token"
    variant: Literal["paper", "released"] = "paper"

    def __post_init__(self) -> None:
        if self._how.level == "attention":
            raise TrothError(f"masked: masking must be mask_token, delete, zero, pad, mix or soft, not {self.masking}")

    @property
    def _how(self) -> Masking:
        return catalog.build("maskings", self.masking)

    def prepare(self, model: TextClassifier, encodings: Sequence[Encoding]) -> Self:
        if self.masking.startswith("mask_token"):
            try:
                model.mask_id  # noqa: B018  (raises where there is none)
            except TrothError:
                raise TrothError(
                    f"{model.name} has no mask token, which masked fine-tuning erases with; "
                    "use another base, or the recipe masked(masking=delete) or masked(masking=zero)"
                ) from None
        return self

    def rows(self, rows: Rows, place: Tensor, size: int, model: TextClassifier) -> Rows:
        if self.train == "no":
            return rows
        if self.train == "masking":
            chosen = torch.ones_like(place, dtype=torch.bool)
        elif self.variant == "paper":
            chosen = place % 2 == 1
        else:
            chosen = place >= size // 2
        return erase_at_random(rows, chosen, self._how, model)

    def validation(self) -> Mapping[str, Recipe]:
        sets: dict[str, Recipe] = {}
        if self.validate != "masking":
            sets["unmasked"] = Recipe()
        if self.validate != "no":
            sets["masked"] = Masked(train="masking", masking=self.masking)
        return sets

    def final(self) -> Mapping[str, Recipe]:
        masked = Masked(train="masking", masking=self.masking)
        return {"unmasked": Recipe(), "masked": masked, "all_masked": AllMasked(masking=self.masking)}


@dataclass(frozen=True)
class AllMasked(Recipe):
    """Everything is masked except the special tokens, so only the number of tokens is visible."""

    masking: str = "mask_token"

    def rows(self, rows: Rows, place: Tensor, size: int, model: TextClassifier) -> Rows:
        how: Masking = catalog.build("maskings", self.masking)
        return how.erase(rows, (rows.units < 0).to(torch.float32), model)


def erase_at_random(rows: Rows, chosen: Tensor, how: Masking, model: TextClassifier) -> Rows:
    """Erases a uniformly drawn share of the units of the chosen rows. [rows] -> rows"""
    n_units = max(encoding.n_units for encoding in rows.encodings)
    drawn = draws.uniforms(rows.keys, 1 + n_units)
    rate, own = drawn[:, :1], drawn[:, 1:]
    keep = torch.where(chosen[:, None], own >= rate, True).to(torch.float32)
    return how.erase(rows, spread(keep, rows.units), model)
