"""Rows of different lengths as one long row of tokens, so that no matrix product sees padding.

Attention needs a row's tokens together. On a CPU rows are ordered by length and fall into groups of one length; on a
GPU, where few large calls are better, attention reads rows of all lengths at once, or one padded group and its mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch
from torch import Tensor

from troth.core.memory import moved
from troth.core.types import Rows


@dataclass(frozen=True, eq=False)
class Packed:
    """Where each token of the long row comes from, and how it falls into groups."""

    groups: tuple[tuple[int, int], ...]  # rows and length of each
    order: Tensor | None  # [rows] which row comes where; None = as they are
    place: Tensor | None  # [tokens] of each token in the padded rows, flat; None = there is no padding
    position: Tensor  # [tokens] in its own row
    first: Tensor  # [rows] where each row begins
    padded: Tensor | None  # [tokens] of each token in the one padded group; None = groups have no padding
    masks: tuple[Tensor | None, ...]  # [rows, 1, 1, length] of each group, added to the logits of attention
    bounds: Tensor | None = None  # [rows + 1] where rows begin and end, for attention over rows of different lengths

    def take(self, values: Tensor) -> Tensor:
        """[rows, length, ...] -> [tokens, ...]"""
        flat = values.reshape(-1, *values.shape[2:])
        return flat if self.place is None else flat[self.place]

    def split(self, tokens: Tensor) -> list[Tensor]:
        """[tokens, hidden] -> [rows, length, hidden] of each group"""
        if self.padded is not None:
            (rows, length), width = self.groups[0], tokens.shape[1]
            return [tokens.new_zeros(rows * length, width).index_copy(0, self.padded, tokens).view(rows, length, width)]
        if len(self.groups) == 1:
            return [tokens.view(*self.groups[0], -1)]
        parts = torch.split(tokens, [rows * length for rows, length in self.groups])
        return [part.view(*group, -1) for part, group in zip(parts, self.groups, strict=True)]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """What `split` has split."""
        flat = [part.reshape(-1, part.shape[-1]) for part in parts]
        if self.padded is not None:
            return flat[0][self.padded]
        return flat[0] if len(flat) == 1 else torch.cat(flat)

    def as_given(self, values: Tensor) -> Tensor:
        """[rows, ...] in the order the rows came in"""
        return values if self.order is None else torch.empty_like(values).index_copy(0, self.order, values)


def pack(rows: Rows, lengths: list[int], bias: Tensor | None) -> Packed:
    """`bias`, [rows, length], is added to the attention logits of each key."""
    device, width, count = rows.ids.device, rows.ids.shape[1], len(lengths)
    in_groups = device.type == "cpu"
    order = None
    if in_groups and any(after < before for before, after in pairwise(lengths)):
        in_order = sorted(range(count), key=lengths.__getitem__)
        lengths, order = [lengths[row] for row in in_order], torch.tensor(in_order)
        bias = None if bias is None else bias[order]
    # Equal numbers are written by the device itself: copied there, they would wait for all that is under way.
    even = min(lengths) == max(lengths)
    counts = torch.full((count,), lengths[0], device=device) if even else moved(torch.tensor(lengths), device)
    first = counts.cumsum(0) - counts
    row = torch.repeat_interleave(torch.arange(count, device=device), counts, output_size=sum(lengths))
    position = torch.arange(sum(lengths), device=device) - first[row]
    source = (row if order is None else order[row]) * width + position
    place = None if order is None and min(lengths) == width else source
    if in_groups or even:
        groups = tuple((len(list(same)), length) for length, same in groupby(lengths))
        return Packed(groups, order, place, position, first, None, _masks(groups, bias))
    longest = max(lengths)
    added = torch.zeros(count, longest, device=device) if bias is None else bias[:, :longest].float()
    beyond = torch.arange(longest, device=device) >= counts[:, None]
    mask = added.masked_fill(beyond, torch.finfo(torch.float32).min)[:, None, None]
    bounds = torch.cat([first, first[-1:] + counts[-1:]]).int() if bias is None else None
    return Packed(((count, longest),), order, place, position, first, row * longest + position, (mask,), bounds)


def _masks(groups: tuple[tuple[int, int], ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    if bias is None:
        return (None,) * len(groups)
    parts = torch.split(bias, [rows for rows, _ in groups])
    return tuple(part[:, None, None, :length] for part, (_, length) in zip(parts, groups, strict=True))
