"""A masked language model rewrites a unit's tokens, given the tokens that are kept; answers are averaged over `draws`
such texts (Kim et al., 2020, input marginalization; Harbecke & Alt, 2020).

The classifier always reads a complete text, so it need not be trained on masked texts. The mean probability over draws
estimates Σ p(class | x̃) · p(x̃ | what is kept). Kim et al. sum over the most probable tokens of one position and
Harbecke & Alt sample it; here several positions are sampled in `rounds`: each round fills every `rounds`-th erased
token, given the kept tokens and those of earlier rounds, so that neighboring words fit together. With one round, all
tokens are drawn independently. By default the language model is the one that the classifier was fine-tuned from, if its
language-model head is available, or else the one in the embedded model, for classifiers with its vocabulary.

A draw depends only on the seed, the text, the token's position and the candidate word (the Gumbel-max trick). So rows
that keep nearly the same units are filled almost identically, which reduces the variance of their difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from troth.core import draws as random_draws
from troth.core.errors import TrothError
from troth.core.types import Rows, spread
from troth.maskings import Masking, put_token
from troth.models._masked_lm import masked_lm

if TYPE_CHECKING:
    from troth.models import TextClassifier


@dataclass(frozen=True)
class Infill(Masking):
    level = "ids"
    formula = "token i is drawn from p(· | kept tokens) where kᵢ = 0; p(class) is the mean over draws"
    pitfalls = (
        "A word that its context gives away is written again, so erasing it changes nothing. Costs `draws` passes of "
        "the classifier and up to `draws` · `rounds` of the language model per row."
    )
    whole = True

    model: str | None = None  # a folder or a hub name; None: see above
    draws: int = 4
    rounds: int = 4

    def __post_init__(self) -> None:
        for name in ("draws", "rounds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise TrothError(f"infill: {name} must be a whole number of 1 or more, not {value}")

    def files(self, model: TextClassifier) -> str | None:
        return masked_lm(self.model, model).fingerprint

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        masked = masked_lm(self.model, model)
        where = (keep == 0) & (rows.units >= 0)  # [rows, length]
        hidden = where | _erased_in_vectors(rows)
        ids = rows.ids.masked_fill(hidden, masked.mask_id)
        turns = (where.cumsum(1) - 1) % self.rounds  # neighboring tokens are filled in different rounds
        passes = 0
        for turn in range(self.rounds):
            now = where & (turns == turn)
            passes += int(now.any(1).sum())
            written = ids.clone()
            for row, position, logits in masked.logits(ids, rows.real, rows.token_types, now):
                written[row, position] = _drawn(logits, random_draws.row_keys(rows.keys[row], position))
            ids = written
        erased = put_token(rows, where, ids, model)
        return replace(erased, side_model_rows=rows.side_model_rows + passes)


def _erased_in_vectors(rows: Rows) -> Tensor:
    """[rows, length] True for tokens whose vectors an earlier masking has erased, although their ids remain."""
    changed = rows.embeddings is not None or rows.attention is not None or rows.output_factor is not None
    if not changed or rows.kept is None:
        return torch.zeros_like(rows.real)
    return spread(rows.kept, rows.units) < 1


def _drawn(logits: Tensor, keys: Tensor) -> Tensor:
    """Samples a token from the softmax at each position. [positions, vocabulary], [positions] -> [positions]"""
    # The argmax of logit + Gumbel noise (a uniform number of 0 gives −inf). Another batch shape changes logits by 1e-6
    # and so one draw in a million; inverting the cumulative distribution would change many more.
    noise = -(-random_draws.uniforms(keys, logits.shape[1]).log()).log()
    return (logits + noise).argmax(-1)
