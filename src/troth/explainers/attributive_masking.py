"""How much of the unit an attribution model G, fitted to this model, would keep: 1 for what the prediction rests on, 0
for what may be masked (Barkan et al., 2024, "AML").

G reads the text and the prediction. It is fitted so that the prediction stays the same if the input is masked by its
map, and changes if it is masked by the inverse map: `troth fit attributive_masking`. `steps=0` is pAML: one pass of the
model, one of G. With `steps=10` (fAML) a copy of G takes ten more steps on the single example, with a linearly falling
learning rate. Of G's own map and the map after each step, the best one by the metric that selected G is kept. A later
map replaces an earlier one only if it is better by more than 1e-4, since smaller differences may be rounding errors. If
a class other than the predicted one is explained, G reads that class. Passes of G are counted separately from the
model's.
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
    pitfalls = "Only as good as its attribution model: fit one per model and data, and measure it on other texts."

    checkpoint: str  # the folder written by `troth fit attributive_masking`
    steps: int = 0
    metric: str | None = None  # selects one of the maps of fAML; None = the metric that G was selected by
    learning_rate: float | None = None  # of the first step; None = the one that G was fitted with
    decay: Decay = "linear"  # of the learning rate over the steps
    # G itself, if it is in memory; not an option, so it is neither shown nor compared.
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
        # The text, two masked inputs per step, and five ratios of the metric for each map.
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
