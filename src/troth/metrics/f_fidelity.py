"""How much more the target's probability falls when a random part of the units with the highest scores is erased than
when a random part of the other units is erased; both parts are kept small so that the text remains similar to the
training texts (Zheng et al., 2025).

The explanation selects the top `ratio` of the units: at least one, never all. A random part of the selected units
contains the fraction `alpha` of them, but at most the fraction `beta` of the whole text; the same holds for a random
part of the other units. Sizes are rounded down, but a part has at least one unit. FFid⁺ is the loss of probability if a
part of the selected units is erased, and FFid⁻ if a part of the other units is erased. Both are averaged over `samples`
random parts, or over all parts if there are no more. Zheng et al. report the two separately; the score is FFid⁺ −
FFid⁻, as in the authors' earlier Fid_Δ (Zheng et al., 2024). The record contains both, and the largest fraction of the
text that was erased.

Deviations: the authors' code erases each unit of a side independently with probability min(α, β · n / m), for m units
on that side, so that a draw can exceed the bound; it counts decisions instead of probabilities, and averages over
ratios from 5 to 100 %. The paper fine-tunes the model on texts with random parts erased, as `troth train masked` does;
a bench tests whether inputs with this much erased are in distribution for the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, defined_records, undefined
from troth.metrics._erasing import basis_points, count_at, parts_of, ranking, target_probability
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class FFidelity(Erasing):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = (
        "FFid⁺ − FFid⁻ = mean p(x without R) − mean p(x without P),  P ⊂ T_r and R ⊂ x without T_r random, "
        "|P| = min(α |T_r|, β n), |R| = min(α (n − |T_r|), β n)"
    )
    pitfalls = (
        "The order within the selected units does not count. Values are small, since little is erased: compare "
        "methods, not metrics. In a text of fewer than 1/β units a single unit is more than the share β."
    )

    ratio: float = 0.2
    alpha: float = 0.5
    beta: float = 0.1
    samples: int = 50
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        for name, share in (("ratio", self.ratio), ("alpha", self.alpha), ("beta", self.beta)):
            if basis_points(share) == 0:
                raise TrothError(f"f_fidelity: {name} must be above 0, not {share}")
        if self.ratio == 1:
            raise TrothError("f_fidelity: ratio must be below 1, or there are no other units to compare with")
        if self.samples < 1:
            raise TrothError(f"f_fidelity: samples must be at least 1, not {self.samples}")
        super().__post_init__()

    @property
    def erased(self) -> tuple[float, float]:
        shares = [min(self.alpha * side, self.beta) for side in (self.ratio, 1 - self.ratio)]
        return (min(shares), max(shares))

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        present = question.left.numpy() > 0
        n_units = int(present.sum())
        if n_units < 2:
            return undefined("named and other units need two units")
        order = ranking(attribution.scores).numpy()
        order = order[present[order]]
        top = min(max(1, count_at(self.ratio, n_units)), n_units - 1)
        numbers = question.draws("f_fidelity").uniforms(self.samples, question.n_units).numpy()
        parts = [self._parts(np.sort(side), n_units, numbers) for side in (order[:top], order[top:])]
        keep = torch.ones(1 + sum(map(len, parts)), question.n_units)
        for row, part in enumerate((part for side in parts for part in side), start=1):
            keep[row, part] = 0
        answers = yield Probe(question, keep, self.perturbation)
        p = target_probability(answers)
        full, of_parts = float(p[0]), np.split(p[1:], [len(parts[0])])
        plus, minus = (full - float(said.mean()) for said in of_parts)
        record = {
            "p_full": full,
            "plus": plus,
            "minus": minus,
            "named": top,
            "erased_named": parts[0].shape[1],
            "erased_other": parts[1].shape[1],
            "erased_at_most": max(part.shape[1] for part in parts) / n_units,
            "parts": [len(part) for part in parts],
        }
        return Score(plus - minus, record)

    def _parts(self, side: NDArray[np.int64], n_units: int, numbers: Floats) -> NDArray[np.int64]:
        """[parts, size] The units of one side to erase in each part."""
        return parts_of(side, max(1, min(count_at(self.alpha, len(side)), count_at(self.beta, n_units))), numbers)

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        """The means of FFid⁺ and FFid⁻, and the largest fraction of any text that was erased."""
        records = defined_records(scores)
        if not records:
            return {"plus": np.nan, "minus": np.nan, "erased_at_most": np.nan}
        means = {name: float(np.mean([record[name] for record in records])) for name in ("plus", "minus")}
        return {**means, "erased_at_most": max(record["erased_at_most"] for record in records)}
