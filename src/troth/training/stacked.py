"""Many small trainings at once: seeds, or erased copies of the data, of one small model trained as a batched model.

Every copy sees the mini-batches, masks and initial weights it would see alone, so the results are those of one-by-one
training up to rounding (dropout apart: a model that has it draws its own in each copy). Float32, one device.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core import draws
from troth.core.errors import TrothError
from troth.models import Output, _changes
from troth.models.encoder import Encoder
from troth.training import bases, devices, output, quality, recipes, reports
from troth.training import optimizer as optimizers
from troth.training import train as fit
from troth.training._stacks import Stack, build, why_not
from troth.training.corpus import Corpus, batches, by_length, join
from troth.training.examples import Source
from troth.training.loop import Fitted, Scores
from troth.training.progress import Progress
from troth.training.recipes import Recipe
from troth.training.settings import Settings, rate_factor
from troth.training.state import State
from troth.training.train import Trained

__all__ = ["Copy", "fit_stacked", "train_seeds", "why_not"]


@dataclass(frozen=True, eq=False)
class Copy:
    """One of the trainings: its own model, data (perhaps erased) and seed."""

    model: Encoder
    training: Corpus
    validation: Corpus
    seed: int
    others: Mapping[str, Corpus] = field(default_factory=dict)  # scored at the end


def train_seeds(
    recipe: recipes.RecipeLike,
    data: Source,
    base: str | bases.Base,
    out: str | os.PathLike[str],
    seeds: Sequence[int],
    *,
    workers: int = 1,
    progress: bool = False,
    device: str | torch.device | None = None,
    **options: Any,
) -> list[Trained]:
    """As `train` with each of the seeds, into out/seed-0, out/seed-1 and so on; those already there are not done again.

    Side by side where the model can be stacked, in `workers` processes that share the device where it cannot.
    """
    folders = [reports.own(Path(out) / f"seed-{seed}") for seed in seeds]
    plans = [fit.plan(recipe, data, base, **options, seed=seed) for seed in seeds]
    models = [planned.model() for planned in plans]
    if why_not(models[0]) is not None or recipes.reads_attentions(plans[0].recipe):
        each = zip(folders, seeds, strict=True)
        quiet = {**options, "progress": False}  # many share one terminal
        jobs = [partial(fit.train, recipe, data, base, folder, **quiet, seed=seed) for folder, seed in each]
        if workers <= 1:
            return [job() for job in jobs]
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            return [future.result() for future in [pool.submit(job) for job in jobs]]
    identities = [fit.identify(planned, model) for planned, model in zip(plans, models, strict=True)]
    notes: list[list[str]] = [[] for _ in seeds]
    known = [reports.finished(*training) for training in zip(folders, identities, notes, strict=True)]
    left = [number for number, report in enumerate(known) if report is None]
    for number in left:
        output.claim(folders[number], reports.NAME)
    labeled = plans[0].labeled
    training, validation = (fit.corpus_of(models[0], part) for part in (labeled.training, labeled.validation))
    others = {name: fit.corpus_of(models[0], part) for name, part in labeled.others.items()}
    copies = [Copy(models[number], training, validation, seeds[number], others) for number in left]
    done = fit_stacked(copies, plans[0].recipe, plans[0].settings, progress=progress, device=device) if left else []
    fitted = dict(zip(left, done, strict=True))
    return [
        Trained(folder, report)
        if report is not None
        else fit.write(folder, models[number], plans[number], identities[number], fitted[number], notes[number])
        for number, (folder, report) in enumerate(zip(folders, known, strict=True))
    ]


def fit_stacked(
    copies: Sequence[Copy],
    recipe: recipes.RecipeLike,
    settings: Settings,
    *,
    progress: bool = False,
    device: str | torch.device | None = None,
) -> list[Fitted]:
    """Trains all copies side by side; each one's model ends with the weights of its own best epoch."""
    method = recipes.build(recipe).prepare(copies[0].model, copies[0].training.encodings)
    _check(copies, method)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    for copy in copies:
        copy.model.model.to(where)
    # Eager attention: the fused kernels cannot be mapped over copies everywhere.
    with devices.reproducible(settings, where), _changes.eager(copies[0].model.model):
        return _Side(copies, method, settings, where).run(progress)


