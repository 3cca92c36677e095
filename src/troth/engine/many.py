"""One look at each of many examples, as arrays: what a method asks of all texts alike, without a generator, a look and
an answer per text. On a GPU those would take longer than the model.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import outputs as meaning
from troth.core.outputs import THRESHOLD, Of, Outputs, at_least_single, value_of
from troth.core.types import Encoding, Question
from troth.engine.answers import Block
from troth.engine.jobs import require_readable
from troth.engine.looks import LOGITS, T, Want
from troth.engine.rows import Sheet, starts
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True, eq=False)
class Looks:
    """What each row keeps of its example, how the rest is erased, and what is wanted of the model."""

    questions: Sequence[Question]
    keep: NDArray[Any]  # flat, question by question and row by row: bool, or float32 where units fade
    rows: NDArray[np.int64]  # [questions] how many each has
    masking: Masking | None = None  # None = the prober's; not one that draws
    want: Want = LOGITS
    distinct: bool = False  # no question has a row twice
    others: NDArray[np.float32] | None = None  # [rows] how much is kept of tokens in no unit; None = all

    def whole_rows(self) -> NDArray[np.int64]:
        """Which rows erase nothing more."""
        n_units = np.array([question.n_units for question in self.questions], np.int64)
        sizes = np.repeat(n_units, self.rows)
        is_whole = _per_row(self.keep != 1, starts(sizes), sizes) == 0
        return np.flatnonzero(is_whole if self.others is None else is_whole & (self.others == 1))


def whole_inputs(questions: Sequence[Question], want: Want = LOGITS) -> Looks:
    """One row each, in which nothing more is erased."""
    units = sum(question.n_units for question in questions)
    return Looks(questions, np.ones(units, np.bool_), np.ones(len(questions), np.int64), want=want, distinct=True)


def asks_together(method: type, base: type) -> bool:
    """Whether a method can ask about many at once: who replaces `ask` alone is asked one by one."""
    owner = next(cls for cls in method.__mro__ if "ask" in vars(cls) or "ask_many" in vars(cls))
    return "ask_many" in vars(owner) and owner is not base


def can_be_joined(masking: Masking) -> bool:
    """Whether rows under it are known by what they keep alone, and as long as they look."""
    return not masking.stochastic and (masking.shortens or type(masking).lengths is Masking.lengths)


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model said of each row, question by question, on the CPU."""

    questions: Sequence[Question]
    rows: NDArray[np.int64]  # [questions]
    logits: Tensor  # [rows, classes]
    units: Mapping[str, Tensor]  # [rows, most units]; beyond its own units a question has 0
    rest: Mapping[str, Tensor]  # [rows]
    outputs: Outputs = "classes"
    threshold: float = THRESHOLD

    @cached_property
    def target(self) -> Tensor:
        """[rows] the class each row's question is about."""
        return torch.from_numpy(np.repeat([question.target for question in self.questions], self.rows))

    def value(self, of: Of) -> NDArray[Any]:
        """[rows] the target's logit, probability or log-probability (less the other class's in a contrast)."""
        if of == "logit" and all(question.against is None for question in self.questions):
            return at_least_single(self.logits).gather(1, self.target[:, None])[:, 0].numpy()
        others = [-1 if question.against is None else question.against for question in self.questions]
        against = torch.from_numpy(np.repeat(others, self.rows))
        return value_of(of, self.logits, self.target, against, self.outputs).numpy()

    @cached_property
    def strongest(self) -> Tensor:
        """[rows] the class or label that the target "predicted" stands for."""
        return meaning.strongest(self.logits, self.outputs)

    @cached_property
    def probabilities(self) -> Tensor:
        """[rows, classes]"""
        return meaning.probabilities(self.logits, self.outputs)


AskMany: TypeAlias = Generator[Looks, Answers, T]


