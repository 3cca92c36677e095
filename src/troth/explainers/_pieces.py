"""The word pieces of a text, for importance without a model."""

from __future__ import annotations

import torch
from torch import Tensor

from troth.salience import Salience
from troth.types import PROMPT, Attribution, Encoding, Question


def pieces(encoding: Encoding) -> tuple[Tensor, list[str]]:
    """Which tokens are pieces of the text, and a name for each one's type. -> [length] bool, one name a piece

    Special tokens and a prompt are none; of a pair, all between the begin and the end token is (as SaLoss has it).
    """
    if torch.equal(encoding.ids, encoding.units):
        # A black box has no vocabulary: its tokens are the numbers of the units.
        return torch.ones_like(encoding.ids, dtype=torch.bool), list(encoding.unit_texts)
    inside = encoding.units >= 0
    if encoding.example.text_pair is not None:
        inside = encoding.units != PROMPT
        if bool(inside.all()):
            inside[0] = inside[-1] = False
    return inside, [str(number) for number in encoding.ids[inside].tolist()]


def salient(question: Question, salience: Salience, signed: bool) -> Attribution:
    """The salience of the pieces that are left, summed into units."""
    encoding = question.encoding
    inside, names = pieces(encoding)
    # Pieces of units that were erased before are no longer in the text.
    left = encoding.per_token(question.left[None])[0][inside] > 0
    scores = torch.zeros(len(encoding.ids), dtype=torch.float64)
    here = inside.nonzero()[:, 0][left]
    scores[here] = torch.from_numpy(salience([name for name, stays in zip(names, left.tolist(), strict=True) if stays]))
    rest = float(scores[encoding.units < 0].sum())
    return Attribution(question, encoding.per_unit(scores).numpy(), signed=signed, rest=rest)
