"""How much of the unit an attribution model G, fitted to this model, would keep: 1 what the prediction rests on, 0 what
may be masked (Barkan et al., 2024, "AML").

G reads the text and the prediction, and is fitted so that the input masked by its map is still predicted alike and the
inversely masked one is not: `troth fit attributive_masking`. `steps=0` is pAML: one pass of the model, one of G. With
`steps=10` (fAML) a copy of G takes so many more steps on the example alone, at a learning rate that falls linearly, and
the best map by the metric that G was chosen by is kept, G's own included. A later map must be better by more than
rounding (1e-4). Where another class than the predicted one is asked about, G reads that class alone. G's passes are
counted apart from the model's.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from troth.attribution_model import saving
from troth.attribution_model.maps import Decay, Map, Tuned
from troth.attribution_model.model import AttributionModel
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Probe, Readout, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer

_BETTER = 1e-4


@dataclass(frozen=True)
class AttributiveMasking(Explainer):
    signed = False
    formula = "s = G(x, prediction),  0 ≤ sᵢ ≤ 1"
    pitfalls = (
        "As good as its attribution model: fit one per model and data, and measure it on texts it was not fitted on."
    )

    checkpoint: str  # the folder that `troth fit attributive_masking` wrote
    steps: int = 0
    metric: str | None = None  # that chooses among the maps of fAML; None = the one G was chosen by
    learning_rate: float | None = None  # of the first step; None = the one G was fitted with
    decay: Decay = "linear"  # of the learning rate over the steps
    # G itself, where it is at hand; no option, so it is neither shown nor compared.
    fitted: AttributionModel | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise TrothError(f"attributive_masking: steps must be 0 or more, not {self.steps}")
        if self.learning_rate is not None and self.learning_rate <= 0:
            raise TrothError(f"attributive_masking: learning_rate must be above 0, not {self.learning_rate}")

    @property
    def files(self) -> str | None:
        return saving.content(self.checkpoint)

    def passes(self, n_units: int) -> int:
        # The text; two masks a step, there and back; and what the metric asks about each map, five ratios say.
        return 2 if self.steps == 0 else 1 + 4 * self.steps + 5 * (self.steps + 1)

    def reads(self) -> Readout:
        model = self.fitted if self.fitted is not None else saving.load(self.checkpoint)
        if self.steps == 0:
            return Map(model)
        about = saving.facts(self.checkpoint)
        rate = self.learning_rate or about["learning_rate"]
        return Tuned(model, saving.loss_of(about), self.steps, rate, self.decay)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        answer = yield Probe(question, keep_all(question), readout=self.reads())
        there = question.left * ~question.encoding.tokenless
        maps = answer.rows["maps"][0, :, : question.n_units] * there  # [steps + 1, units]
        best = Attribution(question, maps[0].numpy(), signed=self.signed)
        if self.steps == 0 or question.n_units == 0:
            return best
        metric: Any = catalog.build("metrics", self.metric or saving.facts(self.checkpoint)["metric"])
        if metric.explains_again:
            raise TrothError(
                "attributive_masking cannot watch a metric that explains again; use comprehensiveness or the like"
            )
        sign = -1.0 if metric.higher_is_better is False else 1.0
        highest = -torch.inf
        for place, scores in enumerate(maps):
            attribution = Attribution(question, scores.numpy(), signed=self.signed)
            (score,) = yield from metric.ask([question], [attribution], None)
            value = sign * score.value
            if place == 0 or value > highest + _BETTER or highest != highest:
                best, highest = attribution, value
        return best
