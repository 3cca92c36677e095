"""Transformers Interpret explains probabilities by integrated gradients and scales each text's scores to norm 1."""

from __future__ import annotations

from transformers_interpret import (
    MultiLabelClassificationExplainer,
    PairwiseSequenceClassificationExplainer,
    SequenceClassificationExplainer,
)

from adapters.base import claiming

PACKAGES = ("transformers-interpret",)


# Scores of norm 1 do not sum to the output, nor are they what a word adds; what has no effect still gets 0.
@claiming("dummy", "symmetry", of="probability")
def sequence_classification(model, tokenizer, texts, target):
    if tokenizer.pad_token is None:
        raise NotImplementedError("needs a tokenizer with a padding token")
    results = []
    for text in texts:
        if not isinstance(text, str):
            pairs = PairwiseSequenceClassificationExplainer(model, tokenizer)
            found = pairs(*text, index=target)
        elif model.config.problem_type == "multi_label_classification":
            several = MultiLabelClassificationExplainer(model, tokenizer)
            found = several(text)[model.config.id2label[target]]
        else:
            found = SequenceClassificationExplainer(model, tokenizer)(text, index=target)
        results.append([(token, score) for token, score in found])
    return results


METHODS = {"SequenceClassificationExplainer": sequence_classification}
