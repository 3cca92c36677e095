"""How much of the prediction survives when each element of a unit's vectors is kept with its score as probability
(Soft-NS; Zhao & Aletras, 2023).

The paper does not say how scores become probabilities: `scores` chooses (sigmoid for signed scores and min-max for
unsigned ones unless said). One draw in the paper; `samples` averages more and records the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from troth.errors import TrothError
from troth.looks import Ask, Look, keep_all
from troth.maskings.soft import Soft
from troth.maskings.zero import Zero
from troth.metrics import Explain, Metric, formulas, undefined
from troth.metrics._soft import ScoreMap, importance
from troth.types import Attribution, Question, Score


@dataclass(frozen=True)
class SoftSufficiency(Metric):
    higher_is_better: ClassVar[bool | None] = True

    samples: int = 1
    scores: ScoreMap | None = None
    at: Literal["word", "embedding_output"] = "word"
    normalized: bool = True

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"soft_sufficiency: samples must be at least 1, not {self.samples}")

    def ask(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Score]:
        if question.n_units == 0:
            return undefined("the text has no units")
        keep = importance(attribution, self.scores)
        soft = yield Look(question, keep.expand(self.samples, -1), Soft(at=self.at), purpose="soft")
        ends = yield Look(question, torch.cat([keep_all(question), torch.zeros(1, question.n_units)]), Zero())
        full, nothing = ends.probability.tolist()
        kept = soft.probability.numpy().astype(np.float64)
        if self.normalized:
            values = formulas.normalized_sufficiency(full, kept, nothing)
        else:
            values = 1 - np.maximum(0, formulas.sufficiency(full, kept))
        record = {"p_full": full, "p_zero": nothing, "p_kept": kept.tolist(), "retained": float(keep.mean())}
        if self.samples > 1:
            record["standard_error"] = float(values.std(ddof=1) / np.sqrt(self.samples))
        if np.isnan(values).any():
            return undefined("the empty input predicts as well as the whole one (S₀ = 1)", **record)
        return Score(float(values.mean()), record)
