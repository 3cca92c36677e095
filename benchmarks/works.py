"""What is contested: one line per work, with the size of the model, the texts and who takes part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import floor
from inputs import LENGTHS, PROMPT_TOKENS, SIZES, Size

STEPS = 20
SAMPLES = 300
WIDTH = 5
AOPC_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # ferret's


@dataclass(frozen=True)
class Contender:
    """A library, perhaps with a setting of its own: `captum` and `captum (default)`."""

    library: str
    setting: str = ""

    @property
    def name(self) -> str:
        return f"{self.library} ({self.setting})" if self.setting else self.library


def contender(text: str) -> Contender:
    library, _, setting = text.partition(":")
    return Contender(library, setting)


@dataclass(frozen=True)
class Work:
    name: str  # also the method of each contestant that does it
    size: str
    texts: str
    peers: tuple[Contender, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    operations: Callable[[Size, int], float] | None = None  # that one text of so many tokens needs
    sampled: bool = False  # other draws, so other numbers
    costly: bool = False  # only when everything is asked for

    @property
    def key(self) -> str:
        return f"{self.name} {SIZES[self.size].name} {self.texts}"

    def floor_operations(self) -> float | None:
        if self.operations is None:
            return None
        size = SIZES[self.size]
        return sum(self.operations(size, tokens) for tokens in LENGTHS[self.texts])


def _rows(count: Callable[[int], float]) -> Callable[[Size, int], float]:
    """Forward passes: so many rows for a text of so many tokens (and two special ones)."""
    return lambda size, tokens: count(tokens) * floor.forward(size, tokens + 2)


def _path(steps: int) -> Callable[[Size, int], float]:
    """The class is chosen by one pass forward, then each step goes there and back."""
    return lambda size, tokens: floor.forward(size, tokens + 2) + steps * floor.gradient(size, tokens + 2)


def _causal(size: Size, tokens: int) -> float:
    return floor.causal(size, PROMPT_TOKENS, tokens, tokens + 1)


def _one_gradient(size: Size, tokens: int) -> float:
    return floor.gradient(size, tokens + 2)


def _aopc(size: Size, tokens: int) -> float:
    """Two metrics, each of the whole text and of what is left at each ratio: deleting makes rows shorter."""
    left = [int(ratio * tokens + 1e-9) for ratio in AOPC_RATIOS]
    return 2 * sum(floor.forward(size, count + 2) for count in [tokens, *left])


def _erased_again_and_again(tokens: int) -> float:
    """Leave-one-out of what is left after each tenth, and the two curves."""
    return sum(tokens - tokens * tenth // 10 + 1 for tenth in range(1, 9 + 1)) + 20


def works() -> list[Work]:
    def work(name: str, size: str, texts: str, peers: str, *about: Any, **options: Any) -> Work:
        return Work(name, size, texts, tuple(contender(peer) for peer in peers.split()), *about, **options)

    gradients = "captum interpreto hand"
    dot = "captum ferret interpreto"
    paths = "captum ferret interpreto"
    erased = "captum:best captum:default interpreto hand"
    steps, samples = {"steps": STEPS}, {"samples": SAMPLES}
    sampled = _rows(lambda _: SAMPLES)
    path = _path(STEPS)
    each = _rows(lambda tokens: tokens + 1)
    return [
        work("gradient", "small", "many", gradients, {}, _one_gradient),
        work("input_x_gradient", "small", "many", dot, {}, _one_gradient),
        work("integrated_gradients", "small", "short", paths, steps, path),
        work("leave_one_out", "small", "short", erased, {}, each),
        work("aopc", "small", "short", "ferret hand", {}, _aopc),
        work("lime", "small", "one", "lime captum ferret interpreto", samples, sampled, True),
        work("kernel_shap", "small", "one", "shap captum interpreto", samples, sampled, True),
        work("beam_search", "small", "beam", "solvex", {"width": WIDTH}),
        work("soft", "small", "many", "hand", {}, _rows(lambda _: 6), True),
        work("recursive_leave_one_out", "small", "one", "hand:plain hand", {}, _rows(_erased_again_and_again)),
        work("causal_leave_one_out", "causal", "causal", "hand inseq", {}, _causal),
        work("input_x_gradient", "small", "long", dot, {}, _one_gradient),
        work("integrated_gradients", "small", "long", paths, steps, path),
        work("leave_one_out", "small", "long", "captum:best", {}, each),
        work("input_x_gradient", "small", "longest", dot, {}, _one_gradient),
        work("integrated_gradients", "small", "longest", paths, steps, path),
        work("leave_one_out", "small", "longest", "captum:best", {}, each, costly=True),
        work("input_x_gradient", "base", "short", dot, {}, _one_gradient),
        work("integrated_gradients", "base", "one", paths, steps, path),
        work("leave_one_out", "base", "one", erased, {}, each),
        work("input_x_gradient", "base", "long", dot, {}, _one_gradient),
        work("integrated_gradients", "base", "long", paths, steps, path, costly=True),
        work("leave_one_out", "base", "long", "captum:best", {}, each, costly=True),
        work("input_x_gradient", "base", "longest", dot, {}, _one_gradient),
        work("integrated_gradients", "base", "longest", paths, steps, path, costly=True),
    ]
