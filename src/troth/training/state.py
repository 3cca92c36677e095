"""How far a training is: plain data, kept in every checkpoint."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from troth.training.checkpoints import DamagedError


@dataclass
class State:
    """Counts from the start of the training, and of the epoch under way."""

    step: int = 0
    epoch: int = 0  # finished
    batch: int = 0  # done in this epoch
    loss: float = 0.0  # summed over the rows of this epoch
    rows: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_value: float = -math.inf
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> State:
        """From a checkpoint; what cannot have been written there is damage."""
        empty = cls()
        for name, value in dataclasses.asdict(empty).items():
            kinds = (int, float) if isinstance(value, float) else type(value)
            if not isinstance(kept.get(name), kinds) or isinstance(kept[name], bool):
                raise DamagedError(f"state.json has no {name} that can be used")
        state = cls(**{name: kept[name] for name in dataclasses.asdict(empty)})
        scored = all(isinstance(epoch, dict) and "score" in epoch for epoch in state.history)
        if not scored or len(state.history) != state.epoch or not 0 <= state.best_epoch <= state.epoch:
            raise DamagedError("state.json has another number of epochs than it says")
        if min(state.step, state.batch, state.rows) < 0:
            raise DamagedError("state.json counts below 0")
        return state
