"""inseq explains the next token of a language model; here the text is the prompt, and its class is the next token."""

from __future__ import annotations

import inseq

from adapters.base import claiming, single
from adapters.generating import NOT_GENERATING, LanguageModel

PACKAGES = ("inseq",)


def _explained(method, model, tokenizer, texts, target, **options):
    network = LanguageModel(model, tokenizer)
    explainer = inseq.load_model(network, method, tokenizer=network.tokenizer, device="cpu")
    prompts = [single(text) for text in texts]
    answers = [prompt + network.answer(target) for prompt in prompts]
    found = explainer.attribute(list(prompts), answers, attributed_fn="logit", show_progress=False, **options)
    results = []
    for prompt, each in zip(prompts, found.sequence_attributions, strict=True):
        scores = each.target_attributions
        scores = (scores if scores.dim() == 2 else scores.sum(-1))[:, -1].tolist()
        spans = network.spans(prompt)
        results.append(list(zip(spans, scores[-len(spans) - 1 : -1], strict=True)))  # the answer comes last
    return results


@claiming("integrated_gradients", left_out=NOT_GENERATING)
def integrated_gradients(model, tokenizer, texts, target):
    return _explained("integrated_gradients", model, tokenizer, texts, target, n_steps=20)


@claiming("input_x_gradient", left_out=NOT_GENERATING)
def input_x_gradient(model, tokenizer, texts, target):
    return _explained("input_x_gradient", model, tokenizer, texts, target)


@claiming(left_out=NOT_GENERATING)
def saliency(model, tokenizer, texts, target):
    return _explained("saliency", model, tokenizer, texts, target)


METHODS = {"integrated_gradients": integrated_gradients, "input_x_gradient": input_x_gradient, "saliency": saliency}
