"""Salience, an importance of word pieces that needs no model, as an attribution."""

import torch

from troth.core.types import Attribution, Question
from troth.salience import Salience, pieces


def salient(question: Question, salience: Salience, signed: bool) -> Attribution:
    """The salience of the remaining pieces, summed into units."""
    encoding = question.encoding
    inside, names = pieces(encoding)
    # Pieces of units that were erased before are no longer part of the text.
    left = encoding.per_token(question.left[None])[0][inside] > 0
    scores = torch.zeros(len(encoding.ids), dtype=torch.float64)
    here = inside.nonzero()[:, 0][left]
    scores[here] = torch.from_numpy(salience([name for name, stays in zip(names, left.tolist(), strict=True) if stays]))
    rest = float(scores[encoding.units < 0].sum())
    return Attribution(question, encoding.per_unit(scores).numpy(), signed=signed, rest=rest)
