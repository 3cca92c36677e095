"""Derives rows from a batch: a selection, other tokens, or more tokens. The only module that lists the per-token
fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from troth.core.types import Encoding, Rows
from troth.models.base import TextClassifier

_OF_TOKENS = ("ids", "units", "token_types", "embeddings", "attention", "output_factor", "asked")  # [rows, length, …]
_OUTDATED: dict[str, Any] = {"width": None, "is_even": None, "lengths_after": None}  # reset when tokens change


def chosen(rows: Rows, which: Tensor | slice) -> Rows:
    """A selection of the rows, by index or slice."""
    if isinstance(which, slice):
        after = None if rows.lengths_after is None else rows.lengths_after[which]
        tensors: dict[str, Any] = {name: value[which] for name, value in _tensors(rows).items()}
        return replace(rows, **tensors, encodings=rows.encodings[which], lengths_after=after)
    tensors = {name: value[which.to(value.device)] for name, value in _tensors(rows).items()}
    own = [rows.encodings[number] for number in which.tolist()]
    return replace(rows, **tensors, encodings=own, lengths_after=None)


def distinct_encodings(rows: Rows) -> tuple[list[Encoding], Tensor]:
    """The distinct encodings, and the index of each row's encoding. [rows]"""
    distinct = {id(encoding): encoding for encoding in rows.encodings}
    number = {key: place for place, key in enumerate(distinct)}
    return list(distinct.values()), torch.tensor([number[id(encoding)] for encoding in rows.encodings])


def stacked(batches: Sequence[Rows]) -> Rows:
    """Concatenates batches of the same length."""
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(rows, name) for rows in batches]) for name in _tensors(batches[0])
    }
    return replace(batches[0], **tensors, encodings=[encoding for rows in batches for encoding in rows.encodings])


def _tensors(rows: Rows) -> dict[str, Any]:
    values = {field.name: getattr(rows, field.name) for field in fields(rows)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def rearranged(rows: Rows, index: Tensor, lengths: Tensor, origin: Tensor | None = None) -> Rows:
    """Rows with tokens from other positions, of the same row or of row `origin`. [rows, new length], [rows]"""
    row = torch.arange(len(index), device=index.device) if origin is None else origin
    changed = _tensors(rows)
    for name, value in changed.items():
        if name in _OF_TOKENS:
            changed[name] = value[row[:, None], index]
        elif origin is not None:
            changed[name] = value[row.to(value.device)]
    if origin is not None:
        changed["encodings"] = [rows.encodings[number] for number in row.tolist()]
    return replace(rows, **changed | _OUTDATED | {"lengths": lengths})


def shortened(rows: Rows, lengths: Tensor) -> Rows:
    """The rows truncated to these lengths. [rows]"""
    width = int(lengths.max())
    changed = {name: value[:, :width] for name, value in _tensors(rows).items() if name in _OF_TOKENS}
    return replace(rows, **changed, lengths=lengths, **_OUTDATED)


def extended(
    rows: Rows,
    model: TextClassifier,
    ids: Tensor,
    *,
    unit: int,
    lengths: Tensor,
    join: Callable[[Tensor, Tensor], Tensor] = lambda own, more: torch.cat([own, more], dim=1),
    types: Tensor | None = None,
) -> Rows:
    """The rows with additional unchanged tokens: [more] or [rows, more] ids, all in one unit.

    `join` inserts them, by default at the end: [rows, length, …], [rows, more, …] -> both.
    """
    ids = ids.expand(len(rows), -1)
    more: dict[str, Tensor] = {"ids": ids, "units": torch.full_like(ids, unit)}
    if rows.token_types is not None:
        more["token_types"] = torch.zeros_like(ids) if types is None else types.to(ids.device).expand_as(ids)
    if rows.embeddings is not None:
        more["embeddings"] = model.embed(ids).to(rows.embeddings.dtype)
    if rows.attention is not None:
        more["attention"] = rows.attention.new_zeros(ids.shape)
    if rows.asked is not None:
        more["asked"] = torch.zeros_like(ids, dtype=torch.bool)
    if rows.output_factor is not None:
        more["output_factor"] = rows.output_factor.new_ones(*ids.shape, rows.output_factor.shape[-1])
    changed: dict[str, Any] = {name: join(getattr(rows, name), values) for name, values in more.items()}
    return replace(rows, **changed, lengths=lengths, **_OUTDATED)
