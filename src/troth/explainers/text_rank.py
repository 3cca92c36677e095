"""How central the unit's word pieces are in the text's own co-occurrence graph (TextRank, Mihalcea & Tarau, 2004; as
salience: Chrysostomou & Aletras, 2021). The model is not used; the computation is `troth.salience.text_rank`.
"""

from dataclasses import dataclass
from functools import partial

from troth import salience
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.explainers._salient import salient


@dataclass(frozen=True)
class TextRank(Explainer):
    signed = False
    asks_model = False
    formula = "s(v) = (1 − d) + d · Σ over neighbors u of s(u) / degree(u)"
    pitfalls = "Never runs the model: it describes the text, and serves for training and as a baseline."

    window: int = 4
    damping: float = 0.85
    steps: int = 10

    def __post_init__(self) -> None:
        for option in ("window", "steps"):
            if getattr(self, option) < 1:
                raise TrothError(f"text_rank: {option} must be at least 1, not {getattr(self, option)}")
        if not 0 <= self.damping <= 1:
            raise TrothError(f"text_rank: damping must lie in [0, 1], not {self.damping}")

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        yield from ()
        rank = partial(salience.text_rank, window=self.window, damping=self.damping, steps=self.steps)
        return salient(question, rank, self.signed)
