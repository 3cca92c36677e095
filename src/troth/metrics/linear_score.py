"""How well the sum of the scores of the units kept in a random subset predicts the order of the target's log-odds under
that subset: Spearman's correlation (the linear datamodeling score of ContextCite; Cohen-Wang et al., 2024).

Each unit is kept with probability 1/2, so all subsets are equally likely; the other units are masked. Log-odds are
log p / (1 − p), ContextCite's logit-scaled probability; in a contrast they are those of the two classes, and of a model
that gives values they are the value itself. A text with no more than `samples` subsets (six units or fewer, by default)
is asked about each of them once, so nothing is drawn. Sums or log-odds that differ by less than 1e-5 of their range are
ties, since their last digits are rounding errors.
"""

from dataclasses import dataclass

import numpy as np
import torch

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.answers import Answers
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas, undefined
from troth.metrics._erasing import Bools
from troth.metrics.formulas import Floats

_NOISE = 1e-5  # log-odds move by so much with the shape of a batch


@dataclass(frozen=True)
class LinearScore(Erasing):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "Spearman's ρ, over random subsets S, of Σ_{i ∈ S} sᵢ with log p(S) / (1 − p(S)),  S alone is kept"
    pitfalls = (
        "Assumes that effects add up: where units act together, no scores may reach 1. Half of a text is masked, which "
        "the model may never have seen. Favors methods that are fitted to such subsets themselves (lime, kernel_shap)."
    )

    samples: int = 64
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"linear_score: samples must be at least 2, not {self.samples}")
        super().__post_init__()

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
        """[subsets, units] which units each subset keeps: all subsets where there are few, else random ones."""
        n_units, places = question.n_units, np.flatnonzero(present)
        if 2 ** len(places) > self.samples:
            drawn = question.draws("linear_score").uniforms(self.samples, n_units).numpy()
            return np.asarray((drawn < 0.5) & present)
        kept = np.zeros((2 ** len(places), n_units), np.bool_)
        kept[:, places] = np.arange(len(kept))[:, None] >> np.arange(len(places)) & 1
        return kept


def target_log_odds(answers: Answers) -> Floats:
    """[rows] log p / (1 − p) of the target, from the logits, since p itself rounds to 1; see the top of this file."""
    value = answers.value("logit").double()
    if answers.outputs == "classes" and answers.question.against is None:
        others = answers.logits.double().scatter(1, answers.target[:, None], -torch.inf)
        value = value - others.logsumexp(1)
    return np.asarray(value.numpy())
