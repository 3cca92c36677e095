"""Interpreto takes a model, its tokenizer and a list of texts; its gradients are absolute, which is a choice."""

from __future__ import annotations

import torch
from interpreto import Granularity, IntegratedGradients, KernelShap, Lime, Occlusion, Saliency

from adapters.base import claiming, single

PACKAGES = ("interpreto",)


def _explained(kind, model, tokenizer, texts, target, **options):
    method = kind(model, tokenizer, granularity=Granularity.TOKEN, **options)
    targets = torch.full((len(texts), 1), target)
    return [
        (list(each.elements), each.attributions[0].tolist())
        for each in method([single(text) for text in texts], targets=targets)
    ]


@claiming(
    "leave_one_out",
    left_out={
        "begin_token_only": "without a mask token, words are replaced by a new token with the mean embedding, "
        "so the scores are not known in closed form"
    },
)
def occlusion(model, tokenizer, texts, target):
    return _explained(Occlusion, model, tokenizer, texts, target)


@claiming()
def saliency(model, tokenizer, texts, target):
    return _explained(Saliency, model, tokenizer, texts, target)


@claiming()
def integrated_gradients(model, tokenizer, texts, target):
    return _explained(IntegratedGradients, model, tokenizer, texts, target)


@claiming("shapley")
def kernel_shap(model, tokenizer, texts, target):
    return _explained(KernelShap, model, tokenizer, texts, target, n_perturbations=300)


@claiming()
def lime(model, tokenizer, texts, target):
    return _explained(Lime, model, tokenizer, texts, target, n_perturbations=300)


METHODS = {
    "Occlusion": occlusion,
    "Saliency": saliency,
    "IntegratedGradients": integrated_gradients,
    "KernelShap": kernel_shap,
    "Lime": lime,
}
