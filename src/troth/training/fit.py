"""Runs the training loop: `fit` trains one model, `fit_stacked` many small models side by side.

`fit` runs on Accelerate, on as many devices and in the precision with which the user launches it. `fit_stacked` trains
several seeds, or several erased copies of the data, of one small model as a single batched model, in float32 on one
device. Every copy sees the same mini-batches, masks and initial weights as if it were trained alone, so the results
agree up to rounding, except for dropout, which is drawn for each copy.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.types import Rows
from troth.models import Output, _changes
from troth.models.encoder import Encoder
from troth.training import recipes
from troth.training.checkpoints import Checkpoints, DamagedCheckpointError, State, difference, read_weights
from troth.training.corpus import Corpus
from troth.training.loop import Loop, TrainingCopy, TrainingResult
from troth.training.recipes import Recipe
from troth.training.settings import Settings, build_optimizer
from troth.training.stacks import build


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
    """Trains a model on encodings; with a folder, saves checkpoints there, from which a killed training resumes."""
    method = recipes.build(recipe).prepare(model, training.encodings)
    accelerator = accelerator_for(settings, cpu)
    checkpoints = Checkpoints(folder) if folder is not None else None
    copy = TrainingCopy(model, training, validation, settings.seed, others or {})
    # All recipes use the same attention implementation. Only the eager one returns attention weights, and another
    # implementation would draw other dropout masks, so recipes could not be compared.
    eager = _changes.eager(model.model)
    with reproducible(settings, accelerator.device), own_forward(model.model), eager:
        loop = SingleLoop(copy, method, settings, accelerator, checkpoints, dict(identity or {}))
        try:
            loop.begin(resume=resume)
            shown = progress and accelerator.is_main_process
            return loop.run(progress=shown, checkpoint_seconds=checkpoint_seconds)[0]
        finally:
            model.model.eval()


class SingleLoop(Loop):
    """The training loop for one model, which may be distributed over processes, with checkpoints."""

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
        self.best: dict[str, Tensor] = {}  # the best weights, if there is no folder to save them in
        super().__init__([copy], recipe, settings, accelerator.device)

    def begin(self, *, resume: bool) -> None:
        """Starts from the last checkpoint if there is one, else from the beginning."""
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
                    f"{latest} was written by a different run: {differs}; choose another --out, or pass "
                    "--restart to start over"
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
        """The backward pass over this process's share of the mini-batch, in as many parts as memory requires."""
        accelerator, size = self.accelerator, index.shape[1]
        share = torch.tensor_split(torch.arange(size), self.processes)[self.process]
        idle = len(share) == 0  # a process without rows must still take part in the exchange of gradients
        share = torch.zeros(1, dtype=torch.int64) if idle else share
        total = torch.zeros((), device=self.device)
        passes = torch.split(share, self.settings.rows_per_pass or len(share))
        for number, place in enumerate(passes):
            more_to_come = number + 1 < len(passes)
            with accelerator.no_sync(self.network) if more_to_come else nullcontext(), _enough_memory(len(place)):
                loss = self._losses(index[:, place], keys[:, place], place, size).sum() * (0.0 if idle else 1.0)
                # Gradients are averaged over processes, whatever number of rows each process has.
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


def fit_stacked(
    copies: Sequence[TrainingCopy],
    recipe: recipes.RecipeLike,
    settings: Settings,
    *,
    progress: bool = False,
    device: str | torch.device | None = None,
) -> list[TrainingResult]:
    """Trains all copies side by side; each model ends with the weights of its own best epoch."""
    method = recipes.build(recipe).prepare(copies[0].model, copies[0].training.encodings)
    if recipes.reads_attentions(method):
        raise TrothError(
            f"{recipes.spec(method)} reads attention weights, which models that are trained side by side do not return"
        )
    parts = {"training": [copy.training for copy in copies], "validation": [copy.validation for copy in copies]}
    parts |= {name: [copy.others[name] for copy in copies] for name in copies[0].others}
    for part, corpora in parts.items():
        sizes = {len(corpus) for corpus in corpora}
        if len(sizes) > 1:
            raise TrothError(
                f"models that are trained side by side need the same number of {part} examples, not {sorted(sizes)}"
            )
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    for copy in copies:
        copy.model.model.to(where)
    # Eager attention, because fused kernels do not support vmap everywhere.
    with reproducible(settings, where), _changes.eager(copies[0].model.model):
        return StackedLoop(copies, method, settings, where).run(progress=progress)


