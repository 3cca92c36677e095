"""Captum takes tensors; texts become tensors as in its BERT tutorial, special tokens stay in the baseline."""

from __future__ import annotations

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    InputXGradient,
    KernelShap,
    LayerIntegratedGradients,
    Saliency,
    ShapleyValueSampling,
)

from adapters.base import Encoded, claiming

PACKAGES = ("captum",)


def _of_ids(model):
    def forward(ids, *others):
        return model(input_ids=ids, **dict(zip(forward.names, others, strict=True))).logits

    forward.names = ()
    return forward


def _with_ids(method, model, tokenizer, texts, target, **options):
    batch, forward = Encoded(tokenizer, texts), _of_ids(model)
    forward.names = tuple(batch.others)
    return batch, method(forward), {
        "inputs": batch.ids, "baselines": batch.reference, "target": target,
        "additional_forward_args": tuple(batch.others.values()), **options,
    }  # fmt: skip


@claiming("integrated_gradients")
def layer_integrated_gradients(model, tokenizer, texts, target):
    embeddings = model.get_input_embeddings()
    batch, method, given = _with_ids(
        lambda forward: LayerIntegratedGradients(forward, embeddings), model, tokenizer, texts, target
    )
    return batch.scored(method.attribute(**given).sum(-1).detach())


def _of_vectors(kind, model, tokenizer, texts, target, **options):
    batch = Encoded(tokenizer, texts)
    vectors = model.get_input_embeddings()(batch.ids).detach().requires_grad_()
    names = tuple(batch.others)

    def forward(given, *others):
        return model(inputs_embeds=given, **dict(zip(names, others, strict=True))).logits

    extra = tuple(batch.others.values())
    return batch, kind(forward).attribute(vectors, target=target, additional_forward_args=extra, **options).detach()


@claiming("input_x_gradient")
def input_x_gradient(model, tokenizer, texts, target):
    batch, scores = _of_vectors(InputXGradient, model, tokenizer, texts, target)
    return batch.scored(scores.sum(-1))


@claiming()
def saliency(model, tokenizer, texts, target):
    batch, scores = _of_vectors(Saliency, model, tokenizer, texts, target)
    return batch.scored(scores.norm(dim=-1))


@claiming("leave_one_out")
def feature_ablation(model, tokenizer, texts, target):
    batch, method, given = _with_ids(FeatureAblation, model, tokenizer, texts, target)
    with torch.no_grad():
        return batch.scored(method.attribute(**given))


def _one_by_one(kind, model, tokenizer, texts, target, **options):
    results = []
    for text in texts:
        batch, method, given = _with_ids(kind, model, tokenizer, [text], target)
        # One feature more than tokens: the special ones, which do not change.
        features = torch.zeros_like(batch.ids)
        inside = ~batch.special
        features[inside] = torch.arange(1, int(inside.sum()) + 1)
        with torch.no_grad():
            results += batch.scored(method.attribute(**given, feature_mask=features, **options))
    return results


@claiming("shapley")
def shapley_value_sampling(model, tokenizer, texts, target):
    return _one_by_one(ShapleyValueSampling, model, tokenizer, texts, target, n_samples=20, perturbations_per_eval=10)


@claiming("shapley")
def kernel_shap(model, tokenizer, texts, target):
    return _one_by_one(KernelShap, model, tokenizer, texts, target, n_samples=200, perturbations_per_eval=25)


class _Logits(torch.nn.Module):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, vectors, *others):
        return self.model(inputs_embeds=vectors, **dict(zip(self.names, others, strict=True))).logits


# Not completeness: its documentation leaves out models that multiply activations.
@claiming("linear", "dummy")
def deep_lift(model, tokenizer, texts, target):
    batch = Encoded(tokenizer, texts)
    embeddings = model.get_input_embeddings()
    vectors, baselines = embeddings(batch.ids).detach(), embeddings(batch.reference).detach()
    method = DeepLift(_Logits(model, tuple(batch.others)))
    scores = method.attribute(vectors, baselines, target=target, additional_forward_args=tuple(batch.others.values()))
    return batch.scored(scores.sum(-1).detach())


METHODS = {
    "LayerIntegratedGradients": layer_integrated_gradients,
    "InputXGradient": input_x_gradient,
    "Saliency": saliency,
    "FeatureAblation": feature_ablation,
    "ShapleyValueSampling": shapley_value_sampling,
    "KernelShap": kernel_shap,
    "DeepLift": deep_lift,
}
