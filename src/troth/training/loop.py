"""The one training loop, on Accelerate: as many devices and whatever precision the user launches it with.

Every random number is keyed: by seed, epoch and example (masks), by seed and epoch (order), by seed and step (dropout).
So a training that is killed and resumed ends where an undisturbed one does.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.engine.probes import at_least_single
from troth.models import Output, _changes
from troth.models.encoder import Encoder
from troth.training import devices, quality, recipes
from troth.training import optimizer as optimizers
from troth.training.checkpoints import Checkpoints, DamagedError, read_weights
from troth.training.corpus import Corpus, batches, by_length
from troth.training.progress import Progress
from troth.training.recipes import Recipe
from troth.training.settings import Settings, rate_factor
from troth.training.state import State, difference

Scores = dict[str, dict[str, float]]  # of each set of inputs: metric and loss


@dataclass(frozen=True)
class Fitted:
    """What a training came to; the model holds the weights of the best epoch."""

    history: list[dict[str, Any]]  # an epoch each
    best_epoch: int  # from 1
    scores: Mapping[str, Scores]  # of the chosen weights: validation, and whatever else was asked for
    steps: int
    seconds: float
    device: str
    precision: str
    processes: int
    notes: tuple[str, ...] = ()  # of damaged checkpoints


def fit(
    model: Encoder,
    recipe: recipes.RecipeLike,
    training: Corpus,
    validation: Corpus,
    settings: Settings,
    *,
    others: Mapping[str, Corpus] | None = None,
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    resume: bool = True,
    checkpoint_seconds: float = 300.0,
    progress: bool = False,
    cpu: bool = False,
) -> Fitted:
    """Trains a model on encodings; with a folder, checkpoints go there and a killed training resumes from them."""
    method = recipes.build(recipe).prepare(model, training.encodings)
    accelerator = devices.accelerator(settings, cpu)
    checkpoints = Checkpoints(folder) if folder is not None else None
    # The same attention implementation for every recipe: another one would draw other dropout, so a recipe that reads
    # attention weights, which only the eager implementation gives, could not be compared with one that does not.
    eager = _changes.eager(model.model)
    with devices.reproducible(settings, accelerator.device), devices.own_forward(model.model), eager:
        loop = _Loop(model, method, training, validation, settings, accelerator, checkpoints, dict(identity or {}))
        try:
            loop.begin(resume=resume)
            loop.run(checkpoint_seconds, progress)
            scores = {"validation": loop.final_scores(validation)}
            scores |= {name: loop.final_scores(corpus) for name, corpus in (others or {}).items()}
        finally:
            model.model.eval()
    return Fitted(
        history=loop.state.history,
        best_epoch=loop.state.best_epoch,
        scores=scores,
        steps=loop.state.step,
        seconds=loop.state.seconds,
        device=str(accelerator.device),
        precision=str(accelerator.mixed_precision),
        processes=accelerator.num_processes,
        notes=tuple(checkpoints.notes) if checkpoints is not None else (),
    )


class _Loop:
    def __init__(
        self,
        model: Encoder,
        recipe: Recipe,
        training: Corpus,
        validation: Corpus,
        settings: Settings,
        accelerator: Any,
        checkpoints: Checkpoints | None,
        identity: dict[str, Any],
    ) -> None:
        self.model, self.recipe, self.settings = model, recipe, settings
        self.accelerator, self.checkpoints, self.identity = accelerator, checkpoints, identity
        model.model.to(accelerator.device)
        self.network = accelerator.prepare(model.model)
        self.optimizer = accelerator.prepare(optimizers.build(model.model, settings))
        self.training, self.validation = training.to(accelerator.device), validation.to(accelerator.device)
        self.steps = math.ceil(len(training) / settings.batch_size) * settings.epochs
        self.weights = optimizers.class_weights(settings, training.labels, len(model.labels)).to(accelerator.device)
        self.attentions = recipes.reads_attentions(recipe)
        self.state = State()
        self.best: dict[str, Tensor] = {}  # where there is no folder to keep them in

    def run(self, checkpoint_seconds: float, progress: bool) -> None:
        """Epoch after epoch; ends with the best epoch's weights in the model."""
        state, settings = self.state, self.settings
        started, saved = time.monotonic() - state.seconds, time.monotonic()
        with Progress(self.steps, state.step, shown=progress and self.accelerator.is_main_process) as bar:
            while state.epoch < settings.epochs:
                cut = batches(self.training.lengths, settings.batch_size, settings.seed, state.epoch)
                keys = self.training.keys(settings.seed, "training", state.epoch)
                for index in cut[state.batch :]:
                    self._step(index, keys)
                    state.seconds = time.monotonic() - started
                    bar.step(state.epoch + 1, settings.epochs, state.loss / state.rows)
                    # After the last batch comes the evaluation, and then a checkpoint anyway.
                    if time.monotonic() - saved >= checkpoint_seconds and state.batch < len(cut):
                        self._save()
                        saved = time.monotonic()
                self._end_epoch()
                state.seconds = time.monotonic() - started
                self._save()
                saved = time.monotonic()
                bar.end_epoch(settings.metric, state.history[-1]["score"], state.best_epoch)
        self._load_best()

    def final_scores(self, corpus: Corpus) -> Scores:
        """The chosen weights on each set of inputs the recipe reports."""
        corpus.to(self.accelerator.device)
        found = {name: self._logits(corpus, name, change) for name, change in self.recipe.final().items()}
        return {name: quality.scores(self.settings, logits, corpus.labels.cpu()) for name, logits in found.items()}

    def _step(self, index: Tensor, keys: Tensor) -> None:
        """One mini-batch, this process's share of it in as many passes as its memory asks for."""
        state, settings, accelerator = self.state, self.settings, self.accelerator
        torch.manual_seed(draws.key(settings.seed, "step", state.step, accelerator.process_index))
        factor = rate_factor(settings, state.step, self.steps, len(self.training))
        optimizers.set_rates(self.optimizer, factor)
        share = torch.tensor_split(torch.arange(len(index)), accelerator.num_processes)[accelerator.process_index]
        idle = len(share) == 0  # it must take part in the exchange of gradients all the same
        share = torch.zeros(1, dtype=torch.int64) if idle else share
        total = torch.zeros((), device=accelerator.device)
        self.network.train()
        passes = torch.split(share, settings.rows_per_pass or len(share))
        for number, place in enumerate(passes):
            more_to_come = number + 1 < len(passes)
            with accelerator.no_sync(self.network) if more_to_come else nullcontext(), self._enough_memory(place):
                each = self._losses(index[place], keys, place, len(index))
                loss = each.sum() * (0.0 if idle else 1.0)
                # Gradients are averaged over processes, whatever the number of rows each has.
                accelerator.backward(loss * (accelerator.num_processes / len(index)))
            total += loss.detach()
        summed = float(accelerator.reduce(total, "sum"))
        if not math.isfinite(summed):
            raise self._undefined(summed, index, settings.learning_rate * factor)
        if settings.clip is not None:
            accelerator.clip_grad_norm_(self.network.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        state.step, state.batch = state.step + 1, state.batch + 1
        state.loss, state.rows = state.loss + summed, state.rows + len(index)

    def _losses(self, index: Tensor, keys: Tensor, place: Tensor, size: int) -> Tensor:
        """[rows] the loss of each row, what the recipe adds included."""
        rows = self.training.rows(index, keys[index], self.model)
        rows = self.recipe.rows(rows, place.to(self.accelerator.device), size, self.model)
        output = self.network(**self.model.inputs(rows, attentions=self.attentions))
        each = torch.nn.functional.cross_entropy(at_least_single(output.logits), rows.target, reduction="none")
        each = each * self.weights[rows.target]
        attentions = tuple(output.attentions or ()) if self.attentions else ()
        added = self.recipe.penalty(Output(output.logits, attentions), rows)
        return each if added is None else each + added

    def _end_epoch(self) -> None:
        state, settings = self.state, self.settings
        labels = self.validation.labels.cpu()
        deciding = self.recipe.validation()
        sets = {**deciding, **self.recipe.final()}
        found = {name: self._logits(self.validation, name, change) for name, change in sets.items()}
        entry, value = quality.judge(settings, found, deciding, labels)
        state.epoch, state.batch = state.epoch + 1, 0
        state.history.append({"epoch": state.epoch, "loss": state.loss / state.rows, **entry})
        state.loss, state.rows = 0.0, 0
        if quality.is_better(settings, value, state.best_value, state.best_epoch):
            state.best_epoch, state.best_value = state.epoch, value
            self._keep_best()

    @torch.no_grad()
    def _logits(self, corpus: Corpus, name: str, change: Recipe) -> Tensor:
        """What the model says of examples that a recipe changes, in the same way every epoch. [examples, classes]"""
        accelerator, settings = self.accelerator, self.settings
        keys = corpus.keys(settings.seed, "validation", name)
        logits = torch.zeros(len(corpus), len(self.model.labels), device=accelerator.device)
        self.network.eval()
        at_a_time = 4 * (settings.rows_per_pass or math.ceil(settings.batch_size / accelerator.num_processes))
        for number, index in enumerate(by_length(corpus.lengths, at_a_time)):
            if number % accelerator.num_processes == accelerator.process_index:
                rows = corpus.rows(index, keys[index], self.model)
                rows = change.rows(rows, torch.arange(len(index), device=accelerator.device), len(index), self.model)
                output = self.network(**self.model.inputs(rows))
                logits[index.to(accelerator.device)] = output.logits.float()
        return torch.as_tensor(accelerator.reduce(logits, "sum")).cpu()

    def _save(self) -> None:
        if self.checkpoints is None or not self.accelerator.is_main_process:
            return
        kept = {"identity": self.identity, "state": dataclasses.asdict(self.state)}
        if self.accelerator.scaler is not None:
            kept["scaler"] = self.accelerator.scaler.state_dict()
        self.checkpoints.save(self.state.step, self.model.model, self.optimizer.optimizer, kept)
        self.checkpoints.forget_other_best(self.state.best_epoch)

    def begin(self, *, resume: bool) -> None:
        """From the last checkpoint, if there is one, else from the start."""
        if self.checkpoints is not None and not resume and self.accelerator.is_main_process:
            self.checkpoints.clear()
        self.accelerator.wait_for_everyone()
        latest = self.checkpoints.latest() if self.checkpoints is not None else None
        if self.checkpoints is None or latest is None:
            return
        try:
            self._resume(self.checkpoints, latest)
        except DamagedError as error:
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                self.checkpoints.set_aside(latest, str(error))

    def _resume(self, checkpoints: Checkpoints, latest: Path) -> None:
        kept = checkpoints.state(latest)
        if differs := difference(kept["identity"], self.identity):
            raise TrothError(
                f"{latest} is from another run: {differs}; choose another --out, or pass --restart to start over"
            )
        state = State.of(kept["state"])
        if state.best_epoch:
            read_weights(self.model.model, checkpoints.best_file(state.best_epoch))
        checkpoints.load(latest, self.model.model, self.optimizer.optimizer)
        self.state = state
        if self.accelerator.scaler is not None and "scaler" in kept:
            self.accelerator.scaler.load_state_dict(kept["scaler"])

    def _keep_best(self) -> None:
        if self.checkpoints is None:
            self.best = {name: value.detach().cpu().clone() for name, value in self.model.model.state_dict().items()}
        elif self.accelerator.is_main_process:
            self.checkpoints.save_best(self.state.best_epoch, self.model.model)

    def _load_best(self) -> None:
        self.accelerator.wait_for_everyone()
        if self.checkpoints is not None:
            self.checkpoints.load_best(self.state.best_epoch, self.model.model)
        else:
            self.model.model.load_state_dict(self.best)

    def _undefined(self, value: float, index: Tensor, rate: float) -> TrothError:
        ids = [self.training.encodings[position].example.id for position in index[:3].tolist()]
        return TrothError(
            f"the loss became {value} at step {self.state.step + 1} (epoch {self.state.epoch + 1}), in the mini-batch "
            f"of examples {', '.join(ids)}…; lower the learning rate (now {rate:.3g}), set clip=1.0 or precision=no"
        )

    @contextmanager
    def _enough_memory(self, place: Tensor) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            raise TrothError(
                f"{len(place)} rows do not fit into memory at once; pass --rows-per-pass {max(1, len(place) // 2)}, "
                "which trains the same mini-batches in more passes, or a smaller --max-length"
            ) from None
