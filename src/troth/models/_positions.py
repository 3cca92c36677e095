"""Where a model's positions begin, and how many tokens it can read."""

from __future__ import annotations

import inspect
from typing import Any

from troth.core.errors import TrothError

_NO_LIMIT = 10**6


def first_position(model: Any) -> int | None:
    """The first token's position in models that derive positions from ids; None where they just count.

    RoBERTa and its kin keep a place in the table for padding, begin behind it, and skip every padding id.
    """
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return None
    for module in model.modules():
        place = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if place is not None:
            return int(place) + 1
    return None


def longest(model: Any, tokenizer: Any, given: int | None, name: str) -> int:
    """How many tokens are read at most: as many as the user says, else as the tokenizer says; never more than the model
    has positions for.
    """
    positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
    positions = positions - (first_position(model) or 0) if positions > 0 else _NO_LIMIT
    if given is None:
        return int(min(positions, tokenizer.model_max_length, _NO_LIMIT))
    if not 1 <= given <= positions:
        most = "" if positions == _NO_LIMIT else f": {name} has {positions} positions"
        raise TrothError(f"max_length must be a number from 1 to {positions}, not {given}{most}")
    return given
