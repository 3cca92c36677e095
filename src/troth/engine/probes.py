"""What a method can ask the model: which units each row keeps, how the other units are erased, and what is read.

A method yields a `Probe` about one text, or a `ProbeBatch` about many, and receives `Answers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.outputs import PREDICTED as PREDICTED
from troth.core.outputs import Of as Of
from troth.core.outputs import at_least_single as at_least_single
from troth.core.types import Question, Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass
class Cost:
    """How many rows went through a model."""

    forward: int = 0
    backward: int = 0
    batches: int = 0
    side_model_rows: int = 0  # rows of other models: an attribution model, or one that a masking uses


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read from one batch, before token values are summed into units."""

    logits: Tensor  # [rows, classes]
    tokens: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, length], 0 at padding
    rows: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, ...]
    more: Cost = field(default_factory=Cost)  # passes in addition to one per row


@dataclass(frozen=True)
class Readout(ABC):
    """What is read from the model. Probes with equal readouts share batches; a method can define its own."""

    backward: ClassVar[bool] = False
    attentions: ClassVar[bool] = False  # needs the attention weights, and so eager attention
    about_target: ClassVar[bool] = True  # the result depends on the target
    only_forward: ClassVar[bool] = False  # calls only `model.forward`, which may then read batches without padding
    averaged: ClassVar[bool] = True  # averaged over a masking's draws; otherwise only the first draw is read
    remembered: ClassVar[bool] = True  # cached for as long as the encoding exists

    def bytes_per_row(self, model: TextClassifier, length: int) -> int:
        """Roughly the memory that a row of this length needs while it is read."""
        return model.bytes_per_row(length, backward=self.backward, attentions=self.attentions)

    @abstractmethod
    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        """Reads one batch of rows and reduces the result on the device."""


@dataclass(frozen=True)
class Logits(Readout):
    about_target = False
    only_forward = True

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.no_grad():
            return Reading(model.forward(rows).logits)


LOGITS = Logits()


@dataclass(frozen=True, eq=False)
class Probe:
    """One text: which units each row keeps, how the others are erased, and what is read from the model."""

    question: Question
    keep: Tensor  # [rows, units], multiplied by what the question has left
    masking: Masking | None = None  # None = the prober's
    readout: Readout = LOGITS
    non_unit_keep: Tensor | None = None  # [rows] how much is kept of tokens outside all units; None = everything
    purpose: str = ""  # part of the random seed of a stochastic masking
    distinct: bool = False  # all rows differ, so the engine does not look for equal ones

    def batch(self) -> ProbeBatch:
        """The same probe as a batch of one text."""
        n_units, keep = self.question.n_units, self.keep
        if keep.dim() != 2 or keep.shape[1] != n_units:
            raise TrothError(f"keep must be [rows, {n_units} units], not {list(keep.shape)}")
        if keep.dtype != torch.float32 or keep.device.type != "cpu" or keep.requires_grad:
            keep = keep.detach().to("cpu", torch.float32)
        others = None if self.non_unit_keep is None else self.non_unit_keep.numpy().astype(np.float32)
        counts = np.array([len(keep)])
        return ProbeBatch(
            (self.question,), keep.numpy(), counts, self.masking, self.readout, others, self.purpose, self.distinct
        )


@dataclass(frozen=True, eq=False)
class ProbeBatch:
    """Probes of several texts as one batch: the rows of the first question, then those of the second, and so on."""

    questions: Sequence[Question]
    # [rows, most units] bool, or float32 where units fade. Columns beyond the units of a text are ignored; units beyond
    # the last column are kept.
    keep: NDArray[Any]
    counts: NDArray[np.int64]  # [questions] rows of each
    masking: Masking | None = None
    readout: Readout = LOGITS
    non_unit_keep: NDArray[np.float32] | None = None  # [rows]
    purpose: str = ""
    distinct: bool = False  # the rows of each question differ

    def batch(self) -> ProbeBatch:
        """Returns the batch itself, as `Probe.batch` does."""
        return self


def whole_inputs(questions: Sequence[Question], readout: Readout = LOGITS) -> ProbeBatch:
    """One row per question, in which nothing more is erased."""
    keep, counts = np.ones((len(questions), 0), np.bool_), np.ones(len(questions), np.int64)
    return ProbeBatch(questions, keep, counts, readout=readout, distinct=True)


def keep_all(question: Question) -> Tensor:
    """[1, units] Keeps every unit."""
    return torch.ones(1, question.n_units)


def keep_without_each(question: Question) -> Tensor:
    """[units, units] Row i erases unit i."""
    return 1 - torch.eye(question.n_units)


def positions(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each row among the rows of its question. [questions] -> [rows]"""
    first = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(first, counts)
