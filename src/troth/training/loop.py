"""The one training loop, for a single model and for several copies side by side (both in fit.py).

Every random number is keyed: masks by seed, epoch and example, the order by seed and epoch, dropout by seed and step.
So a training that is killed and resumed gives the same weights as an undisturbed one.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from rich import progress as bars
from torch import Tensor

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.progress import Bar, lines
from troth.core.types import Rows
from troth.engine.probes import at_least_single
from troth.models import Output
from troth.models.encoder import Encoder
from troth.training import quality
from troth.training.checkpoints import State
from troth.training.corpus import Corpus, batches, by_length, join
from troth.training.recipes import Recipe
from troth.training.settings import Settings, class_weights, rate_factor, set_rates

Scores = dict[str, dict[str, float]]  # metric and loss for each set of inputs


@dataclass(frozen=True, eq=False)
class TrainingCopy:
    """One training: a model, its data (perhaps erased) and a seed."""

    model: Encoder
    training: Corpus
    validation: Corpus
    seed: int
    others: Mapping[str, Corpus] = field(default_factory=dict)  # scored after the training


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training; the model has the weights of the best epoch."""

    history: list[dict[str, Any]]  # one entry per epoch
    best_epoch: int  # counted from 1
    scores: Mapping[str, Scores]  # of the chosen weights, on validation and on the copy's other corpora
    steps: int
    seconds: float
    device: str
    precision: str
    processes: int
    notes: tuple[str, ...] = ()  # messages about damaged checkpoints


