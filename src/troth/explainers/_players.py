"""The units that coalition and path methods work on: those that are still present in the input."""

import numpy as np
import torch
from torch import Tensor

from troth.core import draws
from troth.core.types import Question


def players(question: Question) -> Tensor:
    """[players] The indices of the units that are still present."""
    return question.left.nonzero()[:, 0]


def per_unit(question: Question, values: Tensor) -> Tensor:
    """Expands the players' values to all units, with 0 for units that were erased. [..., players] -> [..., units]"""
    if question.base is None:
        return values
    placed = values.new_zeros(*values.shape[:-1], question.n_units)
    placed[..., players(question)] = values
    return placed


def faded(question: Question, places: Tensor, *, erased_too: bool = False) -> Tensor:
    """Fades every unit that is still present along a path from 0 to 1. [positions] -> [positions, units]

    Units that were erased before remain as their masking left them: a mask token's vector belongs to both the explained
    input and its baseline, so it gets no share of the change. With `erased_too` they fade like the others.
    """
    if question.base is None or erased_too:
        return places[:, None].repeat(1, question.n_units)
    return torch.where(question.left > 0, places[:, None], 1.0)


def ranks(values: Tensor) -> Tensor:
    """The rank of each number in its row, from 0; ties keep their order. [rows, n] -> [rows, n]

    >>> ranks(torch.tensor([[0.5, 0.1, 0.9]])).tolist()
    [[1, 0, 2]]
    """
    order = values.argsort(dim=1, stable=True)
    return torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))


def marks(count: int) -> Tensor:
    """[players] A 64-bit number for each player; the key of a set is the (wrapping) sum of its members' numbers.

    Among a million sets, two share a key with a probability of 1 in 40 million. No number is 0 (which row 0 would get),
    so adding a player always changes the key.
    """
    return draws.row_keys(0, torch.arange(1, count + 1))


def first_of_each(keys: Tensor) -> Tensor:
    """The first index of each distinct key, in order. [sets] -> [distinct sets]"""
    return torch.from_numpy(np.sort(np.unique(keys.numpy(), return_index=True)[1]))