def split(values: NDArray[Any], sizes: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Each question's own part of what lies one after another."""
    ends = np.cumsum(sizes).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class Batch(Sheet):
    """The rows of looks on the device; those that repeat are there once."""

    def __init__(self, looks: Looks, default: Masking, model: TextClassifier) -> None:
        questions = looks.questions
        self.looks, self.model = looks, model
        self.block = Block()
        self.encodings = [question.encoding for question in questions]
        for encoding in self.encodings:
            require_readable(encoding)
        self.masking, self.want = looks.masking or default, looks.want
        self.erased_by = self._erased_before(default)
        self.n_units = np.array([encoding.n_units for encoding in self.encodings], np.int64)
        self.lengths = np.array([encoding.n_tokens for encoding in self.encodings], np.int64)
        job = np.repeat(np.arange(len(questions)), looks.rows)
        row = np.arange(len(job)) - starts(looks.rows)[job]
        sizes = self.n_units[job]
        begins = starts(sizes)
        keep = self._asked(looks, starts(looks.rows * self.n_units))
        kept = keep == 1 if keep.dtype != np.bool_ else keep
        is_whole = _per_row(~kept, begins, sizes) == 0
        if looks.others is not None:
            is_whole &= looks.others == 1
        after = self._after(self.masking, keep, begins, sizes, job)
        if self.erased_by is not None:  # at most one of the two deletes
            left, each = np.concatenate([question.left.numpy() for question in questions]), np.arange(len(questions))
            before = self._after(self.erased_by, left, starts(self.n_units), self.n_units, each)
            after = np.minimum(after, before[job])
        self.inverse: NDArray[np.int64] | None = None  # of each row asked for: which of those that are read
        chosen = np.arange(len(job))
        may_repeat = not looks.distinct or any(encoding.has_tokenless for encoding in self.encodings)
        if may_repeat and looks.others is None:
            chosen, self.inverse = _distinct(keep, job, sizes, int(self.n_units.max(initial=0)))
        # The longest last, as everywhere; block.close puts the answers back in the order of `chosen`.
        self.order = np.argsort(after[chosen], kind="stable")
        chosen = chosen[self.order]
        self.table = np.column_stack([job[chosen], row[chosen], after[chosen]])
        self.is_whole = is_whole[chosen]
        targets = [[each.target, -1 if each.against is None else each.against] for each in questions]
        self._of_job = self._moved(np.column_stack([starts(self.lengths), self.lengths, self.n_units, targets]))
        self._of_row = self._moved(np.column_stack([job[chosen], row[chosen], begins[chosen]]))
        self._keep = self._joined([torch.from_numpy(keep)], 1)
        self._ids = self._joined([encoding.ids for encoding in self.encodings], model.filler_id)
        self._units = self._joined([encoding.units for encoding in self.encodings], -1)
        types = [encoding.token_types for encoding in self.encodings if encoding.token_types is not None]
        self._types = self._joined(types, 0) if types else None
        self._others = None if looks.others is None else self._moved(looks.others[chosen])
        self._keys = None
        if self.erased_by is not None:
            self._lay_before(questions, np.zeros(len(questions), np.int64))

    def _erased_before(self, default: Masking) -> Masking | None:
        """How what the questions lack was erased; None where the looks erase alike: one operation does both."""
        before = [question.erased_by or default for question in self.looks.questions if question.base is not None]
        if not before or before[0] == self.masking:
            return None
        assert all(masking is before[0] or masking == before[0] for masking in before), "erased in several ways"
        assert can_be_joined(before[0]), "a row is known by what it keeps"
        return before[0]

    def _asked(self, looks: Looks, begins: NDArray[np.int64]) -> NDArray[Any]:
        """What is kept, of what the questions have left; a unit that no token joins cannot be erased."""
        apart = self.erased_by is not None  # what is gone is erased in its own way, before
        bases = [number for number, each in enumerate(looks.questions) if each.base is not None and not apart]
        tokenless = [number for number, encoding in enumerate(self.encodings) if encoding.has_tokenless]
        if not bases and not tokenless:
            return looks.keep
        keep = looks.keep.copy()
        for number in bases:
            base = looks.questions[number].base
            assert base is not None
            part = self._part(keep, looks, begins, number)
            part *= base.numpy().astype(keep.dtype)
        for number in tokenless:
            self._part(keep, looks, begins, number)[:, self.encodings[number].tokenless.numpy()] = 1
        return keep

    def _part(self, keep: NDArray[Any], looks: Looks, begins: NDArray[np.int64], number: int) -> NDArray[Any]:
        """[rows, units] of one question, as a view."""
        shape = int(looks.rows[number]), int(self.n_units[number])
        return keep[begins[number] : begins[number] + shape[0] * shape[1]].reshape(shape)

    def _after(
        self,
        masking: Masking,
        keep: NDArray[Any],
        begins: NDArray[np.int64],
        sizes: NDArray[np.int64],
        job: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """[rows] how many tokens each row has once it is erased."""
        if not masking.shortens:
            return self.lengths[job]
        first = starts(self.n_units)
        units = np.concatenate([encoding.units.numpy() for encoding in self.encodings])
        numbers = np.where(units < 0, -1, units + np.repeat(first, self.lengths))
        tokens = np.bincount(numbers[units >= 0], minlength=int(self.n_units.sum()))  # of each unit
        of_entry = np.arange(len(keep)) + np.repeat(first[job] - begins, sizes)
        return self.lengths[job] - _per_row(tokens[of_entry] * (keep == 0), begins, sizes)

    def answers(self) -> Answers:
        """Once the block has settled."""
        parts = self.block.parts
        if self.inverse is not None:
            index = torch.from_numpy(self.inverse)
            parts = {name: part[index] for name, part in parts.items()}
        units = {name: part for (kind, name), part in parts.items() if kind == "units"}
        rest = {name: part for (kind, name), part in parts.items() if kind == "rest"}
        logits = parts.get(("logits", ""), torch.empty(0, 0))
        model = self.model
        return Answers(self.looks.questions, self.looks.rows, logits, units, rest, model.outputs, model.threshold)

    def encoding_of(self, row: int) -> Encoding:
        """Of a row of the block."""
        place = int(np.flatnonzero(self.order == row)[0])
        return self.encodings[int(self.table[place, 0])]


def _per_row(values: NDArray[Any], begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum over each row's units; 0 of none."""
    sums, some = np.zeros(len(sizes), np.int64), sizes > 0
    if some.any():
        sums[some] = np.add.reduceat(values, begins[some], dtype=np.int64)
    return sums


def _distinct(
    keep: NDArray[Any], job: NDArray[np.int64], sizes: NDArray[np.int64], widest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of equal rows of a question the first, sorted by question and row; and which of these each row is."""
    inside = np.arange(widest) < sizes[:, None]
    padded = np.zeros((len(job), widest), keep.dtype)
    padded[inside] = keep
    if keep.dtype == np.bool_:
        padded = np.packbits(padded, axis=1)
        if padded.shape[1] <= 8:
            names = np.zeros((len(job), 8), np.uint8)
            names[:, : padded.shape[1]] = padded
            return _firsts(names.view(">u8")[:, 0].astype(np.uint64), job)
    raw = np.ascontiguousarray(padded).view(np.uint8).reshape(len(job), -1)
    if raw.shape[1] == 0:
        return _firsts(np.zeros(len(job)), job)
    _, numbers = np.unique(raw, axis=0, return_inverse=True)
    return _firsts(numbers.reshape(-1), job)


def _firsts(names: NDArray[Any], job: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((names, job))  # stable: of equal ones the first comes first
    if not len(order):
        return order, order
    named, owner = names[order], job[order]
    is_new = np.concatenate([[True], (named[1:] != named[:-1]) | (owner[1:] != owner[:-1])])
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.cumsum(is_new) - 1
    return order[is_new], inverse


class RunningMany(Generic[T]):
    """One ask about many examples under way."""

    def __init__(self, ask: AskMany[T]) -> None:
        self.ask = ask
        self.batch: Batch | None = None  # what it waits for
        self.done = False
        self.result: T

    def advance(self) -> Looks | None:
        """Hands the ask its answers and takes its next looks; None when it is done."""
        try:
            return next(self.ask) if self.batch is None else self.ask.send(self.batch.answers())
        except StopIteration as stop:
            self.done, self.result = True, stop.value
            return None
