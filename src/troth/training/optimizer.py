"""The optimizer of a training: which parameters decay, which learn at the head's rate, and what each class weighs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from troth.training.settings import Settings, require_weights


def build(
    model: nn.Module, settings: Settings, chosen: Callable[[str, Tensor], Tensor] = lambda name, parameter: parameter
) -> torch.optim.Optimizer:
    """Adam or AdamW over groups by rate and decay; `chosen` may put another tensor in a parameter's place."""
    spared, head = _without_decay(model, settings.no_decay), head_names(model)
    found: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found.setdefault((name in head, name in spared), []).append(chosen(name, parameter))
    rates = {True: settings.head_learning_rate or settings.learning_rate, False: settings.learning_rate}
    groups: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": 0.0 if spare else settings.weight_decay, "full_rate": rates[in_head]}
        for (in_head, spare), parameters in sorted(found.items(), key=lambda item: item[0])
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    options = {"lr": settings.learning_rate, "betas": settings.betas, "eps": settings.epsilon}
    return kind(groups, amsgrad=settings.amsgrad, **options)  # type: ignore[arg-type]


def head_names(model: nn.Module) -> set[str]:
    """Parameters of the classification head: all that is not in the model's body."""
    prefix = getattr(model, "base_model_prefix", "")
    return {name for name, _ in model.named_parameters() if prefix and not name.startswith(f"{prefix}.")}


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Every group's learning rate: its full one times the schedule's factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_rate"] * factor


def class_weights(settings: Settings, labels: Tensor, classes: int) -> Tensor:
    """[classes] the factor of a row's loss; balanced: examples / (classes · examples of the class)."""
    if settings.class_weights is None:
        return torch.ones(classes)
    if settings.class_weights == "balanced":
        counts = torch.bincount(labels.cpu(), minlength=classes)
        present = int((counts > 0).sum())
        return torch.where(counts > 0, len(labels) / (present * counts.clamp(min=1)), 0.0).float()
    require_weights(settings, classes)
    return torch.tensor(settings.class_weights, dtype=torch.float32)


def _without_decay(model: nn.Module, words: tuple[str, ...]) -> set[str]:
    spared = set()
    for path, module in model.named_modules():
        is_norm = "norm" in type(module).__name__.lower()
        for name, _ in module.named_parameters(prefix=path, recurse=False):
            parts = name.split(".")
            kinds = {"norm": is_norm, "bias": parts[-1].startswith("bias")}
            if any(kinds.get(word, False) or word in parts for word in words):
                spared.add(name)
    return spared
