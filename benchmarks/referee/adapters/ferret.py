"""ferret's explainers take a model, its tokenizer and one text."""

from __future__ import annotations

from ferret.explainers.gradient import GradientExplainer, IntegratedGradientExplainer
from ferret.explainers.lime import LIMEExplainer
from ferret.explainers.shap import SHAPExplainer

from adapters.base import claiming, single

PACKAGES = ("ferret-xai",)


def _explained(kind, model, tokenizer, texts, target, **call):
    if tokenizer.pad_token is None:
        raise NotImplementedError("needs a tokenizer with a padding token")
    explainer, results = kind(model, tokenizer), []
    for text in texts:
        explanation = explainer(single(text), target=target, call_args=dict(call))  # it empties the dict
        results.append((list(explanation.tokens), [float(score) for score in explanation.scores]))
    return results


@claiming("input_x_gradient")
def gradient(model, tokenizer, texts, target):
    return _explained(GradientExplainer, model, tokenizer, texts, target)


@claiming("integrated_gradients")
def integrated_gradient(model, tokenizer, texts, target):
    return _explained(IntegratedGradientExplainer, model, tokenizer, texts, target)


@claiming(of="probability")
def lime(model, tokenizer, texts, target):
    return _explained(LIMEExplainer, model, tokenizer, texts, target, num_samples=300)


@claiming("completeness", "dummy", "linear", of="probability")
def partition_shap(model, tokenizer, texts, target):
    return _explained(SHAPExplainer, model, tokenizer, texts, target)


METHODS = {
    "Gradient (x Input)": gradient,
    "Integrated Gradient": integrated_gradient,
    "LIME": lime,
    "Partition SHAP": partition_shap,
}
