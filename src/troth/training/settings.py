"""Everything that decides how a model is trained besides data, base and recipe: the settings, and what is made of them.

The optimizer (which parameters decay, which learn at the head's rate), the learning rates, and what each class weighs.
"""

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from troth.core.errors import TrothError, unknown

MOST_EPOCHS = 1_000_000  # more is a slip of the keyboard
Metric = Literal["accuracy", "macro_f1", "micro_f1", "matthews", "auroc"]


@dataclass(frozen=True)
class Settings:
    """The defaults fine-tune a pretrained encoder (Liu et al., 2019: RoBERTa on GLUE)."""

    epochs: int = 3
    batch_size: int = 16  # rows of a mini-batch, over all devices
    rows_per_pass: int | None = None  # at most so many at a time on a device; None = all
    optimizer: Literal["adamw", "adam"] = "adamw"
    learning_rate: float = 2e-5
    head_learning_rate: float | None = None  # of the classification head; None = the same
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    amsgrad: bool = False
    weight_decay: float = 0.01
    no_decay: tuple[str, ...] = ("bias", "norm")  # biases, layer norms; any other word is a part of a parameter's path
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = 0.06  # share of all steps
    # examples: a step of the plan each, as FMM's released code
    schedule_over: Literal["batches", "examples"] = "batches"
    clip: float | None = None  # largest norm of the gradient
    class_weights: Literal["balanced"] | tuple[float, ...] | None = None  # factor of a row's loss, by its class
    metric: Metric = "accuracy"
    best_by: Literal["metric", "loss", "last"] = "metric"  # which epoch is kept
    precision: Literal["auto", "no", "fp16", "bf16"] = "auto"  # auto: bf16 (or fp16) on a GPU, or as launched
    deterministic: bool = True  # the same numbers again on the same machine, a little slower on a GPU
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        object.__setattr__(self, "no_decay", tuple(self.no_decay))
        if isinstance(self.class_weights, list):  # as train.json has it
            object.__setattr__(self, "class_weights", tuple(self.class_weights))
        _require("seed", self.seed, -(2**63) <= self.seed < 2**63, "a whole number of at most 64 bits")
        _require("epochs", self.epochs, 1 <= self.epochs <= MOST_EPOCHS, f"1 to {MOST_EPOCHS:,}")
        _require("batch_size", self.batch_size, self.batch_size >= 1, "1 or more")
        for name in ("rows_per_pass", "learning_rate", "head_learning_rate", "clip"):
            value = getattr(self, name)
            _require(name, value, value is None or 0 < value < math.inf, "above 0 and finite")
        _require("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "0 or more and finite")
        weights = self.class_weights if isinstance(self.class_weights, tuple) else ()
        _require("class_weights", weights, all(0 <= weight < math.inf for weight in weights), "0 or more and finite")
        _require("warmup", self.warmup, 0 <= self.warmup <= 1, "a share between 0 and 1")
        _require(
            "betas", self.betas, len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas), "two in [0, 1)"
        )


def settings(**options: Any) -> Settings:
    """Settings from options by name, each checked.

    >>> settings(epochs=5, learning_rate=1e-4).epochs
    5
    """
    hints = typing.get_type_hints(Settings)
    for name, value in options.items():
        if name not in hints:
            raise unknown("setting", name, hints)
        choices = typing.get_args(hints[name]) if typing.get_origin(hints[name]) is Literal else ()
        if choices and value not in choices:
            raise TrothError(f"{name} must be {' or '.join(map(str, choices))}, not {value!r}")
        if hints[name] in (int, float) and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TrothError(f"{name} must be a number, not {value!r}")
    return Settings(**options)


def require_weights(chosen: Settings, classes: int) -> None:
    """One line where the weights given are not one per class."""
    given = chosen.class_weights
    if isinstance(given, tuple) and len(given) != classes:
        raise TrothError(f"class_weights has {len(given)} numbers, but there are {classes} classes")


def as_dict(chosen: Settings) -> Mapping[str, Any]:
    """Plain data, ready for JSON."""
    plain = dataclasses.asdict(chosen)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def rate_factor(chosen: Settings, step: int, steps: int, examples: int) -> float:
    """What the learning rates are multiplied by at a step (from 0): up over the warm-up, then level or down to 0.

    >>> [rate_factor(Settings(warmup=0.5), step, 4, 64) for step in range(4)]
    [0.0, 0.5, 1.0, 0.5]
    """
    planned = steps if chosen.schedule_over == "batches" else examples * chosen.epochs
    warm = math.ceil(planned * chosen.warmup)
    if step < warm:
        return step / warm
    return 1.0 if chosen.schedule == "constant" else max(0.0, (planned - step) / max(1, planned - warm))


def build_optimizer(
    model: nn.Module, settings: Settings, chosen: Callable[[str, Tensor], Tensor] = lambda name, parameter: parameter
) -> torch.optim.Optimizer:
    """Adam or AdamW over groups by rate and decay; `chosen` may put another tensor in a parameter's place."""
    spared, body = _without_decay(model, settings.no_decay), getattr(model, "base_model_prefix", "")
    found: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            in_head = bool(body) and not name.startswith(f"{body}.")  # all that is not in the model's body
            found.setdefault((in_head, name in spared), []).append(chosen(name, parameter))
    rates = {True: settings.head_learning_rate or settings.learning_rate, False: settings.learning_rate}
    groups: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": 0.0 if spare else settings.weight_decay, "full_rate": rates[in_head]}
        for (in_head, spare), parameters in sorted(found.items(), key=lambda item: item[0])
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    options = {"lr": settings.learning_rate, "betas": settings.betas, "eps": settings.epsilon}
    return kind(groups, amsgrad=settings.amsgrad, **options)  # type: ignore[arg-type]


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


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise TrothError(f"{name} must be {wanted}, not {value}")
