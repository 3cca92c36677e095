"""Training one model, on Accelerate: as many devices and whatever precision the user launches it with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.types import Rows
from troth.models import Output, _changes
from troth.models.encoder import Encoder
from troth.training import devices, recipes
from troth.training.checkpoints import Checkpoints, DamagedCheckpointError, State, difference, read_weights
from troth.training.corpus import Corpus
from troth.training.loop import Loop, TrainingCopy, TrainingResult
from troth.training.recipes import Recipe
from troth.training.settings import Settings, build_optimizer


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
) -> TrainingResult:
    """Trains a model on encodings; with a folder, checkpoints go there and a killed training resumes from them."""
    method = recipes.build(recipe).prepare(model, training.encodings)
    accelerator = devices.accelerator(settings, cpu)
    checkpoints = Checkpoints(folder) if folder is not None else None
    copy = TrainingCopy(model, training, validation, settings.seed, others or {})
    # The same attention implementation for every recipe: another one would draw other dropout, so a recipe that reads
    # attention weights, which only the eager implementation gives, could not be compared with one that does not.
    eager = _changes.eager(model.model)
    with devices.reproducible(settings, accelerator.device), devices.own_forward(model.model), eager:
        loop = SingleLoop(copy, method, settings, accelerator, checkpoints, dict(identity or {}))
        try:
            loop.begin(resume=resume)
            shown = progress and accelerator.is_main_process
            return loop.run(progress=shown, checkpoint_seconds=checkpoint_seconds)[0]
        finally:
            model.model.eval()


class SingleLoop(Loop):
    """The loop over one model, which several processes may share, with checkpoints."""

    def __init__(
        self,
        copy: TrainingCopy,
        recipe: Recipe,
        settings: Settings,
        accelerator: Any,
        checkpoints: Checkpoints | None,
        identity: dict[str, Any],
    ) -> None:
        self.accelerator, self.checkpoints, self.identity = accelerator, checkpoints, identity
        self.network = accelerator.prepare(copy.model.model.to(accelerator.device))
        self.optimizer = accelerator.prepare(build_optimizer(copy.model.model, settings))
        self.precision = str(accelerator.mixed_precision)
        self.process, self.processes = accelerator.process_index, accelerator.num_processes
        self.notes = () if checkpoints is None else checkpoints.notes
        self.attentions = recipes.reads_attentions(recipe)
        self.best: dict[str, Tensor] = {}  # where there is no folder to keep them in
        super().__init__([copy], recipe, settings, accelerator.device)

    def begin(self, *, resume: bool) -> None:
        """From the last checkpoint, if there is one, else from the start."""
        checkpoints, accelerator = self.checkpoints, self.accelerator
        if checkpoints is not None and not resume and accelerator.is_main_process:
            checkpoints.clear()
        accelerator.wait_for_everyone()
        latest = checkpoints.latest() if checkpoints is not None else None
        if checkpoints is None or latest is None:
            return
        try:
            kept = checkpoints.state(latest)
            if differs := difference(kept["identity"], self.identity):
                raise TrothError(
                    f"{latest} is from another run: {differs}; choose another --out, or pass --restart to start over"
                )
            state = State.of(kept["state"])
            if state.best_epoch:
                read_weights(self.model.model, checkpoints.best_file(state.best_epoch))
            checkpoints.load(latest, self.model.model, self.optimizer.optimizer)
            self.states = [state]
            if accelerator.scaler is not None and "scaler" in kept:
                accelerator.scaler.load_state_dict(kept["scaler"])
        except DamagedCheckpointError as error:
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                checkpoints.set_aside(latest, str(error))

    def _forward(self, rows: Rows, *, training: bool) -> Output:
        self.network.train(training)
        reads_attentions = training and self.attentions
        output = self.network(**self.model.inputs(rows, attentions=reads_attentions))
        return Output(output.logits, tuple(output.attentions or ()) if reads_attentions else ())

    def _backward(self, index: Tensor, keys: Tensor) -> list[float]:
        """This process's share of the mini-batch, in as many passes as its memory asks for."""
        accelerator, size = self.accelerator, index.shape[1]
        share = torch.tensor_split(torch.arange(size), self.processes)[self.process]
        idle = len(share) == 0  # it must take part in the exchange of gradients all the same
        share = torch.zeros(1, dtype=torch.int64) if idle else share
        total = torch.zeros((), device=self.device)
        passes = torch.split(share, self.settings.rows_per_pass or len(share))
        for number, place in enumerate(passes):
            more_to_come = number + 1 < len(passes)
            with accelerator.no_sync(self.network) if more_to_come else nullcontext(), _enough_memory(len(place)):
                loss = self._losses(index[:, place], keys[:, place], place, size).sum() * (0.0 if idle else 1.0)
                # Gradients are averaged over processes, whatever the number of rows each has.
                accelerator.backward(loss * (self.processes / size))
            total += loss.detach()
        return [float(self._summed(total))]

    def _clip(self, largest: float) -> None:
        self.accelerator.clip_grad_norm_(self.network.parameters(), largest)

    def _summed(self, tensor: Tensor) -> Tensor:
        return torch.as_tensor(self.accelerator.reduce(tensor, "sum"))

    def _save(self) -> None:
        if self.checkpoints is None or not self.accelerator.is_main_process:
            return
        (state,) = self.states
        kept = {"identity": self.identity, "state": dataclasses.asdict(state)}
        if self.accelerator.scaler is not None:
            kept["scaler"] = self.accelerator.scaler.state_dict()
        self.checkpoints.save(state.step, self.model.model, self.optimizer.optimizer, kept)
        self.checkpoints.forget_other_best(state.best_epoch)

    def _keep_best(self, number: int) -> None:
        if self.checkpoints is None:
            self.best = {name: value.detach().cpu().clone() for name, value in self.model.model.state_dict().items()}
        elif self.accelerator.is_main_process:
            self.checkpoints.save_best(self.states[number].best_epoch, self.model.model)

    def _load_best(self) -> None:
        self.accelerator.wait_for_everyone()
        if self.checkpoints is not None:
            self.checkpoints.load_best(self.states[0].best_epoch, self.model.model)
        else:
            self.model.model.load_state_dict(self.best)


@contextmanager
def _enough_memory(rows: int) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise TrothError(
            f"{rows} rows do not fit into memory at once; pass --rows-per-pass {max(1, rows // 2)}, "
            "which trains the same mini-batches in more passes, or a smaller --max-length"
        ) from None
