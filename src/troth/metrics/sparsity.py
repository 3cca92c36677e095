"""The fraction of total importance in the top units: how few units an explanation rests on (Madsen et al., 2022,
appendix E).

Computed from absolute scores. Neither a high nor a low value means that the explanation is faithful. `top` gives a
number of units instead of a fraction. The record also contains the values for the top 1 to 10 units and for the top 10
to 100 %. ROAR's released code counts one unit more: `variant="released"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.routines import Routine, per_text
from troth.metrics import ExplainOne, Metric, defined_records, formulas, undefined
from troth.metrics._erasing import basis_points

TOPS = tuple(range(1, 11))
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Sparsity(Metric):
    higher_is_better = None
    bounds = "[0, 1]"
    formula = "Σ_{i ∈ T} |sᵢ| / Σᵢ |sᵢ|"
    pitfalls = "Shows how concentrated an explanation is, not whether it is right."

    ratio: float = 0.2
    top: int | None = None
    variant: formulas.Variant = "paper"

    def __post_init__(self) -> None:
        basis_points(self.ratio)
        if self.top is not None and self.top < 0:
            raise TrothError(f"sparsity: top counts units, so it cannot be {self.top}")

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        yield from ()
        scores = attribution.scores
        if self.top is None:
            value = formulas.sparsity(scores, self.ratio, variant=self.variant)
        else:
            value = formulas.top_share(scores, self.top)
        if np.isnan(value):
            return undefined("all scores are 0")
        by_ratio = formulas.sparsity(scores, RATIOS, variant=self.variant)
        return Score(value, {"by_top": formulas.top_share(scores, TOPS).tolist(), "by_ratio": by_ratio.tolist()})

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        records = defined_records(scores)
        names = records[0] if records else ()
        return {name: np.mean([record[name] for record in records], axis=0).tolist() for name in names}
