"""The start of a fit: settings, examples for training and validation, and the attribution model.

By default G starts from the pretrained encoder that its classifier was fine-tuned from (the paper); it can also start
from the classifier's own encoder (the released code) or from any encoder that the user names. If no record leads to a
pretrained encoder (models/_bases.py), the classifier's own is used and the reason is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from troth.attribution_model.model import AttributionModel, Variant, from_backbone, from_model
from troth.core import draws, outputs
from troth.core.errors import TrothError, unknown
from troth.core.types import Encoding, Example
from troth.core.units import UnitName
from troth.models import TextClassifier, short_name
from troth.models._bases import place_of, pretrained_of
from troth.training.quality import logits_of
from troth.training.settings import MOST_EPOCHS

EXPLAINED = "explained"
_COPY = "a copy of the explained model's encoder"
Sampler = Literal["auto", "tpe", "sobol", "random"]  # of the search for the weights of the losses


@dataclass(frozen=True)
class FitSettings:
    """The paper's settings for encoders. For a large language model it uses learning rate 8e-5 and batches of 4 × 5."""

    examples: int = 1000
    validation: int = 200
    epochs: float = 10
    batch_size: int = 20
    rows_per_pass: int | None = None  # the most rows at a time, if memory is short
    learning_rate: float = 4e-5
    weight_decay: float = 0.01
    validate_every: float = 0.32  # epochs
    trials: int = 30
    trial_examples: int = 450
    trial_epochs: float = 2
    # A search with this many trials for each metric, as in the paper, instead of one for all.
    trials_per_metric: bool = False
    search: Sampler = "auto"  # TPE where Optuna is installed, else Sobol points
    together: int | None = 1  # the most trainings side by side on a GPU; None = what fits into memory
    units: UnitName = "token"
    # Released: the prediction's encoding is divided by the number of classes; G starts from the explained model.
    variant: Variant = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "trials", "trial_epochs"):
            value = getattr(self, name)
            if not 0 < value <= MOST_EPOCHS:
                raise TrothError(f"{name.replace('_', ' ')} must be above 0 and at most {MOST_EPOCHS:,}, not {value}")
        for name in (
            "examples", "validation", "trial_examples", "batch_size", "rows_per_pass", "learning_rate",
            "validate_every", "together",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise TrothError(f"{name.replace('_', ' ')} must be above 0 and finite, not {value}")
        if self.search not in get_args(Sampler):
            raise unknown("search", self.search, get_args(Sampler))

    def steps(self, examples: int, epochs: float) -> int:
        """The number of steps for the given number of examples."""
        return max(1, round(epochs * -(-examples // min(self.batch_size, examples))))


def settings_of(**options: Any) -> FitSettings:
    """Builds settings from options by name; None keeps the default."""
    known = {field.name for field in fields(FitSettings)}
    for name in options:
        if name not in known:
            raise unknown("setting", name, known)
    return FitSettings(**{name: value for name, value in options.items() if value is not None})


@dataclass(frozen=True, eq=False)
class Examples:
    """Texts as the classifier reads them, and its predictions on the whole texts."""

    encodings: Sequence[Encoding]
    probabilities: Tensor  # [examples, classes]

    def first(self, count: int) -> Examples:
        """The first examples; their order mixes the classes."""
        return Examples(self.encodings[:count], self.probabilities[:count])


def choose(model: TextClassifier, examples: Sequence[Example], settings: FitSettings) -> tuple[Examples, Examples]:
    """Stratified examples for training and validation; if there are too few, a sixth of them is for validation."""
    if len(examples) < 6:
        raise TrothError(f"{len(examples)} examples are too few to fit an attribution model on; give at least 6")
    if all(example.label is not None for example in examples):
        strata = [str(example.label) for example in examples]
    else:
        said = _probabilities(model, model.encode(examples, settings.units))
        strata = [str(index) for index in said.argmax(-1).tolist()]
    order = stratified(strata, draws.key(settings.seed, "attributive examples"))
    checking = min(settings.validation, len(order) // 6)
    chosen = [examples[place] for place in order[: checking + settings.examples]]
    encodings = [encoding for encoding in model.encode(chosen, settings.units) if encoding.n_units]
    if len(encodings) <= checking:
        empty = len(chosen) - len(encodings)
        raise TrothError(
            f"{empty:,} of {len(chosen):,} texts are empty, so none is left to fit on; give texts of words"
        )
    probabilities = _probabilities(model, encodings)
    return Examples(encodings[checking:], probabilities[checking:]), Examples(
        encodings[:checking], probabilities[:checking]
    )


def stratified(strata: Sequence[str], seed: int) -> list[int]:
    """An order of which every beginning has the classes in about their shares.

    >>> classes = "baabaa"
    >>> "".join(classes[place] for place in stratified(classes, 0))
    'abaaba'
    """
    random = np.random.default_rng(seed)
    places = []
    for name in sorted(set(strata)):
        members = random.permutation([place for place, stratum in enumerate(strata) if stratum == name])
        places += [((turn + 0.5) / len(members), name, int(place)) for turn, place in enumerate(members)]
    return [place for _, _, place in sorted(places)]


def _probabilities(model: TextClassifier, encodings: Sequence[Encoding]) -> Tensor:
    """The classifier's predictions on whole texts. [examples, classes]"""
    return outputs.probabilities(logits_of(model, encodings), model.outputs)


@dataclass(frozen=True, eq=False)
class Start:
    """An attribution model before it is fitted."""

    model: AttributionModel
    source: str  # a folder, a hub name, or "explained"
    words: str  # a description for people, with the reason


def start(model: TextClassifier, backbone: str | None, seed: int, variant: Variant = "paper") -> Start:
    """Starts from `backbone`, by default from the pretrained encoder (released variant: the explained model)."""
    model.embedding_matrix  # noqa: B018  (a black box refuses by name: the masks mix word vectors)
    if backbone == EXPLAINED or (backbone is None and variant == "released"):
        return Start(from_model(model, seed, variant), EXPLAINED, f"{_COPY}, as in the released code")
    if backbone is not None:
        return Start(
            from_backbone(place_of(backbone), model, seed, variant), backbone, f"{short_name(backbone)}, as named"
        )
    source, why = pretrained_of(model.name)
    if source is not None:
        try:
            own = from_backbone(place_of(source), model, seed, variant)
            return Start(
                own, source, f"{short_name(source)}, from which {short_name(model.name)} was fine-tuned ({why})"
            )
        except TrothError as error:
            why = str(error)
    try:
        own = from_model(model, seed, variant)
    except TrothError as error:
        raise TrothError(f"{error} ({why})" if source is not None else str(error)) from None
    return Start(own, EXPLAINED, f"{_COPY}, because {why}; name the pretrained encoder: --backbone FOLDER")
