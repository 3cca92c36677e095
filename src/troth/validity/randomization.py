"""Does an explanation change when the model's weights are shuffled (parameter randomization; Adebayo et al., 2018), or
when another class is explained (random logit; Sixt et al., 2020)? An explanation that stays the same cannot depend on
the model, or on the class.

These are checks of an explainer, not metrics of an explanation. The shuffled model is a copy; the user's model is never
changed. Values are shuffled within each parameter, which keeps their distribution, where Adebayo et al. draw new ones.
`cascade=True` shuffles from the top down, one more block each time, as they do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
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
from troth.maskings import Masking
from troth.models import TextClassifier, families, load_model
from troth.verbs.explain import Texts, as_examples, explain_pairs
from troth.verbs.methods import EXPLAINERS, GivenExplainer


@dataclass(frozen=True)
class Randomization:
    """The rank correlation between an explainer's scores before and after the change; a value near 1 is bad."""

    explainer: str
    block: str  # shuffled from the top of the model down to this block; "class": another class was explained
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
    explainer: GivenExplainer,
    *,
    cascade: bool = False,
    units: UnitName = "word",
    masking: str | Masking = "mask_token",
    seed: int = 0,
) -> list[Randomization]:
    """Explains the texts with the model and with a shuffled copy of it, for the class that the real model predicts.

    Returns one result; with `cascade`, one for each block, from the classification head down to the embeddings.
    """
    return _shuffled(_Subject(model, texts, explainer, units, masking, seed), cascade)


def random_class(
    model: Any,
    texts: Texts,
    explainer: GivenExplainer,
    *,
    units: UnitName = "word",
    masking: str | Masking = "mask_token",
    seed: int = 0,
) -> Randomization:
    """Explains each text for the predicted class and for another class, drawn at random.

    For two classes, the scores of the other class often have the opposite sign: a correlation of −1.
    """
    subject = _Subject(model, texts, explainer, units, masking, seed)
    if not subject.has_other_class:
        raise TrothError(f"{subject.model.name} has no second class to explain")
    return _other_class(subject)


def randomizations(
    model: Any,
    texts: Texts,
    explainer: GivenExplainer,
    *,
    cascade: bool = False,
    units: UnitName = "word",
    masking: str | Masking = "mask_token",
    seed: int = 0,
) -> list[Randomization]:
    """Runs both checks, the second only if there is another class; the explanations of the model are computed once."""
    subject = _Subject(model, texts, explainer, units, masking, seed)
    return _shuffled(subject, cascade) + ([_other_class(subject)] if subject.has_other_class else [])


class _Subject:
    """An explainer on the texts of a model."""

    def __init__(
        self, model: Any, texts: Texts, explainer: GivenExplainer, units: UnitName, masking: str | Masking, seed: int
    ) -> None:
        self.model, self.examples = load_model(model), list(as_examples(texts))
        self.method = EXPLAINERS.method(explainer).instance
        self.units, self.masking, self.seed = units, masking, seed

    @property
    def has_other_class(self) -> bool:
        return self.model.outputs != "values" and len(self.model.labels) > 1

    @cached_property
    def real(self) -> list[Attribution]:
        """The explanations of the model's predictions."""
        return self.explained(self.model, ["predicted"] * len(self.examples))

    def explained(self, model: TextClassifier, targets: Sequence[str | int]) -> list[Attribution]:
        prober, encodings = Prober(model, self.masking), model.encode(self.examples, self.units)
        prepared = self.method.prepare(prober, encodings)
        return list(explain_pairs(prober, prepared, zip(encodings, targets, strict=True), seed=self.seed))

    def compared(self, block: str, after: Sequence[Attribution]) -> Randomization:
        """The agreement of other explanations of the texts with the real ones."""
        correlations = np.array([_spearman(*pair) for pair in zip(self.real, after, strict=True)])
        value, (low, high) = statistics.mean(correlations), statistics.bca_interval(correlations)
        return Randomization(catalog.spec(self.method), block, value, low, high, tuple(correlations.tolist()))


def _shuffled(subject: _Subject, cascade: bool) -> list[Randomization]:
    targets = [attribution.target for attribution in subject.real]
    return [
        subject.compared(block, subject.explained(shuffled, targets))
        for block, shuffled in _shuffled_copies(subject.model, cascade, subject.seed)
    ]


def _other_class(subject: _Subject) -> Randomization:
    others: list[str | int] = []
    for attribution in subject.real:
        rest = [index for index in range(len(subject.model.labels)) if index != attribution.target]
        others.append(int(attribution.question.draws("another class").generator().choice(rest)))
    return subject.compared("class", subject.explained(subject.model, others))


def shuffle(module: nn.Module, names: Sequence[str], seed: int) -> None:
    """Shuffles the values of each named parameter in place, so it must be given a copy."""
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
    # Definition order is from the bottom up, but some heads are defined before the layers below them.
    downwards = list(parameters.items())[::-1]
    return dict(sorted(downwards, key=lambda block: block[1][0].startswith(inside)))


def _shuffled_copies(model: TextClassifier, cascade: bool, seed: int) -> Iterator[tuple[str, TextClassifier]]:
    """Copies in which more and more blocks are shuffled, or all at once."""
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
