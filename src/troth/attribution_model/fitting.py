"""The training of an attribution model G: its examples, its steps, and how good its maps are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from troth.attribution_model.losses import DualMask
from troth.attribution_model.model import AttributionModel, ReadBatch, Variant, read
from troth.core import catalog, draws, outputs
from troth.core.errors import TrothError, unknown
from troth.core.memory import ran_out
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitName
from troth.models import TextClassifier
from troth.training.corpus import Corpus
from troth.training.loop import TrainingBar
from troth.training.predicting import logits_of
from troth.training.settings import MOST_EPOCHS

Found = Mapping[str, float]  # metric -> mean
Sampler = Literal["auto", "tpe", "sobol", "random"]  # of the search for the weights of the losses


@dataclass(frozen=True)
class FitSettings:
    """The paper's for encoders; it explains a large language model with learning rate 8e-5 and batches of 4 × 5."""

    examples: int = 1000
    validation: int = 200
    epochs: float = 10
    batch_size: int = 20
    rows_per_pass: int | None = None  # at most so many at a time, if memory is short
    learning_rate: float = 4e-5
    weight_decay: float = 0.01
    validate_every: float = 0.32  # epochs
    trials: int = 30
    trial_examples: int = 450
    trial_epochs: float = 2
    trials_per_metric: bool = False  # a search of so many trials for every metric, as in the paper, not one for all
    search: Sampler = "auto"  # TPE where Optuna is installed, else Sobol points
    together: int | None = 1  # trainings side by side on a GPU at most; None = what memory holds
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
        """Of a training on so many examples."""
        return max(1, round(epochs * -(-examples // min(self.batch_size, examples))))


def settings_of(**options: Any) -> FitSettings:
    """Settings from options by name; None leaves the default."""
    known = {field.name for field in fields(FitSettings)}
    for name in options:
        if name not in known:
            raise unknown("setting", name, known)
    return FitSettings(**{name: value for name, value in options.items() if value is not None})


@dataclass(frozen=True, eq=False)
class Examples:
    """Texts as the classifier reads them, and what it says of each whole."""

    encodings: Sequence[Encoding]
    probabilities: Tensor  # [examples, classes]

    def first(self, count: int) -> Examples:
        """The first so many; they are in an order that mixes the classes."""
        return Examples(self.encodings[:count], self.probabilities[:count])


@dataclass(eq=False)
class Course:
    """A training: its loss, what chooses among its weights, how it went, and the weights that came of it."""

    loss: DualMask
    better: Callable[[Found, Found], bool] | None = None
    best_step: int = 0
    best: Found = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    weights: dict[str, Tensor] = field(default_factory=dict)  # the best by what was watched

    def look(self, step: int, found: Found, weights: Mapping[str, Tensor]) -> None:
        """Keeps weights that are the best so far."""
        self.history.append({"step": step, **found})
        if not self.weights or (self.better is not None and self.better(found, self.best)):
            self.best_step, self.best = step, found
            self.keep(weights)

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = {name: weight.detach().clone() for name, weight in weights.items()}


def choose(model: TextClassifier, examples: Sequence[Example], settings: FitSettings) -> tuple[Examples, Examples]:
    """Stratified examples to train and to validate on; where there are too few, a sixth of them is to validate on."""
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


def train(
    model: TextClassifier, own: AttributionModel, training: Examples, loss: DualMask, settings: FitSettings, *,
    epochs: float, watch: Callable[[AttributionModel], Found] | None = None,
    better: Callable[[Found, Found], bool] | None = None, progress: bool = False,
) -> Course:  # fmt: skip
    """AdamW with linear decay; G ends with the weights that `watch` found best (without it, the last)."""
    begun, course = time.perf_counter(), Course(loss, better)

    def losses(rows: Rows, page: ReadBatch, said: Tensor) -> Tensor:
        return loss(model, rows, own.scores(page, said), page.present, said)

    def look(step: int, is_due: bool) -> None:
        if watch is not None and is_due:
            course.look(step, watch(own), own.state_dict())

    weights = own.trained_weights().values()
    take_steps(model, own, training, weights, losses, look, settings, epochs=epochs, progress=progress)
    if course.weights:
        own.load_state_dict(course.weights)
        course.weights = {}  # G holds them now
    own.eval()
    course.seconds = time.perf_counter() - begun
    return course


def take_steps(
    model: TextClassifier, own: AttributionModel, training: Examples, weights: Iterable[Tensor],
    losses: Callable[[Rows, ReadBatch, Tensor], Tensor], look: Callable[[int, bool], None], settings: FitSettings, *,
    epochs: float, progress: bool,
) -> None:  # fmt: skip
    """AdamW with linear decay on the losses of rows; `look` hears after each step whether it is time to validate."""
    corpus = Corpus(training.encodings, torch.zeros(len(training.encodings), dtype=torch.int64)).to(model.device)
    probabilities = training.probabilities.to(model.device)
    size = min(settings.batch_size, len(corpus))
    a_round = -(-len(corpus) // size)
    steps = settings.steps(len(corpus), epochs)
    every = max(1, round(settings.validate_every * a_round))
    weights = list(weights)
    on_gpu = own.device.type == "cuda"
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=on_gpu)
    most = settings.rows_per_pass

    def tried(index: Tensor) -> Tensor | None:
        """Gradients of a step, and the last losses; None where memory ran out."""
        try:
            for part in parts_of(model, corpus, index, most):
                lengths = corpus.lengths[part]
                width = int(lengths.max())
                rows = corpus.rows(part, torch.zeros_like(part), model)
                # With lengths that need not be asked of the device.
                even = bool((lengths == width).all())
                rows = replace(rows, width=width, is_even=even, lengths_after=lengths.numpy())
                each = losses(rows, read(own, rows), probabilities[part.to(probabilities.device)])
                (each.sum() / len(index)).backward()  # type: ignore[no-untyped-call]
            return each.detach()
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            return None

    with (
        draws.seeded(draws.key(settings.seed, "attributive training")),
        TrainingBar(steps, 0, shown=progress) as line,
        model.at_rest(),
    ):
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * (1 - step / steps)
            own.train()
            index = batch(len(corpus), size, step, settings.seed)
            while (each := tried(index)) is None:
                optimizer.zero_grad()
                if (most or len(index)) == 1:
                    raise TrothError(
                        "a training step of the attribution model does not fit into memory, not even for one text; "
                        "train fewer side by side (together=1), or load the model with a smaller max_length"
                    )
                most = (most or len(index)) // 2
            for weight in weights:
                if weight.grad is not None:
                    weight.grad = weight.grad.contiguous()  # vmap may leave strides that the fused kernel refuses
            optimizer.step()
            optimizer.zero_grad()
            line.step(step // a_round + 1, -(-steps // a_round), float(each.mean()) if progress else 0.0)
            look(step + 1, (step + 1) % every == 0 or step + 1 == steps)


def is_better(metric: str) -> Callable[[Found, Found], bool]:
    """Whether one result beats another by a metric; undefined ones beat nothing."""
    built: Any = catalog.build("metrics", metric)
    sign = -1.0 if built.higher_is_better is False else 1.0

    def better(new: Found, old: Found) -> bool:
        return sign * new[metric] > sign * old[metric] or (np.isnan(old[metric]) and not np.isnan(new[metric]))

    return better


def _probabilities(model: TextClassifier, encodings: Sequence[Encoding]) -> Tensor:
    """What the classifier says of whole texts. [examples, classes]"""
    return outputs.probabilities(logits_of(model, encodings), model.outputs)


def batch(count: int, size: int, step: int, seed: int) -> Tensor:
    """The examples of a step; every epoch has an order of its own."""
    epoch, turn = divmod(step, -(-count // size))
    order = np.random.default_rng(draws.key(seed, "order of examples", epoch)).permutation(count)
    return torch.from_numpy(order[turn * size : (turn + 1) * size])


def parts_of(model: TextClassifier, corpus: Corpus, index: Tensor, most: int | None) -> Iterator[Tensor]:
    """What goes through the models at a time; a model that cannot pad gets texts of one length."""
    groups = [index]
    if not model.pads:
        lengths = corpus.lengths[index]
        groups = [index[lengths == length] for length in set(lengths.tolist())]
    for group in groups:
        yield from torch.split(group, most or len(group))
