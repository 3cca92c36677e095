"""All rows for one group of probes (same readout and masking): each distinct row is read once, or cached."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from troth.core.outputs import strongest
from troth.core.types import Encoding
from troth.engine.answers import AnswerBuffer, Answers, Name, joined
from troth.engine.asked_rows import AskedRows, Group, Ints
from troth.engine.probes import ProbeBatch
from troth.engine.row_layout import RowLayout
from troth.models import TextClassifier

CachedRow = tuple[Mapping[Name, Tensor], int]  # the answers to some rows, [rows, ...], and the index of one of them
Cached = WeakKeyDictionary[Encoding, dict[Hashable, CachedRow]]


class RowCache:
    """Answers of one group that methods ask for again; they are dropped together with their encoding."""

    def __init__(self) -> None:
        self.inputs: Cached = WeakKeyDictionary()  # to whole texts, by the key of `names_of`
        self.erased: Cached = WeakKeyDictionary()  # to empty texts and to those explained again, likewise


class RowTable:
    """The rows of one group; `layout` has those that the model has to read, None if all answers are cached."""

    def __init__(self, probes: Sequence[ProbeBatch], group: Group, model: TextClassifier, cache: RowCache) -> None:
        self.asked, self.model, self._cache = AskedRows(probes, group), model, cache
        self.buffer = AnswerBuffer()
        asked = self.asked
        self._is_cached = asked.can_repeat and asked.readout.remembered and asked.keep.dtype == np.bool_
        rows, self._inverse = asked.distinct()
        known = sorted(self._find(rows), key=lambda each: id(each[1][0])) if self._is_cached else []
        self._known = [row for _, row in known]  # cached rows, those of one tensor next to each other
        places = [place for place, _ in known]
        self._read = np.delete(rows, places)
        # [distinct rows] where the answer to each is: those that are read come first, then the cached ones.
        self._place = np.empty(len(rows), np.int64)
        self._place[np.delete(np.arange(len(rows)), places)] = np.arange(len(self._read))
        self._place[places] = np.arange(len(self._read), len(rows))
        self.layout = RowLayout(asked, self._read, model) if len(self._read) else None

    def _find(self, rows: Ints) -> Iterator[tuple[int, CachedRow]]:
        """The indices of the rows whose answers are cached, with the answers."""
        asked, cache = self.asked, self._cache
        # An erased input that was explained again may occur again as an erased row of a question about the whole text.
        has_erased = np.array([encoding in cache.erased for encoding in asked.encodings], np.bool_)[asked.owner]
        may_be_known = has_erased & (asked.is_unchanged | ~asked.has_base[asked.owner])
        for cached, candidates in ((cache.inputs, asked.is_input), (cache.erased, may_be_known & ~asked.is_input)):
            places = np.flatnonzero(candidates[rows]) if cached else rows[:0]
            for place, (encoding, name) in zip(places.tolist(), asked.names_of(rows[places]), strict=True):
                if (row := cached.get(encoding, {}).get(name)) is not None:
                    yield place, row

    def settle(self) -> None:
        """Waits for the answers, and averages them over the random draws of each row."""
        self.buffer.settle()
        draws = self.asked.draws[self._read]
        if (draws > 1).any():
            self.buffer.average(torch.from_numpy(draws), self.model.outputs)

    def encoding_of(self, row: int) -> Encoding:
        """The encoding of a row of the buffer."""
        return self.asked.encodings[int(self.asked.owner[self._read[row]])]

    def answers(self) -> Iterator[Answers]:
        """The answers to each probe, once the buffer has settled."""
        if self._is_cached:
            self._remember()
        parts = self.buffer.parts
        if self._known:
            selected = [dict(parts)] if parts else []
            for _, rows in groupby(self._known, key=lambda row: id(row[0])):
                block, numbers = zip(*rows, strict=True)
                index = torch.tensor(numbers)
                selected.append({name: part[index] for name, part in block[0].items()})
            parts = {name: joined([each[name] for each in selected]) for name in selected[0]}
        if self._known or self._inverse is not None:
            index = torch.from_numpy(self._place if self._inverse is None else self._place[self._inverse])
            parts = {name: part[index] for name, part in parts.items()}
        sizes = [len(probe.keep) for probe in self.asked.probes]
        split = {name: torch.split_with_sizes(part, sizes) for name, part in parts.items()}
        logits = split.pop(("logits", ""), [torch.empty(0, 0)] * len(sizes))
        for number, probe in enumerate(self.asked.probes):
            values: dict[str, dict[str, Tensor]] = {"units": {}, "rest": {}, "rows": {}}
            widest = max((question.n_units for question in probe.questions), default=0)
            for (kind, name), part in split.items():
                values[kind][name] = part[number][:, :widest] if kind == "units" else part[number]
            yield Answers(
                probe.questions, probe.counts, logits[number], **values,
                outputs=self.model.outputs, threshold=self.model.threshold,
            )  # fmt: skip

    def _remember(self) -> None:
        """Caches the answers to whole inputs, to erased inputs that were explained again, and to empty inputs."""
        asked = self.asked
        is_empty = asked.keep.sum(1) + asked.n_units[asked.owner] == asked.keep.shape[1]
        places = np.flatnonzero((asked.is_unchanged | is_empty)[self._read])
        if not len(places):
            return
        rows, index = self._read[places], torch.from_numpy(places)
        block = {name: part[index] for name, part in self.buffer.parts.items()}  # a copy, so other rows can be freed
        names = [asked.names_of(rows)]
        if asked.readout.about_target:
            # The class that "predicted" stands for is now known, and questions will be asked about that class.
            names.append(asked.names_of(rows, strongest(block["logits", ""], self.model.outputs).tolist()))
        for number, is_input in enumerate(asked.is_input[rows].tolist()):
            cached = self._cache.inputs if is_input else self._cache.erased
            for encoding, name in (each[number] for each in names):
                cached.setdefault(encoding, {}).setdefault(name, (block, number))
