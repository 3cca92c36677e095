"""Erased inputs, a batch at a time: everything a group of looks asks about lies on the device once, and a batch is
gathered there, so nothing is done row by row in Python and nobody waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import draws
from troth.core.memory import moved
from troth.core.types import PROMPT, Encoding, Question, Rows, spread
from troth.engine.jobs import Job
from troth.models import TextClassifier


class Sheet:
    """The rows of a group; `table` has the job, the number in it and the length of each, in the order of batches."""

    def __init__(self, jobs: Sequence[Job], table: NDArray[np.int64], model: TextClassifier) -> None:
        self.jobs, self.table, self.model = jobs, table, model
        self.encodings = [job.encoding for job in jobs]
        self.masking, self.erased_by, self.want = jobs[0].masking, jobs[0].erased_by, jobs[0].want
        self.lengths = np.array([encoding.n_tokens for encoding in self.encodings])
        self.n_units = np.array([encoding.n_units for encoding in self.encodings])
        job, row = table[:, 0], table[:, 1]
        places = starts([len(each) for each in jobs])[job] + row
        self.is_whole = np.concatenate([_whole_rows(each) for each in jobs])[places]
        # What lies behind the last value of each stands for padding.
        self._ids = self._joined([encoding.ids for encoding in self.encodings], model.filler_id)
        self._units = self._joined([encoding.units for encoding in self.encodings], -1)
        types = [encoding.token_types for encoding in self.encodings if encoding.token_types is not None]
        self._types = self._joined(types, 0) if types else None
        is_binary = all(job.is_binary for job in jobs)
        keeps = [torch.from_numpy(job.keep).flatten() for job in jobs]
        self._keep = self._joined(keeps if is_binary else [keep.float() for keep in keeps], 1)
        begins = starts([job.keep.size for job in jobs])[job] + row * self.n_units[job]
        targets = np.array([[job.question.target, job.against] for job in jobs]).reshape(-1, 2)
        self._of_job = self._moved(np.column_stack([starts(self.lengths), self.lengths, self.n_units, targets]))
        self._of_row = self._moved(np.column_stack([job, row, begins]))
        self._others = self._all_others() if any(job.others is not None for job in jobs) else None
        self._keys = self._moved(np.array([job.key for job in jobs])) if self.masking.stochastic else None
        if self.erased_by is not None:
            self._lay_before([job.question for job in jobs], np.array([job.base_key for job in jobs]))

    def _lay_before(self, questions: Sequence[Question], keys: NDArray[np.int64]) -> None:
        """What each question has left, and the key of what was drawn for it, where that is erased in its own way."""
        self._base_keys = self._moved(keys)
        self._left = self._joined([question.left for question in questions], 1)
        self._left_begins = self._moved(starts(self.n_units))

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from one place of the table to another, erased."""
        part = slice(start, stop)
        numbers, after = self.table[part, 0], self.table[part, 2]
        width, n_units = int(self.lengths[numbers].max()), self.widest(start, stop)
        job, row, keep_begins = self._of_row[part].unbind(1)
        begins, lengths, counts, target, against = self._of_job[job].unbind(1)
        tokens = _places(begins, lengths, width, len(self._ids) - 1)
        rows = Rows(
            encodings=PerRow(self.encodings, numbers),
            ids=self._ids[tokens],
            units=self._units[tokens],
            lengths=lengths,
            target=target,
            against=against,
            keys=torch.zeros_like(row) if self._keys is None else draws.row_keys(self._keys[job], row),
            token_types=None if self._types is None else self._types[tokens],
            width=int(after.max()),
            is_even=bool((after == after[0]).all()),
            lengths_after=after,
        )
        keep = self._keep[_places(keep_begins, counts, n_units, len(self._keep) - 1)].float()
        if self.erased_by is not None:
            left = self._left[_places(self._left_begins[job], counts, n_units, len(self._left) - 1)]
            based = replace(rows, keys=self._base_keys[job])
            rows = replace(self.erased_by.erase(based, spread(left, rows.units), self.model), keys=rows.keys)
            rows = replace(rows, kept=keep * left)
        if self.is_whole[part].all():
            return rows
        others: float | Tensor = 1.0 if self._others is None else self._others[part, None]
        kept = spread(keep, rows.units, others).masked_fill(rows.units == PROMPT, 1)
        erased: Rows = self.masking.erase(rows, kept, self.model)
        return erased if erased.kept is not None else replace(erased, kept=keep)

    def widest(self, start: int, stop: int) -> int:
        """Units of the example that has the most, of those from one place to another."""
        return int(self.n_units[self.table[start:stop, 0]].max())

    def _all_others(self) -> Tensor:
        """[rows] how much is kept of tokens in no unit."""
        each = [np.ones(len(job)) if job.others is None else job.others.numpy() for job in self.jobs]
        job, row = self.table[:, 0], self.table[:, 1]
        return self._moved(np.concatenate(each)[starts([len(one) for one in self.jobs])[job] + row].astype(np.float32))

    def _joined(self, parts: Sequence[Tensor], filler: int) -> Tensor:
        return self._moved(torch.cat([*parts, torch.full((1,), filler, dtype=parts[0].dtype)]))

    def _moved(self, values: Tensor | NDArray[Any]) -> Tensor:
        return moved(values if isinstance(values, Tensor) else torch.from_numpy(values), self.model.device)


class PerRow(Sequence[Encoding]):
    """The encoding of each row; most batches are never asked."""

    def __init__(self, encodings: Sequence[Encoding], numbers: NDArray[np.int64]) -> None:
        self._encodings, self._numbers = encodings, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Encoding: ...
    @overload
    def __getitem__(self, place: slice) -> PerRow: ...
    def __getitem__(self, place: int | slice) -> Encoding | PerRow:
        if isinstance(place, slice):
            return PerRow(self._encodings, self._numbers[place])
        return self._encodings[int(self._numbers[place])]


def _whole_rows(job: Job) -> NDArray[np.bool_]:
    """[rows] which of them erase nothing."""
    if not job.erases:
        return np.ones(len(job), np.bool_)
    rows: NDArray[np.bool_] = np.all(job.keep if job.is_binary else job.keep == 1, axis=1)
    return rows if job.others is None else rows & (job.others.numpy() == 1)


def starts(sizes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of several lists begins once they are joined."""
    return np.cumsum([0, *sizes])[:-1]


def _places(begins: Tensor, counts: Tensor, width: int, filler: int) -> Tensor:
    """[rows, width] places from each begin on, so many as it counts; then the filler's."""
    steps = torch.arange(width, device=begins.device)
    return torch.where(steps < counts[:, None], begins[:, None] + steps, filler)
