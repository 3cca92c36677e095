"""The units that methods by coalition and by path play with: those the input still has."""

import numpy as np
import torch
from torch import Tensor

from troth.core import draws
from troth.core.types import Question


def players(question: Question) -> Tensor:
    """[players] numbers of the units that are still there."""
    return question.left.nonzero()[:, 0]


def per_unit(question: Question, values: Tensor) -> Tensor:
    """What each player has, in its unit's place; 0 where the unit is gone. [..., players] -> [..., units]"""
    if question.base is None:
        return values
    placed = values.new_zeros(*values.shape[:-1], question.n_units)
    placed[..., players(question)] = values
    return placed


def faded(question: Question, places: Tensor, *, erased_too: bool = False) -> Tensor:
    """Every unit that is still there at each place of a path from 0 to 1. [places] -> [places, units]

    Units that were erased before stay as their masking left them: a mask token's vector is part of the input explained,
    and of its baseline, so it gets no share and what the others get sums to the change they bring. With `erased_too`
    they move like the others.
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
    """[players] a 64-bit number each; a set's key is the (wrapping) sum of its members' numbers.

    Two of a million sets share a key with a probability of 1 in 40 million. No number is 0 (which row 0 would get), so
    a set with a player more is another set.
    """
    return draws.row_keys(0, torch.arange(1, count + 1))


def first_of_each(keys: Tensor) -> Tensor:
    """Where each key stands first, in order. [sets] -> [distinct sets]"""
    return torch.from_numpy(np.sort(np.unique(keys.numpy(), return_index=True)[1]))
