"""What is special about a training: what a mini-batch becomes, what is added to the loss, what is validated on.

Recipes compose: "masked + salience" changes the rows as one does and adds to the loss as the other does.
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
    """Its configuration; this one changes nothing. Random numbers come from `rows.keys` alone."""

    attentions: ClassVar[bool] = False  # the penalty reads attention weights
    erases: ClassVar[bool] = False  # so it says what is validated on, also in company

    def prepare(self, model: TextClassifier, encodings: Sequence[Encoding]) -> Self:
        """Itself, fitted on the training data where it needs that; the place to refuse a model it cannot train."""
        return self

    def rows(self, rows: Rows, place: Tensor, size: int, model: TextClassifier) -> Rows:
        """What rows become; `place` [rows] is where each stands in the mini-batch of `size` rows, over all devices.

        Places are drawn again each epoch, whatever the texts are.
        """
        return rows

    def penalty(self, output: Output, rows: Rows) -> Tensor | None:
        """What is added to each row's loss. [rows]"""
        return None

    def files(self) -> tuple[str, ...]:
        """Files that the training depends on besides data and base."""
        return ()

    def validation(self) -> Mapping[str, Recipe]:
        """What the validation examples become, by name; the best epoch is chosen on all of these together."""
        return {"unmasked": Recipe()}

    def final(self) -> Mapping[str, Recipe]:
        """What every epoch is scored on, too, and the chosen model at the end."""
        return self.validation()


@dataclass(frozen=True)
class Composed(Recipe):
    """Several recipes in turn."""

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
        """Who says what is validated on: those that erase, else all."""
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
    """The recipes a recipe is made of."""
    return recipe.parts if isinstance(recipe, Composed) else (recipe,)


def files_of(recipe: Recipe) -> dict[str, str]:
    """A hash of the content of each file a recipe reads."""
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
    """The specs of a recipe's parts."""
    # A plus inside parentheses belongs to an option.
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
