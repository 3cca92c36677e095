"""The training of attribution models G: one, or several side by side on the same examples in the same order, each with
its own weights of the losses.

When a single small G is trained, a GPU mostly waits for Python. Side by side, every copy of G takes the same steps as
if it were trained alone; only the dropout masks differ.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.attribution_model.losses import DualMask, repeated
from troth.attribution_model.model import AttributionModel, ReadBatch, read
from troth.attribution_model.start import Examples, FitSettings
from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.types import Rows
from troth.models import TextClassifier, families
from troth.training.corpus import Corpus
from troth.training.loop import TrainingBar

Found = Mapping[str, float]  # metric -> mean
_SHARE = 0.1  # of a GPU's free memory that the copies may use
_COPIES = 5  # memory per copy, in copies of its weights: weights, gradient, two moments and workspace
_NUMBERS = 20  # numbers per token, layer and dimension that are kept for the backward pass

# From the weights of all copies to the validation result of each.
Watch = Callable[[Mapping[str, Tensor]], Sequence[Found]]


@dataclass(eq=False)
class Course:
    """One training: its loss, the metric that selects the best weights, its history, and those weights."""

    loss: DualMask
    better: Callable[[Found, Found], bool] | None = None
    best_step: int = 0
    best: Found = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    weights: dict[str, Tensor] = field(default_factory=dict)  # the best weights on validation

    def look(self, step: int, found: Found, weights: Mapping[str, Tensor]) -> None:
        """Stores the weights if they are the best so far."""
        self.history.append({"step": step, **found})
        if not self.weights or (self.better is not None and self.better(found, self.best)):
            self.best_step, self.best = step, found
            self.keep(weights)

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = {name: weight.detach().clone() for name, weight in weights.items()}


def train(
    model: TextClassifier, own: AttributionModel, training: Examples, loss: DualMask, settings: FitSettings, *,
    epochs: float, watch: Callable[[AttributionModel], Found] | None = None,
    better: Callable[[Found, Found], bool] | None = None, progress: bool = False,
) -> Course:  # fmt: skip
    """Trains with AdamW and linear decay; G ends with the weights that `watch` found best, else the last."""
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
        course.weights = {}  # G holds these weights now
    own.eval()
    course.seconds = time.perf_counter() - begun
    return course


def take_steps(
    model: TextClassifier, own: AttributionModel, training: Examples, weights: Iterable[Tensor],
    losses: Callable[[Rows, ReadBatch, Tensor], Tensor], look: Callable[[int, bool], None], settings: FitSettings, *,
    epochs: float, progress: bool,
) -> None:  # fmt: skip
    """AdamW with linear decay on the losses of rows; after each step `look` is told whether to validate."""
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
        """The gradients and losses of a step; None if memory ran out."""
        try:
            for part in parts_of(model, corpus, index, most):
                lengths = corpus.lengths[part]
                width = int(lengths.max())
                rows = corpus.rows(part, torch.zeros_like(part), model)
                # The lengths are passed along, so that they need not be copied from the device.
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
                    weight.grad = weight.grad.contiguous()  # vmap may return strides that the fused kernel refuses
            optimizer.step()
            optimizer.zero_grad()
            line.step(step // a_round + 1, -(-steps // a_round), float(each.mean()) if progress else 0.0)
            look(step + 1, (step + 1) % every == 0 or step + 1 == steps)


def is_better(metric: str) -> Callable[[Found, Found], bool]:
    """Whether one result is better than another by a metric; an undefined result never is."""
    built: Any = catalog.build("metrics", metric)
    sign = -1.0 if built.higher_is_better is False else 1.0

    def better(new: Found, old: Found) -> bool:
        return sign * new[metric] > sign * old[metric] or (np.isnan(old[metric]) and not np.isnan(new[metric]))

    return better


def batch(count: int, size: int, step: int, seed: int) -> Tensor:
    """The examples of a step; every epoch has its own order."""
    epoch, turn = divmod(step, -(-count // size))
    order = np.random.default_rng(draws.key(seed, "order of examples", epoch)).permutation(count)
    return torch.from_numpy(order[turn * size : (turn + 1) * size])


def parts_of(model: TextClassifier, corpus: Corpus, index: Tensor, most: int | None) -> Iterator[Tensor]:
    """The parts that go through the models at a time; a model that cannot pad gets texts of equal length."""
    groups = [index]
    if not model.pads:
        lengths = corpus.lengths[index]
        groups = [index[lengths == length] for length in set(lengths.tolist())]
    for group in groups:
        yield from torch.split(group, most or len(group))


def most_together(model: TextClassifier, own: AttributionModel, examples: Examples, settings: FitSettings) -> int:
    """How many copies can be trained side by side; 1 where that is impossible or no faster (on a CPU)."""
    if own.device.type != "cuda" or own.backbone.config.model_type not in families.MAPPED:
        return 1
    if settings.together is not None:
        return settings.together
    weights = sum(weight.numel() * weight.element_size() for weight in own.trained_weights().values())
    tokens = settings.batch_size * max(len(encoding.ids) for encoding in examples.encodings)
    read_back = _NUMBERS * tokens * (2 * _depth(getattr(model, "model", None)) + _depth(own.backbone))
    return max(1, int(free(own.device) * _SHARE) // (_COPIES * weights + read_back))


def _depth(network: Any) -> int:
    """The bytes of a token's vectors in all layers."""
    config, dtype = getattr(network, "config", None), getattr(network, "dtype", torch.float32)
    dimensions, layers = getattr(config, "hidden_size", 768), getattr(config, "num_hidden_layers", 12)
    return int(dimensions * layers * dtype.itemsize)


def train_together(
    model: TextClassifier, own: AttributionModel, training: Examples, copies: Sequence[Course], settings: FitSettings,
    *, epochs: float, watch: Watch | None = None, progress: bool = False,
) -> None:  # fmt: skip
    """As `train`, for several copies; all start from the weights of G, which are not changed."""
    begun = time.perf_counter()
    count, form = len(copies), copies[0].loss
    lambdas = torch.tensor([copy.loss.weights for copy in copies], device=own.device)  # [copies, 3]
    weights = stacked([own.trained_weights()] * count)
    for weight in weights.values():
        weight.requires_grad_()

    def losses(rows: Rows, page: ReadBatch, said: Tensor) -> Tensor:
        scores = own.scores_of_copies(weights, page, said).flatten(0, 1)  # [copies · rows, units]
        terms = form.terms(model, repeated(rows, count), scores, page.present.repeat(count, 1), said.repeat(count, 1))
        return (terms.view(count, len(said), 3) * lambdas[:, None]).sum(-1)

    last = settings.steps(len(training.encodings), epochs)

    def look(step: int, is_due: bool) -> None:
        if watch is not None and is_due:
            own.eval()
            for place, (copy, found) in enumerate(zip(copies, watch(weights), strict=True)):
                copy.look(step, found, _one_of(weights, place))
        elif watch is None and step == last:
            for place, copy in enumerate(copies):
                copy.keep(_one_of(weights, place))

    take_steps(model, own, training, weights.values(), losses, look, settings, epochs=epochs, progress=progress)
    own.eval()
    for copy in copies:
        copy.seconds = time.perf_counter() - begun


def stacked(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Stacks several sets of weights, [copies, …] each."""
    return {name: torch.stack([weights[name].detach() for weights in each]) for name in each[0]}


def _one_of(weights: Mapping[str, Tensor], place: int) -> dict[str, Tensor]:
    return {name: weight[place] for name, weight in weights.items()}
