"""Does an explanation change when the model's weights are shuffled? One that does not cannot be about the model
(parameter randomization; Adebayo et al., 2018).

This is a check of an explainer, not a metric of an explanation: it needs a second model. The second one is a copy; the
user's model is never touched. Elements are shuffled within each parameter, which keeps their distribution, where
Adebayo et al. draw new ones. `cascade=True` shuffles from the top down, one block more each time, as they do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.stats
import torch
from torch import nn

from troth import statistics
from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.sheet import without_nan
from troth.core.types import Attribution
from troth.core.units import UnitName
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import TextClassifier, families, load_model
from troth.verbs.explain import Texts, as_examples, explain_pairs


@dataclass(frozen=True)
class Randomization:
    """Rank correlation between an explainer's scores before and after shuffling; near 0 is good."""

    explainer: str
    block: str  # shuffled from the top of the model down to here
    value: float  # mean Spearman correlation over examples
    low: float
    high: float
    correlations: tuple[float, ...]  # one per example; NaN where either side is constant or has fewer than two units

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, which has no NaN."""
        return dict(without_nan(asdict(self)))


def parameter_randomization(
    model: Any,
    texts: Texts,
    explainer: str | Explainer,
    *,
    cascade: bool = False,
    units: UnitName = "word",
    masking: str | Masking = "mask_token",
    seed: int = 0,
) -> list[Randomization]:
    """Explains the texts with the model and with a shuffled copy of it, for the class the real model predicts.

    One result; with `cascade` one for each block shuffled, from the classification head down to the embeddings.
    """
    original = load_model(model)
    examples = list(as_examples(texts))
    method = catalog.build("explainers", explainer)

    def explained(model: TextClassifier, targets: Sequence[str | int]) -> list[Attribution]:
        prober, encodings = Prober(model, masking), model.encode(examples, units)
        prepared = method.prepare(prober, encodings)
        return list(explain_pairs(prober, prepared, zip(encodings, targets, strict=True), seed=seed))

    real = explained(original, ["predicted"] * len(examples))
    targets = [attribution.target for attribution in real]
    results = []
    for block, shuffled in _shuffled_copies(original, cascade, seed):
        pairs = zip(real, explained(shuffled, targets), strict=True)
        correlations = np.array([_spearman(first, second) for first, second in pairs])
        value, (low, high) = statistics.mean(correlations), statistics.bca_interval(correlations)
        results.append(Randomization(catalog.spec(method), block, value, low, high, tuple(correlations.tolist())))
    return results


def shuffle(module: nn.Module, names: Sequence[str], seed: int) -> None:
    """Shuffles the elements within each named parameter, in place: give it a copy."""
    with torch.no_grad():
        for name in names:
            parameter = module.get_parameter(name)
            generator = torch.Generator().manual_seed(draws.key(seed, "randomization", name))
            order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))


def blocks(module: nn.Module) -> dict[str, list[str]]:
    """The names of a model's parameters by block, from the classification head down to the embeddings."""
    parameters: dict[str, list[str]] = {}
    for name, _ in module.named_parameters():
        match = families.BLOCK.match(name)
        block = match[1] if match else ".".join(name.split(".")[: 2 if name.count(".") > 2 else 1])
        parameters.setdefault(block, []).append(name)
    inside = f"{getattr(module, 'base_model_prefix', '')}."
    # Definition order is from the bottom up, but some heads are defined before what they stand on.
    downwards = list(parameters.items())[::-1]
    return dict(sorted(downwards, key=lambda block: block[1][0].startswith(inside)))


def _shuffled_copies(model: TextClassifier, cascade: bool, seed: int) -> Iterator[tuple[str, TextClassifier]]:
    """Copies in which more and more blocks, or at once all, are shuffled."""
    if model.model is None:
        raise TrothError(f"{model.name} has no weights to shuffle; parameter randomization needs a torch model")
    twin = model.twin()
    parts = blocks(twin.model)
    for block, names in parts.items():
        shuffle(twin.model, names, seed)
        twin.forget()
        if cascade or block == list(parts)[-1]:
            yield block if cascade else "all", twin


def _spearman(first: Attribution, second: Attribution) -> float:
    if len(first.scores) < 2 or np.ptp(first.scores) == 0 or np.ptp(second.scores) == 0:
        return float("nan")
    return float(scipy.stats.spearmanr(first.scores, second.scores).statistic)