class TrainingBar(Bar):
    """A progress bar with the loss and the last score; on standard error, so that standard output can be piped."""

    def __init__(self, steps: int, done: int, *, shown: bool) -> None:
        super().__init__(
            bars.TextColumn("epoch {task.fields[epoch]}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("loss {task.fields[loss]}  {task.fields[score]}"),
            bars.TimeRemainingColumn(),
            shown=shown,
        )
        self._task = self.add_task("", total=steps, completed=done, epoch="", loss="", score="")

    def step(self, epoch: int, epochs: int, loss: float) -> None:
        """Advances the bar by one step."""
        self.update(self._task, advance=1, epoch=f"{epoch}/{epochs}", loss=f"{loss:.4f}")

    def line(self) -> str:
        """The state of the bar in words, for a log in which no bar is visible; empty before the first step."""
        fields = self.tasks[0].fields
        if not fields["epoch"]:
            return ""
        score = f", {fields['score']}" if fields["score"] else ""
        steps = f"{self.tasks[0].completed:,.0f} of {self.tasks[0].total:,.0f} steps"
        return f"epoch {fields['epoch']}, {steps}, loss {fields['loss']}{score}"

    def end_epoch(self, metric: str, score: float, best_epoch: int) -> None:
        """Shows the score of the finished epoch."""
        self.update(self._task, score=f"{metric} {100 * score:.1f} % (best: epoch {best_epoch})")


class Loop(ABC):
    """Mini-batches, epochs, validation and the choice of the best epoch; all copies take each step together.

    Subclasses hold the weights and define the forward pass, the backward pass and how weights are saved.
    """

    model: Encoder  # the first copy's model
    optimizer: Any
    precision = "no"
    process, processes = 0, 1
    notes: Sequence[str] = ()

    def __init__(
        self, copies: Sequence[TrainingCopy], recipe: Recipe, settings: Settings, device: torch.device
    ) -> None:
        self.copies, self.recipe, self.settings, self.device = copies, recipe, settings, device
        self.model, self.classes = copies[0].model, len(copies[0].model.labels)
        self.training, self.starts = join([copy.training for copy in copies])
        weights = [class_weights(settings, copy.training.labels, self.classes) for copy in copies]
        self.weights = torch.stack(weights).to(device)  # [copies, classes]
        self.training.to(device)
        self.steps = math.ceil(len(copies[0].training) / settings.batch_size) * settings.epochs
        self.states = [State() for _ in copies]

    @abstractmethod
    def _forward(self, rows: Rows, *, training: bool) -> Output:
        """The logits for rows of all copies, one copy after the other."""

    @abstractmethod
    def _backward(self, index: Tensor, keys: Tensor) -> list[float]:
        """Accumulates the gradients of one mini-batch per copy; returns each copy's loss, summed over rows. [copies,
        rows]
        """

    @abstractmethod
    def _clip(self, largest: float) -> None:
        """Clips the norm of each copy's gradient."""

    @abstractmethod
    def _keep_best(self, number: int) -> None:
        """Stores the current weights of a copy as its best."""

    @abstractmethod
    def _load_best(self) -> None:
        """Loads the best weights into each copy's model."""

    def _save(self) -> None:  # noqa: B027  # only a single training has checkpoints
        """Writes a checkpoint."""

    def _summed(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        return tensor

    def run(self, *, progress: bool, checkpoint_seconds: float = math.inf) -> list[TrainingResult]:
        """Trains until the last epoch, or until no copy can improve; each model ends with the weights of its best
        epoch.
        """
        settings, first = self.settings, self.states[0]  # all copies are at the same step
        started, saved = time.monotonic() - first.seconds, time.monotonic()
        with TrainingBar(self.steps, first.step, shown=progress) as bar, lines(progress, bar.line):
            while first.epoch < settings.epochs and not all(
                quality.is_settled(settings, state.best_value) for state in self.states
            ):
                corpora = [(copy.training, copy.seed) for copy in self.copies]
                cuts = [batches(corpus.lengths, settings.batch_size, seed, first.epoch) for corpus, seed in corpora]
                keys = torch.stack([corpus.keys(seed, "training", first.epoch) for corpus, seed in corpora])
                for indices in zip(*(cut[first.batch :] for cut in cuts), strict=True):
                    index = torch.stack(indices)  # [copies, rows]
                    self._step(index, keys.gather(1, index))
                    first.seconds = time.monotonic() - started
                    loss = sum(state.loss for state in self.states) / (first.rows * len(self.states))
                    bar.step(first.epoch + 1, settings.epochs, loss)
                    # After the last batch of an epoch, evaluation and a checkpoint follow anyway.
                    if time.monotonic() - saved >= checkpoint_seconds and first.batch < len(cuts[0]):
                        self._save()
                        saved = time.monotonic()
                self._end_epoch()
                first.seconds = time.monotonic() - started
                self._save()
                saved = time.monotonic()
                bar.end_epoch(settings.metric, first.history[-1]["score"], first.best_epoch)
        self._load_best()
        return [
            TrainingResult(
                history=state.history,
                best_epoch=state.best_epoch,
                scores=scores,
                steps=state.step,
                seconds=first.seconds / len(self.copies),
                device=str(self.device),
                precision=self.precision,
                processes=self.processes,
                notes=tuple(self.notes),
            )
            for state, scores in zip(self.states, self._final_scores(), strict=True)
        ]

    def _step(self, index: Tensor, keys: Tensor) -> None:
        """Takes one step with one mini-batch per copy. [copies, rows]"""
        settings, step = self.settings, self.states[0].step
        torch.manual_seed(draws.key(self.copies[0].seed, "step", step, self.process))
        factor = rate_factor(settings, step, self.steps, len(self.copies[0].training))
        set_rates(self.optimizer, factor)
        losses = self._backward(index, keys)
        for number, loss in enumerate(losses):
            if not math.isfinite(loss):
                raise self._undefined(number, loss, index[number], settings.learning_rate * factor)
        if settings.clip is not None:
            self._clip(settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for state, loss in zip(self.states, losses, strict=True):
            state.step, state.batch = state.step + 1, state.batch + 1
            state.loss, state.rows = state.loss + loss, state.rows + index.shape[1]

    def _losses(self, index: Tensor, keys: Tensor, place: Tensor, size: int) -> Tensor:
        """[copies, rows] the loss of each row, including the recipe's penalty.

        `place` [rows] is the position of each row in its mini-batch of `size` rows.
        """
        rows = self._rows(self.recipe, (self.training, self.starts), index, keys, place, size)
        output = self._forward(rows, training=True)
        each = torch.nn.functional.cross_entropy(at_least_single(output.logits), rows.target, reduction="none")
        each = each.reshape(index.shape) * self.weights.gather(1, rows.target.reshape(index.shape))
        added = self.recipe.penalty(output, rows)
        return each if added is None else each + added.reshape(index.shape)

    def _rows(
        self, change: Recipe, joined: tuple[Corpus, Tensor], index: Tensor, keys: Tensor, place: Tensor, size: int
    ) -> Rows:
        """Gathers rows of the joined corpora, one copy after the other, as the recipe changes them. [copies, rows]"""
        corpus, starts = joined
        rows = corpus.rows((index + starts[:, None]).flatten(), keys.flatten(), self.model)
        return change.rows(rows, place.to(self.device).repeat(len(self.copies)), size, self.model)

    def _end_epoch(self) -> None:
        """Validates every copy and stores the weights of those that improved."""
        deciding = self.recipe.validation()
        sets = {**deciding, **self.recipe.final()}
        corpora = [copy.validation for copy in self.copies]
        logits = {name: self._logits(corpora, name, change) for name, change in sets.items()}
        for number, (corpus, state) in enumerate(zip(corpora, self.states, strict=True)):
            own = {name: of_copies[number] for name, of_copies in logits.items()}
            entry, value = quality.judge(self.settings, own, deciding, corpus.labels.cpu())
            state.epoch, state.batch = state.epoch + 1, 0
            state.history.append({"epoch": state.epoch, "loss": state.loss / state.rows, **entry})
            state.loss, state.rows = 0.0, 0
            if quality.is_better(self.settings, value, state.best_value, state.best_epoch):
                state.best_epoch, state.best_value = state.epoch, value
                self._keep_best(number)

    @torch.no_grad()
    def _logits(self, corpora: Sequence[Corpus], name: str, change: Recipe) -> Tensor:
        """The logits of each copy for its own examples, transformed the same way in every epoch.

        [copies, examples, classes]
        """
        joined = join(corpora)
        joined[0].to(self.device)
        seeds = [copy.seed for copy in self.copies]
        keys = torch.stack([part.keys(seed, "validation", name) for part, seed in zip(corpora, seeds, strict=True)])
        logits = torch.zeros(len(corpora), len(corpora[0]), self.classes, device=self.device)
        at_a_time = 4 * (self.settings.rows_per_pass or math.ceil(self.settings.batch_size / self.processes))
        cuts = [by_length(corpus.lengths, at_a_time) for corpus in corpora]
        for number, indices in enumerate(zip(*cuts, strict=True)):
            if number % self.processes == self.process:
                index = torch.stack(indices)
                size = index.shape[1]
                rows = self._rows(change, joined, index, keys.gather(1, index), torch.arange(size), size)
                answers = self._forward(rows, training=False).logits.float().reshape(*index.shape, -1)
                logits.scatter_(1, index.to(self.device)[..., None].expand_as(answers), answers)
        return self._summed(logits).cpu()

    def _final_scores(self) -> list[dict[str, Scores]]:
        """Scores each copy's chosen weights on every corpus and every set of inputs that the recipe reports."""
        scores: list[dict[str, Scores]] = [{} for _ in self.copies]
        for part in ("validation", *self.copies[0].others):
            corpora = [copy.validation if part == "validation" else copy.others[part] for copy in self.copies]
            logits = {name: self._logits(corpora, name, change) for name, change in self.recipe.final().items()}
            for number, corpus in enumerate(corpora):
                labels = corpus.labels.cpu()
                own = {name: quality.scores(self.settings, said[number], labels) for name, said in logits.items()}
                scores[number][part] = own
        return scores

    def _undefined(self, number: int, loss: float, index: Tensor, rate: float) -> TrothError:
        state, copy = self.states[number], self.copies[number]
        which = f" of copy {number} (seed {copy.seed})" if len(self.copies) > 1 else ""
        ids = [copy.training.encodings[position].example.id for position in index[:3].tolist()]
        return TrothError(
            f"the loss{which} became {loss} at step {state.step + 1} (epoch {state.epoch + 1}), in the mini-batch "
            f"of examples {', '.join(ids)}…; lower the learning rate (now {rate:.3g}), set clip=1.0 or precision=no"
        )
