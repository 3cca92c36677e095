"""What can be asked about erased inputs: which units each row keeps, how the others are erased, what is read.

A method yields a `Probe` about one text, or a `ProbeBatch` about many, and receives `Answers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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


@dataclass(frozen=True)
class Passes:
    """Rows that went through a model."""

    forward: int = 0
    backward: int = 0
    side_model_rows: int = 0  # through another model than the one explained, forward or backward


@dataclass(frozen=True, eq=False)
class Reading:
    """What one batch gives, before the tokens of a unit are summed."""

    logits: Tensor  # [rows, classes]
    tokens: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, length], 0 at padding
    rows: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, ...]
    more: Passes = Passes()  # beyond the one pass of every row (and one backward, where the readout needs that)


@dataclass(frozen=True)
class Readout(ABC):
    """What is read off the model; probes with equal readouts share batches. A method may define its own in its file."""

    backward: ClassVar[bool] = False
    attentions: ClassVar[bool] = False  # needs the attention weights, so eager attention
    about_target: ClassVar[bool] = True  # what is read depends on the class asked about
    only_forward: ClassVar[bool] = False  # calls nothing but `model.forward`, which may then read without padding
    averaged: ClassVar[bool] = True  # over the draws of a masking; else the first draw alone is read
    remembered: ClassVar[bool] = True  # kept as long as the encoding is, should it be asked for again

    def bytes_per_row(self, model: TextClassifier, length: int) -> int:
        """About what a row of so many tokens takes while it is read."""
        return model.bytes_per_row(length, backward=self.backward, attentions=self.attentions)

    @abstractmethod
    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        """One batch of rows, reduced on the device."""


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
    """One text: which units each row keeps, how the others are erased, and what is read off the model."""

    question: Question
    keep: Tensor  # [rows, units], multiplied by what the question has left
    masking: Masking | None = None  # None = the prober's
    readout: Readout = LOGITS
    non_unit_keep: Tensor | None = None  # [rows] how much is kept of tokens in no unit; None = all
    purpose: str = ""  # of the random draws of a stochastic masking
    distinct: bool = False  # no row is there twice, so that the engine need not look for repeated ones

    def batch(self) -> ProbeBatch:
        """The same as a batch of one text."""
        n_units, keep = self.question.n_units, self.keep
        if keep.dim() != 2 or keep.shape[1] != n_units:
            raise TrothError(f"keep must be [rows, {n_units} units], not {list(keep.shape)}")
        if keep.dtype != torch.float32 or keep.device.type != "cpu" or keep.requires_grad:
            keep = keep.detach().to("cpu", torch.float32)
        non_unit_keep = self.non_unit_keep
        return ProbeBatch(
            (self.question,),
            keep.numpy().reshape(-1),
            np.array([len(keep)]),
            self.masking,
            self.readout,
            None if non_unit_keep is None else non_unit_keep.numpy().astype(np.float32),
            self.purpose,
            self.distinct,
        )


@dataclass(frozen=True, eq=False)
class ProbeBatch:
    """Many texts: as a `Probe` of each, whose rows lie one after another."""

    questions: Sequence[Question]
    keep: NDArray[Any]  # flat, question by question and row by row: bool, or float32 where units fade
    counts: NDArray[np.int64]  # [questions] how many rows each has
    masking: Masking | None = None
    readout: Readout = LOGITS
    non_unit_keep: NDArray[np.float32] | None = None  # [rows]
    purpose: str = ""
    distinct: bool = False  # no question has a row twice

    def batch(self) -> ProbeBatch:
        """Itself."""
        return self


def whole_inputs(questions: Sequence[Question], readout: Readout = LOGITS) -> ProbeBatch:
    """One row each, in which nothing more is erased."""
    units = sum(question.n_units for question in questions)
    counts = np.ones(len(questions), np.int64)
    return ProbeBatch(questions, np.ones(units, np.bool_), counts, readout=readout, distinct=True)


def keep_all(question: Question) -> Tensor:
    """[1, units] nothing more is erased."""
    return torch.ones(1, question.n_units)


def keep_without_each(question: Question) -> Tensor:
    """[units, units] row i erases unit i."""
    return 1 - torch.eye(question.n_units)


@lru_cache(maxsize=64)
def without_each_and_whole(n_units: int) -> NDArray[np.bool_]:
    """[units + 1, units] row i erases unit i, the last one none; the same array for every text of so many units."""
    keep = np.ones((n_units + 1, n_units), np.bool_)
    np.fill_diagonal(keep[:n_units], False)
    return keep
