"""Where windows begin and end, what is said about them, and how attention from several is merged."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from troth.core import arguments
from troth.core.errors import TrothError, unknown
from troth.core.types import Rows

MERGES = ("mean_logits", "mean_probabilities", "max_logits")
# Of some windows: the row of each, the places of its tokens (-1: padding), and [windows, heads, width] per layer.
Weights = tuple[Tensor, Tensor, tuple[Tensor, ...]]


def settings_of(windows: Any, window: int) -> tuple[int, str]:
    """The stride and the way to merge, from what a user says."""
    if windows is not True and not isinstance(windows, Mapping):
        raise TrothError(f'windows must be True or {{"stride": …, "merge": …}}, not {windows!r}')
    given = {} if windows is True else dict(windows)
    for name in given:
        if name not in ("stride", "merge"):
            raise unknown("setting of windows", str(name), ("stride", "merge"))
    stride, merge = given.get("stride", max(1, window // 2)), given.get("merge", MERGES[0])
    arguments.of_kind("the stride of windows", stride, int, "a whole number of tokens")
    if not 1 <= stride < window:
        raise TrothError(f"the stride of windows must be 1 to {window - 1}, less than a window, not {stride}")
    if merge not in MERGES:
        raise unknown("way to merge windows", str(merge), MERGES)
    return stride, merge


@lru_cache(maxsize=256)
def places_of(length: int, before: int, behind: int, window: int, stride: int) -> list[list[int]]:
    """The places of each window's tokens; the last window ends where the text does, and is as long as the others."""
    content, room = length - before - behind, window - before - behind
    starts = [0]
    while starts[-1] + room < content:
        starts.append(min(starts[-1] + stride, content - room))
    ends = range(length - behind, length)
    return [[*range(before), *range(before + start, before + min(start + room, content)), *ends] for start in starts]


def averaged(weights: Sequence[Weights], rows: Rows) -> tuple[Tensor, ...]:
    """Attention from the classifier's position, [rows, heads, 1, length] per layer: the mean where windows overlap."""
    length = rows.ids.shape[1]
    layers = []
    for layer in range(len(weights[0][2])):
        heads = weights[0][2][layer].shape[1]
        total = weights[0][2][layer].new_zeros(len(rows) * (length + 1), heads)
        count = total.new_zeros(len(total), 1)
        for origin, index, parts in weights:
            flat = (origin[:, None] * (length + 1) + torch.where(index < 0, length, index)).flatten()
            values = parts[layer].transpose(1, 2).flatten(0, 1)  # [windows · width, heads]
            total.index_add_(0, flat, values)
            count.index_add_(0, flat, count.new_ones(len(flat), 1))
        mean = (total / count.clamp(min=1)).view(len(rows), length + 1, heads)[:, :length]
        layers.append(mean.transpose(1, 2)[:, :, None])
    return tuple(layers)
