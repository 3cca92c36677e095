"""The largest activation of every hidden unit over the positions of an input, in the embedding output and every layer.

Taken on the device: what comes back is one number per hidden unit, however long the texts are.
"""

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from troth.core.types import Rows
from troth.engine.answers import Answers
from troth.engine.probes import Reading, Readout, at_least_single
from troth.models import TextClassifier, refuse

# Masked inputs are often equal, above all in the first layers; the noise of another batch must not part them.
_DECIMALS = 4


@dataclass(frozen=True)
class HiddenStates(Readout):
    """Padding is left out of the maximum, special tokens are not."""

    about_target = False
    remembered = False  # megabytes a hundred inputs, and nobody asks twice

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.no_grad():
            output = model.forward(rows, hidden=True)
        if not output.hidden:
            raise refuse(model.name, "hidden states to read", "MaSF cannot test it")
        padding = ~rows.real[..., None]
        views = [at_least_single(layer.masked_fill(padding, -torch.inf).amax(1)) for layer in output.hidden]
        return Reading(
            output.logits, rows={f"layer {number}": view.round(decimals=_DECIMALS) for number, view in enumerate(views)}
        )


HIDDEN_STATES = HiddenStates()


def largest(answer: Answers) -> list[NDArray[Any]]:
    """What was read, one array per layer: [rows, hidden]."""
    return [answer.rows[f"layer {number}"].numpy() for number in range(len(answer.rows))]


def require_hidden_states(model: TextClassifier) -> None:
    """Refuses what shows nothing of its inside before it is asked anything."""
    if not model.has_hidden_states:
        raise model.lacks("hidden states", "MaSF cannot test it")
