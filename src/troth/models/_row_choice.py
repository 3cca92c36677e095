"""Some rows of a batch, and rows with a token more."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from troth.core.types import PROMPT, Rows
from troth.models.base import TextClassifier


def chosen(rows: Rows, which: Tensor | slice) -> Rows:
    """These rows alone, by their numbers or as a slice."""

    def some(values: Tensor) -> Tensor:
        return values[which] if isinstance(which, slice) else values[which.to(values.device)]

    values: dict[str, Any] = {field.name: getattr(rows, field.name) for field in fields(rows)}
    tensors = {name: some(value) for name, value in values.items() if isinstance(value, Tensor)}
    encodings = rows.encodings
    own = encodings[which] if isinstance(which, slice) else [encodings[number] for number in which.tolist()]
    after = rows.lengths_after if isinstance(which, slice) else None
    after = None if after is None else after[which]
    return replace(rows, **{**values, **tensors, "encodings": own, "lengths_after": after})


def rearranged(rows: Rows, index: Tensor, lengths: Tensor) -> Rows:
    """Rows whose tokens are those at other places. [rows, new length], [rows]"""

    def moved(values: Tensor) -> Tensor:
        spread = index.reshape(*index.shape, *[1] * (values.dim() - 2))
        return values.gather(1, spread.expand(*index.shape, *values.shape[2:]))

    return _with_tokens(rows, lengths, moved)


def shortened(rows: Rows, lengths: Tensor) -> Rows:
    """The rows up to these lengths. [rows]"""
    width = int(lengths.max())
    return _with_tokens(rows, lengths, lambda values: values[:, :width])


def _with_tokens(rows: Rows, lengths: Tensor, taken: Callable[[Tensor], Tensor]) -> Rows:
    """Rows that have other tokens: `taken` gives those, and what goes with them. [rows, length, …] -> [rows, new, …]"""
    names = ("ids", "units", "token_types", "embeddings", "attention")
    given: dict[str, Any] = {name: getattr(rows, name) for name in names}
    changed: dict[str, Any] = {name: taken(values) for name, values in given.items() if values is not None}
    return replace(rows, **changed, lengths=lengths, width=None, is_even=None, lengths_after=None)


def begun_with(token: int, rows: Rows, model: TextClassifier) -> Rows:
    """The rows with one more token in front of each, which belongs to the prompt."""
    first = torch.full_like(rows.ids[:, :1], token)
    vectors, attention = rows.embeddings, rows.attention
    return replace(
        rows,
        ids=torch.cat([first, rows.ids], dim=1),
        units=torch.cat([torch.full_like(first, PROMPT), rows.units], dim=1),
        lengths=rows.lengths + 1,
        embeddings=None if vectors is None else torch.cat([model.embed(first).to(vectors.dtype), vectors], dim=1),
        attention=None if attention is None else torch.cat([torch.zeros_like(attention[:, :1]), attention], dim=1),
    )
