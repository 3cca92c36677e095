"""The rows that a model has to read, on its device: sorted by length, gathered and erased a batch at a time.

Everything that rows are made of is copied to the device once. Batches are gathered there, so nothing is done row by row
in Python and nothing waits for the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core import catalog, draws
from troth.core.memory import moved, moved_together
from troth.core.types import PROMPT, Rows, spread
from troth.engine.asked_rows import AskedRows, Ints, padded, text_key
from troth.engine.probes import positions
from troth.models import TextClassifier


class RowLayout:
    """Given rows of an `AskedRows`, sorted by length: row i here is given row `order[i]`.

    If a masking draws several texts for a row, each draw counts as a given row of its own, next to the others.
    """

    def __init__(self, asked: AskedRows, given: Ints, model: TextClassifier) -> None:
        self.asked, self.model = asked, model
        draws_of_row = asked.draws[given]
        draw, given = positions(draws_of_row), np.repeat(given, draws_of_row)
        self._n_tokens = np.array([encoding.n_tokens for encoding in asked.encodings], np.int64)
        lengths = self._lengths(given)
        # The shortest first: if memory runs out, it does so after short rows have shown how much fits.
        self.order = np.argsort(lengths, kind="stable")
        rows, draw = given[self.order], draw[self.order]
        self.lengths = lengths[self.order]  # [rows] tokens after erasing
        self.questions = asked.owner[rows]  # [rows] index of the question
        self._is_whole = asked.is_whole[rows]
        drawn_by = draw if asked.masking.draws else positions(asked.counts)[rows]
        questions, encodings = asked.questions, asked.encodings
        of_question = [
            self._n_tokens,
            np.array([question.target for question in questions]),
            np.array([-1 if question.against is None else question.against for question in questions]),
            np.array([-1 if encoding.asked is None else encoding.asked[0] for encoding in encodings]),
            self._keys(),
            np.array([asked.base_key(question) for question in questions] if asked.erased_by else self._n_tokens * 0),
        ]
        self._has_asked = bool((of_question[3] >= 0).any())
        types = [encoding.token_types for encoding in encodings if encoding.token_types is not None]
        self._of_question, self._of_row, self._ids, self._units, *self._types = moved_together(
            [
                np.column_stack(of_question),
                np.column_stack([self.questions, drawn_by, draw]),
                padded([encoding.ids for encoding in encodings], self._n_tokens, model.filler_id),
                padded([encoding.units for encoding in encodings], self._n_tokens, -1),
                *([padded(types, self._n_tokens, 0)] if types else []),
            ],
            model.device,
        )
        self._keep = moved(torch.from_numpy(asked.keep[rows]), model.device)
        self._non_unit_keep = self._left = None
        if asked.non_unit_keep is not None:
            self._non_unit_keep = moved(torch.from_numpy(asked.non_unit_keep[rows]), model.device)
        if asked.erased_by is not None:
            self._left = moved(torch.from_numpy(asked.left), model.device)

    def _keys(self) -> Ints:
        """[questions] Keys of the random generators that the masking draws from; 0 if it draws nothing."""
        asked, masking = self.asked, self.asked.masking
        if masking.draws:
            return np.array([text_key(masking, question) for question in asked.questions])
        if not masking.stochastic:
            return np.zeros_like(self._n_tokens)
        spec = catalog.spec(masking, full=True)
        pairs = ((probe, question) for probe in asked.probes for question in probe.questions)
        return np.array([draws.key(q.seed, q.encoding.example.id, probe.purpose, spec) for probe, q in pairs])

    def _lengths(self, rows: Ints) -> Ints:
        """[rows] the number of tokens of each of these rows after erasing."""
        asked, owner = self.asked, self.asked.owner[rows]
        lengths = self._n_tokens[owner]
        # Only one of the two maskings may shorten rows.
        if asked.masking.shortens:
            return lengths - self._erased_tokens(asked.keep[rows], owner)
        if asked.erased_by is not None and asked.erased_by.shortens:
            return lengths - self._erased_tokens(asked.left, np.arange(len(asked.left)))[owner]
        return lengths

    def _erased_tokens(self, keep: NDArray[Any], owner: Ints) -> Ints:
        """[rows] how many tokens are removed with the erased units."""
        encodings = self.asked.encodings
        tokens = np.zeros((len(encodings), keep.shape[1]), np.int32)
        for number, encoding in enumerate(encodings):
            tokens[number, : encoding.n_units] = encoding.tokens_per_unit
            if encoding.asked is not None and (unit := int(encoding.units[encoding.asked[0]])) >= 0:
                tokens[number, unit] -= 1  # the token whose label is explained stays
        erased: Ints = np.einsum("ru,ru->r", keep == 0, tokens[owner], dtype=np.int64)
        return erased

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, start: int, stop: int) -> Rows:
        """A batch of rows, erased."""
        part, asked = slice(start, stop), self.asked
        numbers, after = self.questions[part], self.lengths[part]
        width, n_units = int(self._n_tokens[numbers].max()), self.widest(start, stop)
        question, row, draw = self._of_row[part].unbind(1)
        lengths, target, against, place, key, base_key = self._of_question[question].unbind(1)
        is_random = asked.masking.stochastic or asked.masking.draws
        rows = Rows(
            encodings=[asked.encodings[number] for number in numbers.tolist()],
            ids=self._ids[question, :width],
            units=self._units[question, :width],
            lengths=lengths,
            target=target,
            against=against,
            keys=draws.row_keys(key, row) if is_random else torch.zeros_like(row),
            token_types=self._types[0][question, :width] if self._types else None,
            asked=place[:, None] == torch.arange(width, device=row.device) if self._has_asked else None,
            width=int(after.max()),
            is_even=bool((after == after[0]).all()),
            lengths_after=after,
        )
        keep = self._keep[part, :n_units].float()
        if asked.erased_by is not None:
            assert self._left is not None
            left = self._left[question, :n_units]
            before = replace(rows, keys=draws.row_keys(base_key, draw) if asked.erased_by.draws else base_key)
            rows = replace(asked.erased_by.erase(before, spread(left, rows.units), self.model), keys=rows.keys)
            rows = replace(rows, kept=keep * left)
        if self._is_whole[part].all():
            return rows
        non_unit_keep = 1.0 if self._non_unit_keep is None else self._non_unit_keep[part, None]
        kept = spread(keep, rows.units, non_unit_keep).masked_fill(rows.units == PROMPT, 1)
        erased: Rows = asked.masking.erase(rows, kept, self.model)
        return erased if erased.kept is not None else replace(erased, kept=keep)

    def widest(self, start: int, stop: int) -> int:
        """The most units of any text in a batch."""
        return int(self.asked.n_units[self.questions[start:stop]].max())
