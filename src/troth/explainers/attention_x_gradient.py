"""The attention weight of the token times the gradient of the class's value with respect to it: α · ∂value/∂α, last
layer (Serrano & Smith, 2019; α∇α in SaLoss, Chrysostomou & Aletras, 2021).

Weights and gradients are averaged over the heads before they are multiplied; `heads="each"` multiplies them for each
head and averages the products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from troth.core.outputs import value_of
from troth.core.types import Attribution, Question, Rows
from troth.engine.probes import Of, Reading, Readout, at_least_single, whole_inputs
from troth.engine.routines import Routine
from troth.explainers import SignedExplainer
from troth.explainers.attention import from_reader
from troth.models import TextClassifier

Heads = Literal["mean", "each"]


@dataclass(frozen=True)
class WeightsXGradient(Readout):
    backward = True
    attentions = True

    of: Of = "logit"
    heads: Heads = "mean"

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.enable_grad():
            # Parameters are frozen, so the graph must start at the word vectors; the backward pass ends at the last
            # layer.
            vectors = rows.vectors(model).detach().requires_grad_()
            output = model.forward(replace(rows, embeddings=vectors), attentions=True)
            value = value_of(self.of, output.logits, rows.target, rows.against, model.outputs)
            (gradient,) = torch.autograd.grad(value.sum(), output.attentions[-1])
        weights = at_least_single(from_reader(output.attentions[-1].detach(), model, rows))  # [rows, heads, length]
        slopes = at_least_single(from_reader(gradient, model, rows))
        scores = (weights * slopes).mean(1) if self.heads == "each" else weights.mean(1) * slopes.mean(1)
        return Reading(output.logits.detach(), {"product": scores * rows.real})


@dataclass(frozen=True)
class AttentionXGradient(SignedExplainer):
    formula = "sᵢ = mean over heads of α[c, i] · mean over heads of ∂f / ∂α[c, i], last layer"
    pitfalls = "Reads the last layer only, where each state already mixes many tokens instead of standing for one."

    of: Of = "logit"
    heads: Heads = "mean"

    def reads(self) -> WeightsXGradient:
        return WeightsXGradient(self.of, self.heads)

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        return self.from_units((yield whole_inputs(questions, self.reads())), "product")
