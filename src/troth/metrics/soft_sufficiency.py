"""How much of the prediction survives when each element of a unit's vectors is kept with its score as probability
(Soft-NS; Zhao & Aletras, 2023).

The paper does not say how scores become probabilities: `scores` chooses (sigmoid for signed scores and min-max for
unsigned ones unless said). One draw in the paper; `samples` averages more and records the standard error. The released
code drops elements behind the embedding layer (`at="embedding_output"`) and swaps the two soft metrics; we do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from troth.metrics import formulas
from troth.metrics._soft import SoftErasure
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class SoftSufficiency(SoftErasure):
    bounds: ClassVar[str] = "(−∞, 1], usually above 0"

    def keep(self, importance: Floats) -> Floats:
        return importance

    def values(self, full: float, left: Floats, empty: float) -> formulas.Values:
        if self.normalized:
            return formulas.normalized_sufficiency(full, left, empty)
        return 1 - np.maximum(0, formulas.sufficiency(full, left))
