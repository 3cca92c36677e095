"""Some rows of a batch, and rows with a token more."""

from dataclasses import replace

import torch
from torch import Tensor

from troth.core.types import PROMPT, Rows
from troth.models.base import TextClassifier


def chosen(rows: Rows, numbers: Tensor) -> Rows:
    """These rows alone. [n]"""

    def some(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[numbers.to(values.device)]

    return replace(
        rows,
        encodings=[rows.encodings[number] for number in numbers.tolist()],
        ids=rows.ids[numbers],
        units=rows.units[numbers],
        lengths=rows.lengths[numbers],
        target=rows.target[numbers],
        against=rows.against[numbers],
        keys=rows.keys[numbers],
        token_types=some(rows.token_types),
        embeddings=some(rows.embeddings),
        attention=some(rows.attention),
        output_factor=some(rows.output_factor),
        kept=some(rows.kept),
    )


def rearranged(rows: Rows, index: Tensor, lengths: Tensor) -> Rows:
    """Rows whose tokens are those at other places. [rows, new length], [rows]"""

    def moved(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        spread = index.reshape(*index.shape, *[1] * (values.dim() - 2))
        return values.gather(1, spread.expand(*index.shape, *values.shape[2:]))

    return replace(
        rows,
        ids=rows.ids.gather(1, index),
        units=rows.units.gather(1, index),
        lengths=lengths,
        token_types=moved(rows.token_types),
        embeddings=moved(rows.embeddings),
        attention=moved(rows.attention),
        width=None,
        is_even=None,
    )


def shortened(rows: Rows, lengths: Tensor) -> Rows:
    """The rows up to these lengths. [rows]"""
    width = int(lengths.max())

    def begin(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[:, :width]

    return replace(
        rows,
        ids=rows.ids[:, :width],
        units=rows.units[:, :width],
        lengths=lengths,
        token_types=begin(rows.token_types),
        embeddings=begin(rows.embeddings),
        attention=begin(rows.attention),
        width=None,
        is_even=None,
    )


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
