"""How badly the summed scores of random sets of units predict the change of the target's logit when the set is masked:
the mean squared error (Yeh et al., 2019).

All set sizes are equally likely. Scores are first multiplied by the factor that fits best, since most methods have no
scale; the factor is never negative, so that a reversed explanation gains nothing (`normalize=False`: unscaled, for
methods whose scores have a defined sum, such as Shapley values).
"""

from dataclasses import dataclass

import torch

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Of, Probe, keep_all
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas


@dataclass(frozen=True)
class Infidelity(Erasing):
    higher_is_better = False
    bounds = "[0, ∞)"
    formula = "mean over sets S of (c · Σ_{i ∈ S} sᵢ − (f(x) − f(x without S)))²,  c ≥ 0 fits best"
    pitfalls = "In squared logits: compare methods on the same model and examples only."

    samples: int = 30
    normalize: bool = True
    of: Of = "logit"
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"infidelity: samples must be at least 1, not {self.samples}")
        super().__post_init__()

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        numbers = question.draws("infidelity").uniforms(self.samples, question.n_units + 1)
        erased = (numbers[:, 1:] < numbers[:, :1]).float()  # one random number for the row, compared with one per unit
        keep = torch.cat([keep_all(question), 1 - erased])
        answer = yield Probe(question, keep, self.perturbation)
        values = answer.value(self.of).double().numpy()
        change = values[0] - values[1:]
        value = formulas.infidelity(attribution.scores, erased.numpy(), change, normalize=self.normalize)
        return Score(value, {"mean_squared_change": float((change**2).mean())})
