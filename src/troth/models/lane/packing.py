"""Rows of different lengths as one long row of tokens, so that no matrix product sees padding.

Rows are ordered by length. Attention, which needs a row's tokens together, gets groups of rows of one length on a CPU;
on a GPU, where few large calls are better, one padded group and its mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

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
        parts = tokens.split([rows * length for rows, length in self.groups])
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
    device, width = rows.ids.device, rows.ids.shape[1]
    in_order = sorted(range(len(lengths)), key=lengths.__getitem__)
    ordered = [lengths[row] for row in in_order]
    groups = tuple((len(list(same)), length) for length, same in groupby(ordered))
    order = None if in_order == list(range(len(lengths))) else torch.tensor(in_order, device=device)
    counts = torch.tensor(ordered)
    ends = counts.cumsum(0)
    first = ends - counts
    row = torch.repeat_interleave(torch.arange(len(ordered)), counts)
    position = torch.arange(int(ends[-1])) - first[row]
    source = torch.tensor(in_order)[row] * width + position
    whole = order is None and groups[0][1] == width and len(groups) == 1
    if bias is not None and order is not None:
        bias = bias[order]
    padded, masks = None, _masks(groups, bias)
    if device.type != "cpu" and len(groups) > 1:
        longest = groups[-1][1]
        padded = (row * longest + position).to(device)
        beyond = (torch.arange(longest) >= counts[:, None]).to(device)
        lowest = torch.finfo(torch.float32).min
        added = torch.zeros(len(ordered), longest, device=device) if bias is None else bias[:, :longest].float()
        groups, masks = ((len(ordered), longest),), (added.masked_fill(beyond, lowest)[:, None, None],)
    return Packed(
        groups, order, None if whole else source.to(device), position.to(device), first.to(device), padded, masks
    )


def _masks(groups: tuple[tuple[int, int], ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    if bias is None:
        return (None,) * len(groups)
    parts = bias.split([rows for rows, _ in groups])
    return tuple(part[:, None, None, :length] for part, (_, length) in zip(parts, groups, strict=True))
