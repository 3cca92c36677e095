"""What the model returned for the rows of a probe: `Answers`, which an `AnswerBuffer` collects batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from troth.core import outputs as meaning
from troth.core.memory import moved
from troth.core.outputs import THRESHOLD, Of, Outputs, at_least_single, value_of
from troth.core.types import Question, Rows, gather_units
from troth.engine.probes import Reading

Name = tuple[str, str]  # "logits", "units", "rest" or "rows", and the name of the value
_ON_DEVICE = 1 << 28  # bytes of answers that may stay on the device until a round ends


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model returned for each row of a probe, on the CPU."""

    questions: Sequence[Question]
    counts: NDArray[np.int64]  # [questions] rows of each
    logits: Tensor  # [rows, classes]
    units: Mapping[str, Tensor]  # [rows, most units] token values summed into units; 0 beyond the units of a text
    rest: Mapping[str, Tensor]  # [rows] the sum over tokens outside all units
    rows: Mapping[str, Tensor]  # [rows, ...]
    outputs: Outputs = "classes"  # what the columns of the logits mean
    threshold: float = THRESHOLD  # the probability above which a label is predicted

    @property
    def question(self) -> Question:
        """The question of a probe about one text."""
        (question,) = self.questions
        return question

    @cached_property
    def target(self) -> Tensor:
        """[rows] The target of each row's question."""
        return torch.from_numpy(np.repeat([question.target for question in self.questions], self.counts))

    def value(self, of: Of = "logit") -> Tensor:
        """[rows] The target's logit, probability or log-probability; with a contrast class, minus that of the
        contrast class.
        """
        against = np.repeat([-1 if each.against is None else each.against for each in self.questions], self.counts)
        return value_of(of, self.logits, self.target, torch.from_numpy(against), self.outputs)

    @cached_property
    def probability(self) -> Tensor:
        """[rows] The probability of the target; for models that return values, the value."""
        return self.probabilities.gather(1, self.target[:, None])[:, 0]

    @cached_property
    def probabilities(self) -> Tensor:
        """[rows, classes] The probability of each class or label; for models that return values, the values."""
        return meaning.probabilities(self.logits, self.outputs)

    @cached_property
    def strongest(self) -> Tensor:
        """[rows] The index of the class or label that the target "predicted" refers to."""
        return meaning.strongest(self.logits, self.outputs)

    @cached_property
    def predicted(self) -> Tensor:
        """[rows] The predicted class; for labels, 1 if the model predicts the target, else 0."""
        return meaning.decisions(self.logits, self.outputs, self.target, self.threshold)


class AnswerBuffer:
    """Collects the answers to the rows of one table; they are on the CPU after `settle`."""

    def __init__(self) -> None:
        self.parts: dict[Name, Tensor] = {}
        self._batches: dict[Name, list[Tensor]] = {}
        self._bytes = 0
        self._on_its_way: torch.cuda.Event | None = None

    def add(self, reading: Reading, rows: Rows, widest: int) -> None:
        """Adds one batch, with token values summed into units."""
        parts: dict[Name, Tensor] = {("logits", ""): at_least_single(reading.logits)}
        for name, tokens in reading.tokens.items():
            summed = gather_units(tokens, rows.units, widest)
            parts["units", name] = summed
            parts["rest", name] = tokens.sum(1) - summed.sum(1)
        for name, values in reading.rows.items():
            parts["rows", name] = values
        for key, part in parts.items():
            self._batches.setdefault(key, []).append(part)
            self._bytes += part.numel() * part.element_size()
        if self._bytes > _ON_DEVICE:
            self._batches = {key: [part.cpu() for part in batches] for key, batches in self._batches.items()}
            self._bytes = 0

    def close(self, order: NDArray[np.int64]) -> None:
        """Joins the batches and starts the copy to the CPU. Row i of the batches is row order[i] of the buffer."""
        is_sorted, on_gpu = bool((order[1:] > order[:-1]).all()), False
        for name, batches in self._batches.items():
            part = joined(batches)
            if not is_sorted:
                part = part[moved(torch.from_numpy(np.argsort(order)), part.device)]
            self.parts[name] = part.to("cpu", non_blocking=True)
            on_gpu |= part.device.type == "cuda"
        self._batches = {}
        if on_gpu:
            self._on_its_way = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._on_its_way.record()

    def settle(self) -> None:
        """Waits until the copy to the CPU is complete."""
        if self._on_its_way is not None:
            self._on_its_way.synchronize()
            # Pinned memory is scarce, and cached answers live as long as their encoding.
            self.parts = {name: part.clone() for name, part in self.parts.items()}
            self._on_its_way = None

    def average(self, counts: Tensor, outputs: Outputs) -> None:
        """Averages the draws of each row into one row; `counts` has the number of draws per row."""
        first = counts.cumsum(0) - counts
        for (kind, name), part in self.parts.items():
            if kind == "logits":
                self.parts[kind, name] = meaning.averaged(part, counts, outputs)
            else:
                self.parts[kind, name] = meaning.means(part, counts) if part.is_floating_point() else part[first]

    def undefined(self) -> tuple[str, int] | None:
        """The name of a value that is NaN or infinite, and the first such row; None if all are finite."""
        for (kind, name), part in self.parts.items():
            if part.is_floating_point() and not bool(torch.isfinite(part).all()):
                row = int((~torch.isfinite(part)).reshape(len(part), -1).any(1).nonzero()[0])
                return ("logits" if kind == "logits" else f"{name} numbers"), row
        return None


def joined(batches: Sequence[Tensor]) -> Tensor:
    """Concatenates batches; narrower ones are padded with 0."""
    if len(batches) == 1:
        return batches[0]
    shapes = [batch.shape[:0:-1] for batch in batches]  # last dimension first, as `pad` expects
    widest = [max(sizes) for sizes in zip(*shapes, strict=True)]
    filled = []
    for batch, shape in zip(batches, shapes, strict=True):
        missing = [size for most, own in zip(widest, shape, strict=True) for size in (0, most - own)]
        filled.append((pad(batch, missing) if any(missing) else batch).to(batches[-1].device))
    return torch.cat(filled)
