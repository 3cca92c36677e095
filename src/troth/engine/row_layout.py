"""Rows that are to be read, on the device: the shortest first, erased a batch at a time.

Everything that the rows are made of lies on the device once, and a batch is gathered there, so nothing is done row by
row in Python and nobody waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, draws
from troth.core.memory import moved, moved_together
from troth.core.types import PROMPT, Rows, spread
from troth.engine.asked_rows import AskedRows, Ints, split_rows, starts, text_key
from troth.maskings import Masking
from troth.models import TextClassifier


class RowLayout:
    """Some of the rows that are asked for; row i here is row `order[i]` of those given.

    The draws of a row are rows of their own here, one after another before they are sorted.
    """

    def __init__(self, asked: AskedRows, given: Ints, model: TextClassifier) -> None:
        self.asked, self.model = asked, model
        counts = asked.draws[given]
        draw = np.arange(counts.sum()) - np.repeat(starts(counts), counts)  # its number among those of its row
        given = np.repeat(given, counts)
        self._lengths = np.array([encoding.n_tokens for encoding in asked.encodings], np.int64)
        after = self._lengths_after(given)
        # The shortest first: memory runs short, if at all, only once the long ones come.
        self.order = np.argsort(after, kind="stable")
        rows = given[self.order]
        self.lengths = after[self.order]  # [rows] tokens that each has once it is erased
        self.questions = asked.owner[rows]  # [rows] the number of the question
        self._is_whole = asked.is_whole[rows]
        targets = [[each.target, -1 if each.against is None else each.against] for each in asked.questions]
        of_question = [starts(self._lengths), self._lengths, asked.n_units, starts(asked.n_units), np.array(targets)]
        drawn_by = draw[self.order] if asked.masking.draws else rows - starts(asked.counts)[self.questions]
        of_row = [self.questions, drawn_by, asked.begins[rows], draw[self.order]]
        encodings = asked.encodings
        # What lies behind the last value of each stands for padding.
        numbers = [
            np.column_stack(of_question), np.column_stack(of_row),
            _joined([encoding.ids for encoding in encodings], model.filler_id),
            _joined([encoding.units for encoding in encodings], -1),
        ]  # fmt: skip
        types = [encoding.token_types for encoding in encodings if encoding.token_types is not None]
        places = [-1 if encoding.asked is None else encoding.asked[0] for encoding in encodings]
        optional = {
            "types": _joined(types, 0) if types else None,
            "asked": np.array(places) if max(places, default=-1) >= 0 else None,
            "keys": np.array(self._draw_keys()) if asked.masking.stochastic or asked.masking.draws else None,
            "base_keys": np.array([asked.base_key(each) for each in asked.questions]) if asked.erased_by else None,
        }
        numbers += [values for values in optional.values() if values is not None]
        self._of_question, self._of_row, self._ids, self._units, *more = moved_together(numbers, model.device)
        self._optional = dict(zip([name for name in optional if optional[name] is not None], more, strict=True))
        self._keep = moved(torch.from_numpy(np.append(asked.keep, asked.keep.dtype.type(1))), model.device)
        self._non_unit_keep = self._left = None
        if asked.non_unit_keep is not None:
            self._non_unit_keep = moved(torch.from_numpy(asked.non_unit_keep[rows]), model.device)
        if asked.erased_by is not None:
            self._left = moved(torch.cat([*(each.left for each in asked.questions), torch.ones(1)]), model.device)

    def _draw_keys(self) -> list[int]:
        """The key of each question's random draws."""
        if self.asked.masking.draws:
            return [text_key(self.asked.masking, question) for question in self.asked.questions]
        spec = catalog.spec(self.asked.masking, full=True)
        pairs = ((probe, question) for probe in self.asked.probes for question in probe.questions)
        return [draws.key(each.seed, each.encoding.example.id, probe.purpose, spec) for probe, each in pairs]

    def _lengths_after(self, rows: Ints) -> Ints:
        """[rows] how many tokens each row has once it is erased."""
        asked = self.asked
        after = self._lengths_under(asked.masking, asked.keep, asked.counts)[rows]
        if asked.erased_by is None:
            return after
        left = np.concatenate([question.left.numpy() for question in asked.questions])
        before = self._lengths_under(asked.erased_by, left, np.ones_like(asked.counts))
        return np.minimum(after, before[asked.owner[rows]])  # at most one of the two deletes

    def _lengths_under(self, masking: Masking, keep: NDArray[Any], counts: Ints) -> Ints:
        """Of so many rows of each question."""
        if type(masking).lengths is Masking.lengths:
            return np.repeat(self._lengths, counts)
        pairs = zip(self.asked.encodings, split_rows(keep, counts, self.asked.n_units), strict=True)
        return torch.cat([masking.lengths(each, torch.from_numpy(rows).float()) for each, rows in pairs]).numpy()

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from one place to another, erased."""
        part, asked, more = slice(start, stop), self.asked, self._optional
        numbers, after = self.questions[part], self.lengths[part]
        width, n_units = int(self._lengths[numbers].max()), self.widest(start, stop)
        question, row, keep_begins, draw = self._of_row[part].unbind(1)
        begins, lengths, counts, left_begins, target, against = self._of_question[question].unbind(1)
        tokens = _places(begins, lengths, width, len(self._ids) - 1)
        rows = Rows(
            encodings=[asked.encodings[number] for number in numbers.tolist()],
            ids=self._ids[tokens],
            units=self._units[tokens],
            lengths=lengths,
            target=target,
            against=against,
            keys=draws.row_keys(more["keys"][question], row) if "keys" in more else torch.zeros_like(row),
            token_types=more["types"][tokens] if "types" in more else None,
            asked=more["asked"][question, None] == torch.arange(width, device=row.device) if "asked" in more else None,
            width=int(after.max()),
            is_even=bool((after == after[0]).all()),
            lengths_after=after,
        )
        keep = self._keep[_places(keep_begins, counts, n_units, len(self._keep) - 1)].float()
        if asked.erased_by is not None:
            assert self._left is not None
            left = self._left[_places(left_begins, counts, n_units, len(self._left) - 1)]
            keys = more["base_keys"][question]
            before = replace(rows, keys=draws.row_keys(keys, draw) if asked.erased_by.draws else keys)
            rows = replace(asked.erased_by.erase(before, spread(left, rows.units), self.model), keys=rows.keys)
            rows = replace(rows, kept=keep * left)
        if self._is_whole[part].all():
            return rows
        non_unit_keep = 1.0 if self._non_unit_keep is None else self._non_unit_keep[part, None]
        kept = spread(keep, rows.units, non_unit_keep).masked_fill(rows.units == PROMPT, 1)
        erased: Rows = asked.masking.erase(rows, kept, self.model)
        return erased if erased.kept is not None else replace(erased, kept=keep)

    def widest(self, start: int, stop: int) -> int:
        """Units of the example that has the most, of those from one place to another."""
        return int(self.asked.n_units[self.questions[start:stop]].max())


def _joined(parts: Sequence[Tensor], filler: int) -> Ints:
    return np.append(torch.cat(list(parts)).numpy(), filler)


def _places(begins: Tensor, counts: Tensor, width: int, filler: int) -> Tensor:
    """[rows, width] places from each begin on, so many as it counts; then the filler's."""
    steps = torch.arange(width, device=begins.device)
    return torch.where(steps < counts[:, None], begins[:, None] + steps, filler)
