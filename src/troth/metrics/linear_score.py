"""How well the sum of the scores of the units kept in a random subset predicts the order of the target's log-odds under
that subset: Spearman's correlation (the linear datamodeling score of ContextCite; Cohen-Wang et al., 2024).

Every subset has half of the units, rounded down, as in the score's first definition (Park et al., 2023); the others are
masked. ContextCite keeps each unit with probability 1/2 (`size="any"`). With subsets of different sizes, even random
positive scores predict the log-odds, since most texts support their class more strongly if more units are kept.
Log-odds are log p / (1 − p); in a contrast they are those of the two classes, and for models that return values they
are the value itself. If a text has no more than `samples` subsets, each of them is evaluated once. Sums or log-odds
that differ by less than 1e-5 of their range are ties, since their last digits are rounding errors.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import torch

from troth.core.errors import TrothError, unknown
from troth.core.types import Attribution, Question, Score
from troth.engine.answers import Answers
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas, undefined
from troth.metrics._erasing import Bools, parts_of
from troth.metrics.formulas import Floats

_NOISE = 1e-5  # log-odds can differ by this much between batch shapes


@dataclass(frozen=True)
class LinearScore(Erasing):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "Spearman's ρ, over random S of n / 2 units, of Σ_{i ∈ S} sᵢ with log p(S) / (1 − p(S)),  S alone is kept"
    pitfalls = (
        "Assumes that effects add up: if units act together, it may be impossible to reach 1. Half of a text is "
        "masked, which the model may never have seen. Favors methods that are fitted to such subsets themselves "
        "(lime, kernel_shap)."
    )

    samples: int = 64
    size: Literal["half", "any"] = "half"
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"linear_score: samples must be at least 2, not {self.samples}")
        if self.size not in ("half", "any"):
            raise unknown("size of linear_score", self.size, ("half", "any"))
        super().__post_init__()

    @property
    def erased(self) -> tuple[float, float]:
        return (0.5, 0.5) if self.size == "half" else (0.0, 1.0)

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        present = question.left.numpy() > 0
        if present.sum() < 2:
            return undefined("a correlation needs two units")
        kept = self._subsets(question, present)
        answers = yield Probe(question, torch.from_numpy(kept.astype(np.float32)), self.perturbation)
        log_odds = target_log_odds(answers)
        record = {"subsets": len(kept), "log_odds_low": float(log_odds.min()), "log_odds_high": float(log_odds.max())}
        if log_odds.max() - log_odds.min() <= _NOISE:
            return undefined("the log-odds are the same under every subset", **record)
        value = formulas.linear_score(attribution.scores, kept, log_odds)
        if np.isnan(value):
            return undefined("the scores have the same sum in every subset", **record)
        return Score(value, record)

    def _subsets(self, question: Question, present: Bools) -> Bools:
        """[subsets, units] The units that each subset keeps: all subsets if there are few, otherwise random ones."""
        places = np.flatnonzero(present)
        drawn = question.draws("linear_score").uniforms(self.samples, question.n_units).numpy()
        if self.size == "any":
            if 1 << len(places) > self.samples:
                return np.asarray((drawn < 0.5) & present)
            chosen = [subset for size in range(len(places) + 1) for subset in combinations(places.tolist(), size)]
            return np.array([np.isin(np.arange(question.n_units), subset) for subset in chosen])
        halves = parts_of(places, len(places) // 2, drawn)
        kept = np.zeros((len(halves), question.n_units), np.bool_)
        np.put_along_axis(kept, halves, True, axis=1)
        return kept


def target_log_odds(answers: Answers) -> Floats:
    """[rows] log p / (1 − p) of the target, computed from the logits because p itself rounds to 1; see the module
    docstring.
    """
    value = answers.value("logit").double()
    if answers.outputs == "classes" and answers.question.against is None:
        others = answers.logits.double().scatter(1, answers.target[:, None], -torch.inf)
        value = value - others.logsumexp(1)
    return np.asarray(value.numpy())
