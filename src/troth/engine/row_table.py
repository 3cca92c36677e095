"""The rows that probes ask for: each distinct one is read once, or found among those that are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from troth.core.outputs import PREDICTED, strongest
from troth.core.types import Encoding
from troth.engine.answers import AnswerBuffer, Answers, joined
from troth.engine.asked_rows import AskedRows, Group, Ints
from troth.engine.probes import ProbeBatch
from troth.engine.row_cache import Block, RowCache
from troth.engine.row_layout import RowLayout
from troth.models import TextClassifier


class RowTable:
    """The rows of the probes of one group; `layout` has those that are to be read, None where all are known."""

    def __init__(self, probes: Sequence[ProbeBatch], group: Group, model: TextClassifier, cache: RowCache) -> None:
        self.asked, self.model, self._cache = AskedRows(probes, group), model, cache
        self.buffer = AnswerBuffer()
        self._is_few = self.asked.counts <= cache.few  # [questions]
        is_whole_or_none = self.asked.keep.dtype == np.bool_
        self._is_remembered = self.asked.is_named and self.asked.readout.remembered and is_whole_or_none
        chosen, self._inverse = self.asked.distinct()
        self._known: dict[int, tuple[Block, list[int]]] = {}  # rows of earlier answers
        known = self._find_known(chosen)
        is_read = np.ones(len(chosen), np.bool_)
        is_read[known] = False
        self._read = chosen[is_read]
        # Of each distinct row its place among those that are read, or behind them among those that are known.
        self._place = np.empty(len(chosen), np.int64)
        self._place[is_read] = np.arange(len(self._read))
        self._place[known] = np.arange(len(self._read), len(chosen))
        self._draws = self.asked.draws[self._read]  # of each row that is read
        self.layout = RowLayout(self.asked, self._read, model) if len(self._read) else None

    def _find_known(self, chosen: Ints) -> list[int]:
        """The places of rows whose answers are known, in the order in which `_known` has them."""
        if not self._is_remembered:
            return []
        asked, cache = self.asked, self._cache
        # Of a text as it is, rows may be inputs that were explained again once they had lost so much.
        erased_too = [question.base is None and cache.has_erased(question.encoding) for question in asked.questions]
        is_candidate = (asked.is_unchanged | np.array(erased_too, np.bool_)[asked.owner])[chosen]
        places: dict[int, list[int]] = {}
        for place in np.flatnonzero(is_candidate).tolist():
            row = chosen[place : place + 1]
            owner = int(asked.owner[row[0]])
            encoding, about = asked.encodings[owner], asked.about[owner]
            if asked.is_input[row[0]]:
                found = cache.whole(encoding, about)
            else:
                found = cache.erased(encoding, about, asked.kept(row))
            if found is not None:
                block, number = found
                self._known.setdefault(id(block), (block, []))[1].append(number)
                places.setdefault(id(block), []).append(place)
        return [place for some in places.values() for place in some]

    def settle(self) -> None:
        """Waits for the answers, and averages those to the draws of each row."""
        self.buffer.settle()
        if (self._draws > 1).any():
            self.buffer.average(torch.from_numpy(self._draws), self.model.outputs)

    def encoding_of(self, row: int) -> Encoding:
        """Of a row of the buffer."""
        return self.asked.encodings[int(self.asked.owner[self._read[row]])]

    def answers(self) -> Iterator[Answers]:
        """The answers to each probe, once the buffer has settled."""
        self._remember()
        parts = self.buffer.parts
        if self._known:
            known = [(block, torch.tensor(numbers)) for block, numbers in self._known.values()]
            parts = {
                name: joined([*([parts[name]] if name in parts else []), *(each[name][rows] for each, rows in known)])
                for name in known[0][0]
            }
        if self._known or self._inverse is not None:
            index = torch.from_numpy(self._place if self._inverse is None else self._place[self._inverse])
            parts = {name: part[index] for name, part in parts.items()}
        sizes = [int(probe.counts.sum()) for probe in self.asked.probes]
        split = {name: torch.split_with_sizes(part, sizes) for name, part in parts.items()}
        logits = split.pop(("logits", ""), [torch.empty(0, 0)] * len(sizes))
        for number, probe in enumerate(self.asked.probes):
            values: dict[str, Any] = {"outputs": self.model.outputs, "threshold": self.model.threshold}
            values |= {"units": {}, "rest": {}, "rows": {}}
            widest = max((question.n_units for question in probe.questions), default=0)
            for (kind, name), part in split.items():
                values[kind][name] = part[number][:, :widest] if kind == "units" else part[number]
            yield Answers(probe.questions, probe.counts, logits[number], **values)

    def _remember(self) -> None:
        """Notes what was said of inputs as they are and with everything erased, and of questions with few rows."""
        if not self._is_remembered:
            return
        asked = self.asked
        is_kept = asked.is_unchanged | (asked.per_row(asked.keep) == 0) | self._is_few[asked.owner]
        places = np.flatnonzero(is_kept[self._read])
        if not len(places):
            return
        index = torch.from_numpy(places)
        block = {name: part[index] for name, part in self.buffer.parts.items()}  # without holding on to other rows
        classes = strongest(block["logits", ""], self.model.outputs).tolist() if asked.readout.about_target else []
        rows = self._read[places]
        begins = np.flatnonzero(np.diff(asked.owner[rows], prepend=-1))  # rows of one question lie together
        for begin, own in zip(begins.tolist(), np.split(rows, begins[1:]), strict=True):
            owner = int(asked.owner[own[0]])
            question, about = asked.questions[owner], asked.about[owner]
            for number in np.flatnonzero(asked.is_input[own]).tolist():
                row = block, begin + number
                self._cache.add_whole(question.encoding, about, row)
                if asked.readout.about_target and question.target == PREDICTED:
                    # Now it is known which class that is, for which it will be asked again.
                    self._cache.add_whole(question.encoding, asked.about_target(question, classes[row[1]]), row)
            if not asked.is_input[own].all():
                self._cache.add_erased(question.encoding, about, asked.kept(own), (block, begin))
