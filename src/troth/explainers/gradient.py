"""How much the class's value would change if the token were swapped for another: the norm of its gradient with respect
to the one-hot input, over the vocabulary (Baehrens et al., 2010; Li et al., 2016a).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from troth.core.types import Attribution, Question
from troth.engine.probes import Of, whole_inputs
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.explainers._gradient_readout import GradientReadout


@dataclass(frozen=True)
class Gradient(Explainer):
    signed = False
    formula = "sᵢ = ‖∂f / ∂eᵢ‖₂,  eᵢ the one-hot vector of token i"
    pitfalls = "Shows how much a token could matter, not which way; where the model is saturated, gradients vanish."

    norm: Literal["l2", "l1"] = "l2"
    of: Of = "logit"

    def reads(self) -> GradientReadout:
        return self._readout

    @cached_property
    def _readout(self) -> GradientReadout:
        return GradientReadout(of=self.of, l1=self.norm == "l1")

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        return self.from_units((yield whole_inputs(questions, self.reads())), self.norm)
