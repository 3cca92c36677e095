"""The token's word vector times the gradient of the class's value: what the token contributes to a linear approximation
of the model (Kindermans et al., 2016).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from troth.core.types import Attribution, Question
from troth.engine.probes import Of, whole_inputs
from troth.engine.routines import Routine
from troth.explainers import SignedExplainer
from troth.explainers._gradient_readout import GradientReadout


@dataclass(frozen=True)
class InputXGradient(SignedExplainer):
    formula = "sᵢ = xᵢ · ∂f / ∂xᵢ"
    pitfalls = "Linear at one point: on transformers it is often no better than random."

    of: Of = "logit"

    def reads(self) -> GradientReadout:
        return GradientReadout(of=self.of)

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        return self.from_units((yield whole_inputs(questions, self.reads())), "dot")
