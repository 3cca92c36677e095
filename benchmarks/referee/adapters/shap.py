"""SHAP explains a transformers pipeline by itself; its kernel explainer takes a function of zeros and ones."""

from __future__ import annotations

import numpy as np
import shap
from transformers import pipeline

from adapters.base import Players, claiming, single

PACKAGES = ("shap",)


@claiming("completeness", "dummy", "linear", of="probability")
def partition(model, tokenizer, texts, target):
    model_of_texts = pipeline(
        "text-classification", model=model, tokenizer=tokenizer, top_k=None, device="cpu", truncation=True
    )
    explained = shap.Explainer(model_of_texts, silent=True)([single(text) for text in texts])
    return [
        ([str(token) for token in tokens], values[:, target])
        for tokens, values in zip(explained.data, explained.values, strict=True)
    ]


@claiming("shapley")
def kernel(model, tokenizer, texts, target):
    results = []
    for text in texts:
        game = Players(model, tokenizer, text, target)
        explainer = shap.KernelExplainer(game.values, np.zeros((1, game.count)))
        scores = explainer.shap_values(np.ones((1, game.count)), nsamples=300, l1_reg=False, silent=True)
        results.append(game.spans(np.asarray(scores).reshape(-1)))
    return results


METHODS = {"Explainer(pipeline)": partition, "KernelExplainer": kernel}
