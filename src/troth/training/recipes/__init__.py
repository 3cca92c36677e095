"""Training recipes: how mini-batches are changed, what is added to the loss, and what validation uses.

Recipes can be combined: "masked + salience" changes the rows as the one and adds to the loss as the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeAlias

from torch import Tensor

from troth.core import arguments, catalog, reading
from troth.core.errors import TrothError
from troth.core.types import Encoding, Rows
from troth.models import Output, TextClassifier


@dataclass(frozen=True)
class Recipe:
    """The configuration of a recipe; this base class changes nothing. Random numbers come from `rows.keys` only."""

    attentions: ClassVar[bool] = False  # the penalty needs attention weights
    erases: ClassVar[bool] = False  # erases units, and therefore decides what validation uses, also in a combination

    def prepare(self, model: TextClassifier, encodings: Sequence[Encoding]) -> Self:
        """Returns the recipe fitted on the training data, if it needs that; refuses models that it cannot train."""
        return self

    def rows(self, rows: Rows, place: Tensor, size: int, model: TextClassifier) -> Rows:
        """The rows as the recipe changes them; `place` [rows] is each row's position in the mini-batch of `size` rows
        on all devices.

        Positions are drawn again in every epoch and do not depend on the texts.
        """
        return rows

    def penalty(self, output: Output, rows: Rows) -> Tensor | None:
        """The term that is added to each row's loss. [rows]"""
        return None

    def files(self) -> tuple[str, ...]:
        """The files that the training depends on besides data and base."""
        return ()

    def validation(self) -> Mapping[str, Recipe]:
        """The validation inputs by name; the best epoch is chosen on all of these together."""
        return {"unmasked": Recipe()}

    def final(self) -> Mapping[str, Recipe]:
        """Further inputs by name that are scored after every epoch and for the chosen model."""
        return self.validation()


@dataclass(frozen=True)
class Composed(Recipe):
    """Several recipes, applied one after the other."""

    parts: tuple[Recipe, ...]

    def prepare(self, model: TextClassifier, encodings: Sequence[Encoding]) -> Self:
        return replace(self, parts=tuple(part.prepare(model, encodings) for part in self.parts))

    def rows(self, rows: Rows, place: Tensor, size: int, model: TextClassifier) -> Rows:
        for part in self.parts:
            rows = part.rows(rows, place, size, model)
        return rows

    def penalty(self, output: Output, rows: Rows) -> Tensor | None:
        added = [penalty for part in self.parts if (penalty := part.penalty(output, rows)) is not None]
        return sum(added[1:], start=added[0]) if added else None

    def validation(self) -> Mapping[str, Recipe]:
        return {name: change for part in self._deciding for name, change in part.validation().items()}

    def final(self) -> Mapping[str, Recipe]:
        return {name: change for part in self._deciding for name, change in part.final().items()}

    @property
    def _deciding(self) -> tuple[Recipe, ...]:
        """The recipes that decide what validation uses: those that erase, else all."""
        return tuple(part for part in self.parts if part.erases) or self.parts


RecipeLike: TypeAlias = str | Recipe


def build(recipe: RecipeLike) -> Recipe:
    """A recipe from its spec text, or several joined by "+".

    >>> build("masked + plain")
    Composed(parts=(Masked(train='50/50', validate='both', masking='mask_token', variant='paper'), Plain()))
    """
    if not isinstance(recipe, str):
        arguments.of_kind("recipe", recipe, Recipe, 'a name such as "plain", or a Recipe')
        return recipe
    parts: tuple[Recipe, ...] = tuple(catalog.build("recipes", part) for part in split(recipe))
    return parts[0] if len(parts) == 1 else Composed(parts)


def spec(recipe: Recipe, *, full: bool = False) -> str:
    """The spec text of a recipe.

    >>> spec(build("masked(validate=no)+plain"))
    "masked(validate='no') + plain"
    """
    return " + ".join(catalog.spec(part, full=full) for part in parts_of(recipe))


def parts_of(recipe: Recipe) -> tuple[Recipe, ...]:
    """The recipes that a combination consists of."""
    return recipe.parts if isinstance(recipe, Composed) else (recipe,)


def files_of(recipe: Recipe) -> dict[str, str]:
    """A hash of the content of each file that a recipe reads."""
    found = {}
    for path in (path for part in parts_of(recipe) for path in part.files()):
        try:
            found[path] = hashlib.blake2b(reading.content(path, reading.DATA), digest_size=16).hexdigest()
        except OSError as error:
            raise TrothError(f"cannot read {path}: {error.strerror}") from None
    return found


def reads_attentions(recipe: Recipe) -> bool:
    """Whether its penalty needs attention weights."""
    return any(part.attentions for part in parts_of(recipe))


def split(text: str) -> list[str]:
    """Splits a specification at each plus sign outside parentheses."""
    # A plus sign inside parentheses belongs to an option.
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
