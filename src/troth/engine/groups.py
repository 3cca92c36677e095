"""Looks of many examples that want the same of the model under the same masking: asked together, each row once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding
from troth.engine.answers import Block, joined
from troth.engine.jobs import Job
from troth.engine.looks import Answer
from troth.models import TextClassifier

_ROW_BITS = 40
_NUMBERS = count()


class Known:
    """The rows of one example that the model has been asked about.

    A row's place is one number, not a pair: of objects that hold others Python's garbage collector looks at every one.
    """

    __slots__ = ("_whole", "blocks", "rows")

    def __init__(self) -> None:
        self.rows: dict[Hashable, dict[Hashable, int]] = {}  # their places, by what they are about, then by row
        self.blocks: dict[int, Block] = {}  # by the place of their first row
        self._whole: list[tuple[Hashable, Hashable]] = []

    def __bool__(self) -> bool:
        return bool(self.rows)

    def note_whole(self, about: Hashable, row: Hashable) -> None:
        """A row that a look asked for alone, with nothing erased."""
        self._whole.append((about, row))

    def forget_erased(self) -> None:
        """Keeps only those."""
        before, self.rows = self.rows, {}
        for about, row in self._whole:
            self.rows.setdefault(about, {})[row] = before[about][row]
        used = {_first(place) for rows in self.rows.values() for place in rows.values()}
        self.blocks = {first: block for first, block in self.blocks.items() if first in used}


def _first(place: int) -> int:
    """The place of the first row of the block that a place is in."""
    return place >> _ROW_BITS << _ROW_BITS


class Group:
    """The jobs, which rows of each are to be asked, and where the answers to the others are."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.jobs: list[Job] = []
        self.block = Block()
        self._first = next(_NUMBERS) << _ROW_BITS
        self._own: list[NDArray[np.int64]] = []  # of each job: the rows that nobody has asked for
        # Of each job: where its rows are in the block; -1 - i is the i-th borrowed one.
        self._places: list[NDArray[np.int64]] = []
        self._borrowed: list[tuple[Block, int]] = []  # and the row there
        self._count = 0  # rows to be asked

    def add(self, job: Job, known: Known | None) -> None:
        """One more look; with `known`, its rows are remembered and those that were asked before are not asked again."""
        self.jobs.append(job)
        if known is None:
            own, places = np.arange(len(job)), np.arange(self._count, self._count + len(job))
        else:
            own, places = self._sorted_out(job, known)
        self._own.append(own)
        self._places.append(places)
        self._count += len(own)

    def _sorted_out(self, job: Job, known: Known) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        about = job.about(self.number)
        rows, keys = known.rows.setdefault(about, {}), job.row_keys()
        own: list[int] = []
        places: list[int] = []
        for row, key in enumerate(keys):
            new = self._first + self._count + len(own)
            place = rows.setdefault(key, new)
            if place == new:
                own.append(row)
            first = _first(place)
            if first != self._first:
                self._borrowed.append((known.blocks[first], place - first))
                places.append(-len(self._borrowed))
            else:
                places.append(place - first)
        if own:
            known.blocks[self._first] = self.block
        if own and job.is_whole:
            known.note_whole(about, keys[0])
        return np.array(own, np.int64), np.array(places, np.int64)

    def table(self) -> NDArray[np.int64]:
        """[rows to be asked, 3] the job, the number in it and the length of each."""
        jobs = np.repeat(np.arange(len(self.jobs)), [len(own) for own in self._own])
        lengths = [job.lengths()[own] for job, own in zip(self.jobs, self._own, strict=True)]
        return np.column_stack([jobs, np.concatenate(self._own), np.concatenate(lengths)])

    def encoding_of(self, row: int) -> Encoding:
        """Of a row of the block."""
        ends = np.cumsum([len(own) for own in self._own])
        return self.jobs[int(np.searchsorted(ends, row, side="right"))].encoding

    def answers(self, model: TextClassifier) -> Iterator[Answer]:
        """Of each job, once the block has settled."""
        sizes = [job.asked for job in self.jobs]
        parts = {name: torch.split_with_sizes(part, sizes) for name, part in self._asked().items()}
        logits = parts.pop(("logits", ""), [torch.empty(0, 0)] * len(sizes))
        for number, job in enumerate(self.jobs):
            rest: dict[str, dict[str, Any]] = {"units": {}, "rest": {}, "rows": {}}
            for (kind, name), part in parts.items():
                rest[kind][name] = part[number][:, : job.encoding.n_units] if kind == "units" else part[number]
            yield Answer(job.question, logits[number], **rest, outputs=model.outputs, threshold=model.threshold)

    def _asked(self) -> dict[tuple[str, str], Tensor]:
        """The answers to all rows that were asked for, in the order of the jobs."""
        parts = self.block.parts
        if sum(job.asked for job in self.jobs) == self._count and all(job.inverse is None for job in self.jobs):
            return parts  # every row is new, and in this order
        by_block: dict[Block, list[int]] = {}
        for number, (block, _) in enumerate(self._borrowed):
            by_block.setdefault(block, []).append(number)
        at, sources = np.array([place for _, place in self._borrowed], np.int64), []
        behind, end = np.empty(len(at), np.int64), self._count
        for block, numbers in by_block.items():
            block.settle()  # whoever asked for it may have stopped before it came
            behind[numbers] = np.arange(end, end + len(numbers))
            end += len(numbers)
            sources.append((block, torch.from_numpy(at[numbers])))
        places = [
            rows if job.inverse is None else rows[job.inverse]
            for job, rows in zip(self.jobs, self._places, strict=True)
        ]  # fmt: skip
        index = np.concatenate(places)
        index[index < 0] = behind[-1 - index[index < 0]]
        chosen = torch.from_numpy(index)
        asked: dict[tuple[str, str], Tensor] = {}
        for name in parts or sources[0][0].parts:
            own = [parts[name]] if parts else []
            asked[name] = joined([*own, *(block.parts[name][rows] for block, rows in sources)])[chosen]
        return asked
