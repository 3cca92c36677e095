"""How many tokens a model can read."""

from __future__ import annotations

from typing import Any

from troth.core.errors import TrothError
from troth.models.families import first_position

_NO_LIMIT = 10**6


def longest(model: Any, tokenizer: Any, max_length: int | None, name: str) -> int:
    """As many as the user says, else as the tokenizer says; never more than the model has positions for."""
    positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
    positions = positions - (first_position(model) or 0) if positions > 0 else _NO_LIMIT
    if max_length is None:
        return int(min(positions, tokenizer.model_max_length, _NO_LIMIT))
    if not 1 <= max_length <= positions:
        most = "" if positions == _NO_LIMIT else f": {name} has {positions} positions"
        raise TrothError(f"max_length must be a number from 1 to {positions}, not {max_length}{most}")
    return max_length
