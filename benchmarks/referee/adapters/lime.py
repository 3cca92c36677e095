"""LIME cuts the words itself and asks a function from texts to probabilities."""

from __future__ import annotations

from lime.lime_text import LimeTextExplainer

from adapters.base import claiming, probabilities, single

PACKAGES = ("lime",)


@claiming(of="probability")
def text_explainer(model, tokenizer, texts, target):
    predict, results = probabilities(model, tokenizer), []
    for text in texts:
        if len(tokenizer(single(text))["input_ids"]) > tokenizer.model_max_length:
            raise NotImplementedError("it calls a function of texts, and this function truncates them")
        explainer = LimeTextExplainer(bow=False, mask_string=tokenizer.mask_token or tokenizer.unk_token)
        explanation = explainer.explain_instance(
            single(text), predict, labels=[target], num_features=100, num_samples=300
        )
        words = explanation.domain_mapper.indexed_string
        found = []
        for number, score in explanation.local_exp[target]:
            start = int(words.string_position(number)[0])
            found.append(((start, start + len(words.word(number))), score))
        results.append(sorted(found))
    return results


METHODS = {"LimeTextExplainer": text_explainer}