class _Side:
    """The loop over copies side by side."""

    def __init__(self, copies: Sequence[Copy], recipe: Recipe, settings: Settings, device: torch.device) -> None:
        self.copies, self.recipe, self.settings, self.device = copies, recipe, settings, device
        self.models = [copy.model for copy in copies]
        self.stack: Stack = build(self.models)
        self.training, self.starts = join([copy.training for copy in copies])
        self.training.to(device)
        stacked = self.stack.parameters
        self.optimizer = optimizers.build(self.models[0].model, settings, lambda name, _: stacked[name])
        classes = len(self.models[0].labels)
        weights = [optimizers.class_weights(settings, copy.training.labels, classes) for copy in copies]
        self.weights = torch.stack(weights).to(device)  # [copies, classes]
        self.states = [State() for _ in copies]
        self.best = {name: tensor.detach().clone() for name, tensor in self.stack.parameters.items()}
        self.step = 0

    def run(self, progress: bool) -> list[Fitted]:
        settings, examples = self.settings, len(self.copies[0].training)
        steps = math.ceil(examples / settings.batch_size) * settings.epochs
        started = time.monotonic()
        with Progress(steps, 0, shown=progress) as bar:
            for epoch in range(settings.epochs):
                cuts = [batches(copy.training.lengths, settings.batch_size, copy.seed, epoch) for copy in self.copies]
                keys = torch.stack([copy.training.keys(copy.seed, "training", epoch) for copy in self.copies])
                total = torch.zeros(len(self.copies))
                for indices in zip(*cuts, strict=True):
                    index = torch.stack(indices)  # [copies, rows]
                    losses = self._step(index, keys.gather(1, index), steps, examples)
                    total += losses
                    bar.step(epoch + 1, settings.epochs, float(losses.mean()) / index.shape[1])
                self._end_epoch(epoch + 1, total / examples)
                bar.end_epoch(settings.metric, self.states[0].history[-1]["score"], self.states[0].best_epoch)
                if all(quality.is_settled(settings, state.best_value) for state in self.states):
                    break
        self.stack.write_back(self.models, self.best)
        for model in self.models:
            model.model.eval()
        scores = self._final_scores()
        seconds = time.monotonic() - started
        return [
            Fitted(
                history=state.history,
                best_epoch=state.best_epoch,
                scores=final,
                steps=self.step,
                seconds=seconds / len(self.copies),
                device=str(self.device),
                precision="no",
                processes=1,
            )
            for state, final in zip(self.states, scores, strict=True)
        ]

    def _step(self, index: Tensor, keys: Tensor, steps: int, examples: int) -> Tensor:
        """One mini-batch of every copy; their losses summed over rows. [copies]"""
        settings = self.settings
        torch.manual_seed(draws.key(self.copies[0].seed, "step", self.step, 0))
        optimizers.set_rates(self.optimizer, rate_factor(settings, self.step, steps, examples))
        rows = self.training.rows((index + self.starts[:, None]).flatten(), keys.flatten(), self.models[0])
        size = index.shape[1]
        place = torch.arange(size, device=self.device).repeat(len(self.copies))
        rows = self._changed(rows, self.recipe, place, size)
        logits = self.stack.logits(rows, training=True)
        each = torch.nn.functional.cross_entropy(logits, rows.target, reduction="none").reshape(index.shape)
        each = each * self.weights.gather(1, rows.target.reshape(index.shape))
        added = self.recipe.penalty(Output(logits), rows)
        if added is not None:
            each = each + added.reshape(index.shape)
        losses = each.sum(1)
        torch.autograd.backward((losses / size).sum())
        found = losses.detach().cpu()
        if not bool(torch.isfinite(found).all()):
            number = int((~torch.isfinite(found)).nonzero()[0])
            raise TrothError(
                f"the loss of copy {number} (seed {self.copies[number].seed}) became {float(found[number])} at step "
                f"{self.step + 1}; lower the learning rate or set clip=1.0"
            )
        if settings.clip is not None:
            self._clip(settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return found

    def _changed(self, rows: Any, change: Recipe, place: Tensor, size: int) -> Any:
        changed = change.rows(rows, place, size, self.models[0])
        if changed.embeddings is not None or changed.attention is not None:
            raise TrothError(
                "copies side by side can only have tokens replaced or deleted; use mask_token, pad or delete"
            )
        return changed

    def _clip(self, largest: float) -> None:
        """Each copy's gradient by its own norm."""
        learning = [tensor for tensor in self.stack.parameters.values() if tensor.grad is not None]
        gradients = [tensor.grad for tensor in learning if tensor.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)  # [copies]
        factors = (largest / (norms + 1e-6)).clamp(max=1)
        for tensor, gradient in zip(learning, gradients, strict=True):
            # Not in place: the LSTM's two biases share one gradient.
            tensor.grad = gradient * factors.reshape(-1, *[1] * (gradient.dim() - 1))

    def _end_epoch(self, epoch: int, losses: Tensor) -> None:
        settings = self.settings
        checked = [copy.validation for copy in self.copies]
        deciding = self.recipe.validation()
        sets = {**deciding, **self.recipe.final()}
        found = {name: self._logits(checked, name, change) for name, change in sets.items()}
        for number, (copy, state) in enumerate(zip(self.copies, self.states, strict=True)):
            labels = copy.validation.labels.cpu()
            own = {name: logits[number] for name, logits in found.items()}
            entry, value = quality.judge(settings, own, deciding, labels)
            state.history.append({"epoch": epoch, "loss": float(losses[number]), **entry})
            if quality.is_better(settings, value, state.best_value, state.best_epoch):
                state.best_epoch, state.best_value = epoch, value
                with torch.no_grad():
                    for name, tensor in self.stack.parameters.items():
                        self.best[name][number] = tensor[number]

    @torch.no_grad()
    def _logits(self, corpora: Sequence[Corpus], name: str, change: Recipe) -> Tensor:
        """What each copy says of its own examples. [copies, examples, classes]"""
        joined, starts = join(corpora)
        joined.to(self.device)
        seeds = [copy.seed for copy in self.copies]
        keys = torch.stack([part.keys(seed, "validation", name) for part, seed in zip(corpora, seeds, strict=True)])
        logits = torch.zeros(len(corpora), len(corpora[0]), len(self.models[0].labels), device=self.device)
        cuts = [by_length(corpus.lengths, 4 * self.settings.batch_size) for corpus in corpora]
        for indices in zip(*cuts, strict=True):
            index = torch.stack(indices)
            rows = joined.rows((index + starts[:, None]).flatten(), keys.gather(1, index).flatten(), self.models[0])
            place = torch.arange(index.shape[1], device=self.device).repeat(len(self.copies))
            rows = self._changed(rows, change, place, index.shape[1])
            said = self.stack.logits(rows, training=False).reshape(*index.shape, -1)
            wide = index.to(self.device)[..., None].expand_as(said)
            logits.scatter_(1, wide, said.float())
        return logits.cpu()

    def _final_scores(self) -> list[dict[str, Scores]]:
        """Of every copy's chosen weights, by split and set of inputs."""
        self.stack.parameters = self.best
        found: list[dict[str, Scores]] = [{} for _ in self.copies]
        for part in ("validation", *self.copies[0].others):
            corpora = [copy.validation if part == "validation" else copy.others[part] for copy in self.copies]
            logits = {name: self._logits(corpora, name, change) for name, change in self.recipe.final().items()}
            for number, corpus in enumerate(corpora):
                labels = corpus.labels.cpu()
                own = {name: quality.scores(self.settings, said[number], labels) for name, said in logits.items()}
                found[number][part] = own
        return found


def _check(copies: Sequence[Copy], recipe: Recipe) -> None:
    if recipes.reads_attentions(recipe):
        raise TrothError(f"{recipes.spec(recipe)} reads attention weights, which copies side by side do not give")
    parts = {"training": [copy.training for copy in copies], "validation": [copy.validation for copy in copies]}
    parts |= {name: [copy.others[name] for copy in copies] for name in copies[0].others}
    for part, corpora in parts.items():
        sizes = {len(corpus) for corpus in corpora}
        if len(sizes) > 1:
            raise TrothError(f"copies side by side need as many {part} examples each, not {sorted(sizes)}")