class StackedLoop(Loop):
    """The training loop for copies side by side, with stacked weights."""

    def __init__(
        self, copies: Sequence[TrainingCopy], recipe: Recipe, settings: Settings, device: torch.device
    ) -> None:
        super().__init__(copies, recipe, settings, device)
        self.stack = build([copy.model for copy in copies])
        stacked = self.stack.parameters
        self.optimizer = build_optimizer(self.model.model, settings, lambda name, _: stacked[name])
        self.best = {name: tensor.detach().clone() for name, tensor in stacked.items()}

    def _forward(self, rows: Rows, *, training: bool) -> Output:
        if rows.embeddings is not None or rows.attention is not None:
            raise TrothError(
                "models that are trained side by side can only replace or delete tokens; use mask_token, pad or delete"
            )
        return Output(self.stack.logits(rows, training=training))

    def _backward(self, index: Tensor, keys: Tensor) -> list[float]:
        size = index.shape[1]
        losses = self._losses(index, keys, torch.arange(size), size).sum(1)
        torch.autograd.backward((losses / size).sum())
        of_copies: list[float] = losses.detach().tolist()
        return of_copies

    def _clip(self, largest: float) -> None:
        learning = [tensor for tensor in self.stack.parameters.values() if tensor.grad is not None]
        gradients = [tensor.grad for tensor in learning if tensor.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)  # [copies]
        factors = (largest / (norms + 1e-6)).clamp(max=1)
        for tensor, gradient in zip(learning, gradients, strict=True):
            # Not in place, because the two biases of an LSTM share one gradient.
            tensor.grad = gradient * factors.reshape(-1, *[1] * (gradient.dim() - 1))

    @torch.no_grad()
    def _keep_best(self, number: int) -> None:
        for name, tensor in self.stack.parameters.items():
            self.best[name][number] = tensor[number]

    def _load_best(self) -> None:
        self.stack.parameters = self.best
        self.stack.write_back([copy.model for copy in self.copies])


def accelerator_for(settings: Settings, cpu: bool) -> Any:
    """The Accelerator for the devices and the precision that the user launched with or asked for."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    precision: str | None = settings.precision
    if precision == "auto" and "ACCELERATE_MIXED_PRECISION" in os.environ:
        precision = None  # the precision it was launched with
    elif precision == "auto":
        on_gpu = torch.cuda.is_available() and not cpu
        precision = ("bf16" if torch.cuda.is_bf16_supported() else "fp16") if on_gpu else "no"
    earlier = AcceleratorState._shared_state
    before = earlier.get("_mixed_precision"), earlier.get("_cpu")
    if earlier and earlier["num_processes"] == 1 and before != (precision or before[0], cpu):
        # An earlier training in this process used another precision, and Accelerate keeps that state.
        AcceleratorState._reset_state()
        PartialState._reset_state()
    found = Accelerator(mixed_precision=precision, cpu=cpu)
    if found.distributed_type not in (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU):
        raise TrothError(
            f"troth trains a copy of the model on each device, not with {found.distributed_type.value}; "
            "launch it with accelerate launch --multi_gpu"
        )
    return found


@contextmanager
def reproducible(settings: Settings, device: torch.device) -> Iterator[None]:
    """Uses deterministic kernels on a GPU; restores the user's random state and settings afterwards."""
    exact = settings.deterministic and device.type == "cuda"
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory
    # With warnings only, fused attention kernels would add in any order, and long texts would give other weights.
    attention = sdpa_kernel(SDPBackend.MATH) if exact else nullcontext()
    with draws.seeded(settings.seed), attention:
        try:
            if exact:
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
                torch.use_deterministic_algorithms(True, warn_only=True)
                # Filling memory only helps debugging and takes a third of the time.
                switches.fill_uninitialized_memory = False
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            switches.fill_uninitialized_memory = filled


@contextmanager
def own_forward(model: Any) -> Iterator[None]:
    """Removes the mixed-precision wrapper that Accelerate puts around a model's forward pass."""
    names = ("forward", "_original_forward")
    before = {name: model.__dict__[name] for name in names if name in model.__dict__}
    try:
        yield
    finally:
        for name in names:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)
