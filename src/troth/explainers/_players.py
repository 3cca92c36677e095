"""The units that coalition and path methods work on: those that the input still has."""

import numpy as np
import torch
from torch import Tensor

from troth.core import draws
from troth.core.types import Question


def players(question: Question) -> Tensor:
    """[players] The indices of the units that are still there."""
    return question.left.nonzero()[:, 0]


def per_unit(question: Question, values: Tensor) -> Tensor:
    """Puts the players' values in their units' places; 0 for units that are gone. [..., players] -> [..., units]"""
    if question.base is None:
        return values
    placed = values.new_zeros(*values.shape[:-1], question.n_units)
    placed[..., players(question)] = values
    return placed


def faded(question: Question, places: Tensor, *, erased_too: bool = False) -> Tensor:
    """Fades every unit that is still there along a path from 0 to 1. [places] -> [places, units]

    Units that were erased before remain as their masking left them: a mask token's vector belongs to the explained
    input and to its baseline, so it gets no share of the change. With `erased_too` they fade like the others.
    """
    if question.base is None or erased_too:
        return places[:, None].repeat(1, question.n_units)
    return torch.where(question.left > 0, places[:, None], 1.0)


def ranks(values: Tensor) -> Tensor:
    """The place of each number in its row's order, from 0; of equal ones the first comes first. [rows, n] -> [rows, n]

    >>> ranks(torch.tensor([[0.5, 0.1, 0.9]])).tolist()
    [[1, 0, 2]]
    """
    order = values.argsort(dim=1, stable=True)
    return torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))


def marks(count: int) -> Tensor:
    """[players] A 64-bit number for each; the key of a set is the (wrapping) sum of its members' numbers.

    Two of a million sets share a key with a probability of 1 in 40 million. No number is 0 (which row 0 would get), so
    adding a player always changes the key.
    """
    return draws.row_keys(0, torch.arange(1, count + 1))


def first_of_each(keys: Tensor) -> Tensor:
    """The first index of each key, in order. [sets] -> [distinct sets]"""
    return torch.from_numpy(np.sort(np.unique(keys.numpy(), return_index=True)[1]))
