"""What the model says of the rows of a probe: `Answers` for the method that asked, gathered by an `AnswerBuffer`."""

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

Name = tuple[str, str]  # "logits", "units", "rest" or "rows", and what it is there
_ON_DEVICE = 1 << 28  # bytes of answers that may stay there until the round ends


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model said of each row of a probe, question by question, on the CPU."""

    questions: Sequence[Question]
    counts: NDArray[np.int64]  # [questions] rows of each
    logits: Tensor  # [rows, classes]
    units: Mapping[str, Tensor]  # [rows, most units] token numbers summed into units; 0 beyond a text's own units
    rest: Mapping[str, Tensor]  # [rows] their sum over tokens in no unit
    rows: Mapping[str, Tensor]  # [rows, ...]
    outputs: Outputs = "classes"  # what the columns of the logits mean
    threshold: float = THRESHOLD  # of labels

    @property
    def question(self) -> Question:
        """The question, where the probe was about one text."""
        (question,) = self.questions
        return question

    @cached_property
    def target(self) -> Tensor:
        """[rows] the class each row's question is about."""
        return torch.from_numpy(np.repeat([question.target for question in self.questions], self.counts))

    def value(self, of: Of = "logit") -> Tensor:
        """[rows] the target's logit, probability or log-probability (less the other class's in a contrast)."""
        against = np.array([-1 if each.against is None else each.against for each in self.questions])
        if of == "logit" and (against < 0).all() and bool((self.target >= 0).all()):
            return self._of_target(at_least_single(self.logits))  # by far the most often
        return value_of(of, self.logits, self.target, torch.from_numpy(np.repeat(against, self.counts)), self.outputs)

    def _of_target(self, values: Tensor) -> Tensor:
        return values.gather(1, self.target[:, None])[:, 0]

    @cached_property
    def probability(self) -> Tensor:
        """[rows] the target's probability; of values the number itself."""
        return self._of_target(self.probabilities)

    @cached_property
    def probabilities(self) -> Tensor:
        """[rows, classes] the probability of each class or label; of values the numbers themselves."""
        return meaning.probabilities(self.logits, self.outputs)

    @cached_property
    def strongest(self) -> Tensor:
        """[rows] the class or label that the target "predicted" stands for."""
        return meaning.strongest(self.logits, self.outputs)

    @cached_property
    def predicted(self) -> Tensor:
        """[rows] the class the model would choose; of labels 1 where it says that the target holds, else 0."""
        return meaning.decisions(self.logits, self.outputs, self.target, self.threshold)


class AnswerBuffer:
    """The answers to the rows of one table. On the CPU once it is `settled`."""

    def __init__(self) -> None:
        self.parts: dict[Name, Tensor] = {}
        self._batches: dict[Name, list[Tensor]] = {}
        self._bytes = 0
        self._on_its_way: torch.cuda.Event | None = None

    def add(self, reading: Reading, rows: Rows, widest: int) -> None:
        """One batch, its tokens summed into units."""
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
        """All batches are there, and their row i is row order[i] of the buffer. The copy to the CPU is not awaited."""
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
        """Waits for the copy."""
        if self._on_its_way is not None:
            self._on_its_way.synchronize()
            # Pinned memory is scarce, and answers may live as long as their example.
            self.parts = {name: part.clone() for name, part in self.parts.items()}
            self._on_its_way = None

    def average(self, counts: Tensor, outputs: Outputs) -> None:
        """Rows that are draws of one row become one; as many as the count of each, one after another. [rows]"""
        first = counts.cumsum(0) - counts
        for (kind, name), part in self.parts.items():
            if kind == "logits":
                self.parts[kind, name] = meaning.averaged(part, counts, outputs)
            else:
                self.parts[kind, name] = meaning.means(part, counts) if part.is_floating_point() else part[first]

    def undefined(self) -> tuple[str, int] | None:
        """What is NaN or infinite, and in which row first."""
        for (kind, name), part in self.parts.items():
            if part.is_floating_point() and not bool(torch.isfinite(part).all()):
                row = int((~torch.isfinite(part)).reshape(len(part), -1).any(1).nonzero()[0])
                return ("logits" if kind == "logits" else f"{name} numbers"), row
        return None


def joined(batches: Sequence[Tensor]) -> Tensor:
    """One tensor; batches that are less wide are filled with 0."""
    if len(batches) == 1:
        return batches[0]
    device = batches[-1].device
    shapes = np.array([batch.shape[1:] for batch in batches]).reshape(len(batches), -1)
    widest = shapes.max(0) if shapes.size else shapes[0]
    filled = []
    for batch, shape in zip(batches, shapes, strict=True):
        missing = [size for gap in reversed((widest - shape).tolist()) for size in (0, gap)]
        filled.append((pad(batch, missing) if any(missing) else batch).to(device))
    return torch.cat(filled)
