"""The word pieces of a text, for importance without a model."""

from __future__ import annotations

import torch
from torch import Tensor

from troth.core.types import PROMPT, Encoding


def pieces(encoding: Encoding) -> tuple[Tensor, list[str]]:
    """Which tokens are pieces of the text, and a name for each one's type. -> [length] bool, one name per piece

    Special tokens and a prompt are none; of a pair, all between the begin and the end token is (as SaLoss has it).
    """
    if not encoding.tokenized:
        return torch.ones_like(encoding.ids, dtype=torch.bool), list(encoding.unit_texts)
    inside = encoding.units >= 0
    if encoding.example.text_pair is not None:
        inside = encoding.units != PROMPT
        if bool(inside.all()):
            inside[0] = inside[-1] = False
    return inside, [str(number) for number in encoding.ids[inside].tolist()]
