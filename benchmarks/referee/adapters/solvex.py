"""SOLVE-X searches the order of words whose removal changes a function most; a score is a place in that order."""

from __future__ import annotations

import numpy as np
from solvex import BeamSearchExplainer, TextWordMasker

from adapters.base import Players, claiming

PACKAGES = ("solvex",)


@claiming(of="probability")
def beam_search(model, tokenizer, texts, target):
    results = []
    several = model.config.problem_type == "multi_label_classification"
    for text in texts:
        game = Players(model, tokenizer, text, target)

        def predict(rows, game=game):
            logits = game.logits([[word != "[MASK]" for word in row] for row in rows]).float()
            return (logits.sigmoid() if several else logits.softmax(-1)).numpy()

        words = [f"w{number}" for number in range(game.count)]
        explainer = BeamSearchExplainer(TextWordMasker("replace-[MASK]"), predict, "comp-suff", 5, 32)
        ranks = explainer.explain_instance(words, label=target, logging="none")["exp"]
        results.append(game.spans(np.argsort(np.argsort(ranks)) + 1))  # it moves the zero of its ranks
    return results


METHODS = {"BeamSearchExplainer": beam_search}
