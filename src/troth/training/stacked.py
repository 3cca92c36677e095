"""Many small trainings at once: seeds, or erased copies of the data, of one small model trained as a batched model.

Every copy sees the mini-batches, masks and initial weights it would see alone, so the results are those of one-by-one
training up to rounding (dropout apart: a model that has it draws its own in each copy). Float32, one device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models import Output, _changes
from troth.training import devices, recipes
from troth.training.loop import Loop, TrainingCopy, TrainingResult
from troth.training.recipes import Recipe
from troth.training.settings import Settings, build_optimizer
from troth.training.stacks import build, why_not

__all__ = ["StackedLoop", "TrainingCopy", "fit_stacked", "why_not"]


def fit_stacked(
    copies: Sequence[TrainingCopy],
    recipe: recipes.RecipeLike,
    settings: Settings,
    *,
    progress: bool = False,
    device: str | torch.device | None = None,
) -> list[TrainingResult]:
    """Trains all copies side by side; each one's model ends with the weights of its own best epoch."""
    method = recipes.build(recipe).prepare(copies[0].model, copies[0].training.encodings)
    _check(copies, method)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    for copy in copies:
        copy.model.model.to(where)
    # Eager attention: the fused kernels cannot be mapped over copies everywhere.
    with devices.reproducible(settings, where), _changes.eager(copies[0].model.model):
        return StackedLoop(copies, method, settings, where).run(progress=progress)


class StackedLoop(Loop):
    """The loop over copies side by side, whose weights are stacked."""

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
                "copies side by side can only have tokens replaced or deleted; use mask_token, pad or delete"
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
            # Not in place: the LSTM's two biases share one gradient.
            tensor.grad = gradient * factors.reshape(-1, *[1] * (gradient.dim() - 1))

    @torch.no_grad()
    def _keep_best(self, number: int) -> None:
        for name, tensor in self.stack.parameters.items():
            self.best[name][number] = tensor[number]

    def _load_best(self) -> None:
        self.stack.parameters = self.best
        self.stack.write_back([copy.model for copy in self.copies])


def _check(copies: Sequence[TrainingCopy], recipe: Recipe) -> None:
    if recipes.reads_attentions(recipe):
        raise TrothError(f"{recipes.spec(recipe)} reads attention weights, which copies side by side do not give")
    parts = {"training": [copy.training for copy in copies], "validation": [copy.validation for copy in copies]}
    parts |= {name: [copy.others[name] for copy in copies] for name in copies[0].others}
    for part, corpora in parts.items():
        sizes = {len(corpus) for corpus in corpora}
        if len(sizes) > 1:
            raise TrothError(f"copies side by side need as many {part} examples each, not {sorted(sizes)}")
