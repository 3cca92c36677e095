"""The gradient of a class's value with respect to the word vectors, a readout that several explainers share."""

from dataclasses import dataclass, replace

import torch

from troth.core.outputs import Of, at_least_single, value_of
from troth.core.types import PROMPT, Rows
from troth.engine.probes import Reading, Readout
from troth.maskings.mix import Reference, reference_vector
from troth.models import TextClassifier


@dataclass(frozen=True)
class GradientReadout(Readout):
    """The gradient g of a class's value with respect to the word vectors, as numbers per token.

    `dot` is g · (x − reference); `l2` and `l1` are norms over the vocabulary of g Eᵀ, the gradient with respect to the
    one-hot input. One backward pass gives all of them. `l1` is optional because it needs the whole vocabulary, and path
    methods, which have many rows, omit `l2`.
    """

    backward = True
    only_forward = True

    of: Of = "logit"
    reference: Reference = "zero"
    l1: bool = False
    l2: bool = True
    prompt: bool = True  # False: a prompt is not moved on a path, so its tokens get 0

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.enable_grad():
            vectors = rows.vectors(model).detach().requires_grad_()
            logits = model.forward(replace(rows, embeddings=vectors, prompt_is_fixed=not self.prompt)).logits
            value = value_of(self.of, logits, rows.target, rows.against, model.outputs)
            (gradient,) = torch.autograd.grad(value.sum(), vectors)
        # A sum over the vocabulary would overflow in half precision.
        counted = rows.real if self.prompt else rows.real & (rows.units != PROMPT)
        gradient = at_least_single(gradient) * counted[..., None]
        away = at_least_single(model.embed(rows.ids) - reference_vector(model, self.reference))
        tokens = {"dot": (gradient * away).sum(-1)}
        if self.l2:
            # ‖E g‖ = √(gᵀ EᵀE g): no [length × vocabulary] tensor.
            tokens["l2"] = ((gradient @ model.gram) * gradient).sum(-1).clamp(min=0).sqrt()
        if self.l1:
            tokens["l1"] = gradient.new_zeros(gradient.shape[:-1])
            for part in torch.split(model.embedding_matrix.detach(), 4096):
                tokens["l1"] += (gradient @ part.T.to(gradient.dtype)).abs().sum(-1)
        return Reading(logits.detach(), tokens)
