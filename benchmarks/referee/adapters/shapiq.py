"""shapiq takes a game: a function from coalitions to values."""

from __future__ import annotations

from adapters.base import Players, claiming

PACKAGES = ("shapiq",)


@claiming("shapley")
def exact(model, tokenizer, texts, target):
    from shapiq import ExactComputer

    results = []
    for text in texts:
        game = Players(model, tokenizer, text, target)
        if game.count > 12:
            raise NotImplementedError("exact values of more than 12 tokens")
        values = ExactComputer(game.values, n_players=game.count)("SV", 1)
        results.append(game.spans([values[(player,)] for player in range(game.count)]))
    return results


@claiming("shapley")
def kernel_shap(model, tokenizer, texts, target):
    from shapiq import KernelSHAP

    results = []
    for text in texts:
        game = Players(model, tokenizer, text, target)
        values = KernelSHAP(n=game.count, random_state=0).approximate(budget=300, game=game.values)
        results.append(game.spans([values[(player,)] for player in range(game.count)]))
    return results


METHODS = {"ExactComputer": exact, "KernelSHAP": kernel_shap}
