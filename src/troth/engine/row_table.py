"""The rows that probes ask for, ready to be read: each distinct row once, sorted by length, erased a batch at a time.

Everything that the rows are made of lies on the device once, and a batch is gathered there, so nothing is done row by
row in Python and nobody waits for the device.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.memory import moved
from troth.core.outputs import PREDICTED, strongest
from troth.core.types import PROMPT, Encoding, Question, Rows, spread
from troth.engine.answers import AnswerBuffer, Answers, joined
from troth.engine.probes import ProbeBatch, Readout
from troth.engine.row_cache import Row, RowCache, RowName, rows_of
from troth.maskings import Masking
from troth.models import TextClassifier

Ints = NDArray[np.int64]
Group = tuple[Readout, Masking, Masking | None]  # what is read, how units are erased, and how others were before


def group_of(probe: ProbeBatch, default: Masking) -> Group:
    """Probes that share it share batches.

    What a question lacks was erased before, by another masking: first that, then this. By the same: one operation does
    both.
    """
    masking = probe.masking or default
    before = [question.erased_by or default for question in probe.questions if question.base is not None]
    assert all(each is before[0] or each == before[0] for each in before), "a batch was erased in several ways"
    return probe.readout, masking, before[0] if before and before[0] != masking else None


class RowTable:
    """The rows of the probes of one group; `table` has the question, number and length of each row to be read."""

    def __init__(
        self, probes: Sequence[ProbeBatch], group: Group, number: int, model: TextClassifier, cache: RowCache
    ) -> None:
        self.probes, self.model, self._number, self._cache = probes, model, number, cache
        self.readout, self.masking, self.erased_by = group
        self.buffer = AnswerBuffer()
        self.questions = [question for probe in probes for question in probe.questions]
        self.encodings = [question.encoding for question in self.questions]
        for encoding in self.encodings:
            _require_readable(encoding)
        self.n_units = np.array([encoding.n_units for encoding in self.encodings], np.int64)
        self.lengths = np.array([encoding.n_tokens for encoding in self.encodings], np.int64)
        counts = np.concatenate([probe.counts for probe in probes])
        self._is_few = counts <= cache.few  # [questions]
        self._owner = np.repeat(np.arange(len(counts)), counts)  # [rows] whose question each is
        self._sizes = self.n_units[self._owner]
        self._begins = starts(self._sizes)
        asked = _one_kind([probe.keep for probe in probes])
        self._is_unchanged = _per_row(asked != 1, self._begins, self._sizes) == 0
        self._keep = self._effective(asked, counts)
        self._check_fractions()
        beside = self._non_unit_keep()
        if beside is not None:
            self._is_unchanged &= beside == 1
        self._is_whole = _per_row(self._keep != 1, self._begins, self._sizes) == 0
        if beside is not None:
            self._is_whole &= beside == 1
        # A row is known by what it keeps where nothing else changes it.
        self._is_named = beside is None and not self.masking.stochastic
        self._is_remembered = self._is_named and self.readout.remembered and self._keep.dtype == np.bool_
        self._chosen, self._inverse = self._distinct_rows()
        self._lay_out(counts, beside)

    def _effective(self, asked: NDArray[Any], counts: Ints) -> NDArray[Any]:
        """What is kept of what the questions have left; a unit that no token joins cannot be erased."""
        apart = self.erased_by is not None  # what is gone is erased in its own way, before
        erased = [number for number, each in enumerate(self.questions) if each.base is not None and not apart]
        tokenless = [number for number, encoding in enumerate(self.encodings) if encoding.has_tokenless]
        if not erased and not tokenless:
            return asked
        fades = any(bool(((base != 0) & (base != 1)).any()) for base in (self.questions[i].left for i in erased))
        keep = asked.astype(np.float32 if fades else asked.dtype)
        begins = starts(counts * self.n_units)

        def part(number: int) -> NDArray[Any]:
            """[rows, units] of one question, as a view."""
            shape = int(counts[number]), int(self.n_units[number])
            return keep[begins[number] : begins[number] + shape[0] * shape[1]].reshape(shape)

        for number in erased:
            part(number)[...] *= self.questions[number].left.numpy().astype(keep.dtype)
        for number in tokenless:
            part(number)[:, self.encodings[number].tokenless.numpy()] = 1
        return keep

    def _check_fractions(self) -> None:
        """Keeps booleans where every unit is kept or erased; refuses fractions where the masking has none."""
        if self._keep.dtype == np.bool_:
            return
        kept = self._keep == 1
        if (kept | (self._keep == 0)).all():
            self._keep = kept
        elif self.masking.whole:
            name = catalog.name_of(self.masking)
            raise TrothError(f"{name} erases whole units; to fade them use zero, mix, soft, gaussian or attention")

    def _non_unit_keep(self) -> NDArray[np.float32] | None:
        """[rows] how much is kept of tokens in no unit; None = all of them everywhere."""
        if all(probe.non_unit_keep is None for probe in self.probes):
            return None
        given = [(probe.non_unit_keep, int(probe.counts.sum())) for probe in self.probes]
        each = [np.ones(rows, np.float32) if beside is None else beside for beside, rows in given]
        return np.concatenate(each)

    def _distinct_rows(self) -> tuple[Ints, Ints | None]:
        """The rows without those that repeat another, and which of these each row asked for is (None = itself)."""
        everything = np.arange(len(self._owner))
        if not self._is_named or not len(everything):
            return everything, None
        first: dict[Hashable, int] = {}  # question about the same
        same = [first.setdefault((id(each.encoding), self._about(each)), i) for i, each in enumerate(self.questions)]
        may_repeat = len(first) < len(self.questions) or not all(probe.distinct for probe in self.probes)
        if not may_repeat and not any(encoding.has_tokenless for encoding in self.encodings):
            return everything, None
        names = _names(self._keep, self._sizes, int(self.n_units.max(initial=0)))
        owner = np.array(same)[self._owner]
        order = np.lexsort((names, owner))  # stable: of equal ones the first comes first
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (np.diff(names[order]) != 0) | (np.diff(owner[order]) != 0)
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.cumsum(is_new) - 1
        return order[is_new], inverse

    def _about(self, question: Question) -> Hashable:
        """What the rows of a question are about besides their text and what they keep."""
        target = (question.target, question.against) if self.readout.about_target else None
        if self.erased_by is None or question.base is None:
            return target
        return target, question.base.numpy().tobytes(), self._base_key(question)

    def _base_key(self, question: Question) -> int:
        """What was erased at random before stays the same in every row."""
        before = self.erased_by
        return 0 if before is None or not before.stochastic else question.draws(catalog.spec(before, full=True)).key

    def _row_name(self, row: int, question: Question) -> RowName:
        about = self._number, self._about(question)
        if self._is_whole[row] and (self.erased_by is None or question.base is None):
            return about, None
        begin = self._begins[row]
        kept = self._keep[begin : begin + self._sizes[row]]
        return about, np.packbits(kept).tobytes()

    def _lay_out(self, counts: Ints, beside: NDArray[np.float32] | None) -> None:
        """The rows that are to be read, on the device."""
        self._known = self._remembered()
        is_known = np.zeros(len(self._chosen), np.bool_)
        is_known[list(self._known)] = True
        self._asked = self._chosen[~is_known]
        # Of each distinct row its place among those that are read, or behind them among those that are known.
        self._place = np.empty(len(self._chosen), np.int64)
        self._place[~is_known] = np.arange(len(self._asked))
        self._place[is_known] = np.arange(len(self._asked), len(self._chosen))
        if not len(self._asked):  # all is known: nothing has to lie on the device
            self.order, self.table = self._asked, np.zeros((0, 3), np.int64)
            return
        after = self._lengths_after(self._asked)
        # The shortest first: memory runs short, if at all, only once the long ones come.
        self.order = np.argsort(after, kind="stable")
        rows, after = self._asked[self.order], after[self.order]
        question, model = self._owner[rows], self.model
        row = rows - starts(counts)[question]
        self.table = np.column_stack([question, row, after])
        self._is_whole_row = self._is_whole[rows]
        targets = [[each.target, -1 if each.against is None else each.against] for each in self.questions]
        of_question = [starts(self.lengths), self.lengths, self.n_units, np.array(targets).reshape(-1, 2)]
        self._of_question = self._moved(np.column_stack(of_question))
        self._of_row = self._moved(np.column_stack([question, row, self._begins[rows]]))
        # What lies behind the last value of each stands for padding.
        self._kept = self._joined([torch.from_numpy(self._keep)], 1)
        self._ids = self._joined([encoding.ids for encoding in self.encodings], model.filler_id)
        self._units = self._joined([encoding.units for encoding in self.encodings], -1)
        types = [encoding.token_types for encoding in self.encodings if encoding.token_types is not None]
        self._types = self._joined(types, 0) if types else None
        self._beside = None if beside is None else self._moved(beside[rows])
        self._keys = self._moved(np.array(list(self._draw_keys()))) if self.masking.stochastic else None
        if self.erased_by is not None:
            self._base_keys = self._moved(np.array([self._base_key(each) for each in self.questions]))
            self._left = self._joined([question.left for question in self.questions], 1)
            self._left_begins = self._moved(starts(self.n_units))

    def _remembered(self) -> dict[int, Row]:
        """The distinct rows whose answers are known, by their place."""
        if not self._is_remembered:
            return {}
        known: dict[int, Row] = {}
        # Of a text as it is, rows may be inputs that were explained again once they had lost so much.
        asks = [each.base is None or self._is_few[number] for number, each in enumerate(self.questions)]
        erased_too = np.array([asks[i] and self._cache.has_erased(each) for i, each in enumerate(self.encodings)])
        is_candidate = (self._is_unchanged | erased_too[self._owner])[self._chosen]
        for place in np.flatnonzero(is_candidate).tolist():
            row = int(self._chosen[place])
            owner = int(self._owner[row])
            found = self._cache.find(self.encodings[owner], self._row_name(row, self.questions[owner]))
            if found is not None:
                known[place] = found
        return known

    def _draw_keys(self) -> Iterator[int]:
        """The key of each question's random draws."""
        spec = catalog.spec(self.masking, full=True)
        for probe in self.probes:
            for question in probe.questions:
                yield draws.key(question.seed, question.encoding.example.id, probe.purpose, spec)

    def _lengths_after(self, rows: Ints) -> Ints:
        """[rows] how many tokens each row has once it is erased."""
        after = self._lengths_under(self.masking, self._keep, self._begins, self._owner)[rows]
        if self.erased_by is None:
            return after
        left = np.concatenate([question.left.numpy() for question in self.questions])
        before = self._lengths_under(self.erased_by, left, starts(self.n_units), np.arange(len(self.questions)))
        return np.minimum(after, before[self._owner[rows]])  # at most one of the two deletes

    def _lengths_under(self, masking: Masking, keep: NDArray[Any], begins: Ints, owner: Ints) -> Ints:
        if type(masking).lengths is Masking.lengths:
            return self.lengths[owner]
        sizes = self.n_units[owner]
        if not masking.shortens:
            parts = np.split(keep, begins[1:]) if len(begins) else []
            rows = [torch.from_numpy(part)[None].float() for part in parts]
            each = [masking.lengths(self.encodings[number], row) for number, row in zip(owner, rows, strict=True)]
            return torch.cat(each).numpy() if each else np.zeros(0, np.int64)
        first = starts(self.n_units)
        units = np.concatenate([encoding.units.numpy() for encoding in self.encodings])
        numbers = np.where(units < 0, -1, units + np.repeat(first, self.lengths))
        tokens = np.bincount(numbers[units >= 0], minlength=int(self.n_units.sum()))  # of each unit
        of_entry = np.arange(len(keep)) + np.repeat(first[owner] - begins, sizes)
        return self.lengths[owner] - _per_row(tokens[of_entry] * (keep == 0), begins, sizes)

    def __len__(self) -> int:
        """How many rows are to be read."""
        return len(self.table)

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from one place of the table to another, erased."""
        part = slice(start, stop)
        numbers, after = self.table[part, 0], self.table[part, 2]
        width, n_units = int(self.lengths[numbers].max()), self.widest(start, stop)
        question, row, keep_begins = self._of_row[part].unbind(1)
        begins, lengths, counts, target, against = self._of_question[question].unbind(1)
        tokens = _places(begins, lengths, width, len(self._ids) - 1)
        rows = Rows(
            encodings=PerRow(self.encodings, numbers),
            ids=self._ids[tokens],
            units=self._units[tokens],
            lengths=lengths,
            target=target,
            against=against,
            keys=torch.zeros_like(row) if self._keys is None else draws.row_keys(self._keys[question], row),
            token_types=None if self._types is None else self._types[tokens],
            width=int(after.max()),
            is_even=bool((after == after[0]).all()),
            lengths_after=after,
        )
        keep = self._kept[_places(keep_begins, counts, n_units, len(self._kept) - 1)].float()
        if self.erased_by is not None:
            left = self._left[_places(self._left_begins[question], counts, n_units, len(self._left) - 1)]
            based = replace(rows, keys=self._base_keys[question])
            rows = replace(self.erased_by.erase(based, spread(left, rows.units), self.model), keys=rows.keys)
            rows = replace(rows, kept=keep * left)
        if self._is_whole_row[part].all():
            return rows
        beside: float | Tensor = 1.0 if self._beside is None else self._beside[part, None]
        kept = spread(keep, rows.units, beside).masked_fill(rows.units == PROMPT, 1)
        erased: Rows = self.masking.erase(rows, kept, self.model)
        return erased if erased.kept is not None else replace(erased, kept=keep)

    def widest(self, start: int, stop: int) -> int:
        """Units of the example that has the most, of those from one place to another."""
        return int(self.n_units[self.table[start:stop, 0]].max())

    def encoding_of(self, row: int) -> Encoding:
        """Of a row of the buffer."""
        return self.encodings[int(self._owner[self._asked[row]])]

    def answers(self) -> list[Answers]:
        """The answers to each probe, once the buffer has settled."""
        self._remember()
        parts, index = self.buffer.parts, self._place if self._inverse is None else self._place[self._inverse]
        if self._known:
            known = list(self._known.values())
            parts = {name: joined([*([parts[name]] if name in parts else []), *(row[name] for row in known)])
                     for name in known[0]}  # fmt: skip
        if self._known or self._inverse is not None:
            chosen = torch.from_numpy(index)
            parts = {name: part[chosen] for name, part in parts.items()}
        return list(self._dealt_out(parts))

    def _dealt_out(self, parts: dict[tuple[str, str], Tensor]) -> Iterator[Answers]:
        sizes = [int(probe.counts.sum()) for probe in self.probes]
        split = {name: torch.split_with_sizes(part, sizes) for name, part in parts.items()}
        logits = split.pop(("logits", ""), [torch.empty(0, 0)] * len(sizes))
        for number, probe in enumerate(self.probes):
            values: dict[str, dict[str, Tensor]] = {"units": {}, "rest": {}, "rows": {}}
            widest = max((question.n_units for question in probe.questions), default=0)
            for (kind, name), part in split.items():
                values[kind][name] = part[number][:, :widest] if kind == "units" else part[number]
            model = self.model
            yield Answers(
                probe.questions,
                probe.counts,
                logits[number],
                **values,
                outputs=model.outputs,
                threshold=model.threshold,
            )

    def _remember(self) -> None:
        """Notes what was said of inputs as they are and with everything erased, and of questions with few rows."""
        if not self._is_remembered:
            return
        is_empty = _per_row(self._keep, self._begins, self._sizes) == 0
        places = np.flatnonzero((self._is_unchanged | is_empty | self._is_few[self._owner])[self._asked]).tolist()
        if not places:
            return
        for place, row in zip(places, rows_of(self.buffer.parts, places), strict=True):
            number = int(self._asked[place])
            owner = int(self._owner[number])
            question = self.questions[owner]
            self._cache.add(question.encoding, self._row_name(number, question), row)
            if self.readout.about_target and question.target == PREDICTED:
                # Now it is known which class that is, for which it will be asked again.
                predicted = replace(question, target=int(strongest(row["logits", ""], self.model.outputs)[0]))
                self._cache.add(question.encoding, self._row_name(number, predicted), row)

    def _joined(self, parts: Sequence[Tensor], filler: int) -> Tensor:
        return self._moved(torch.cat([*parts, torch.full((1,), filler, dtype=parts[0].dtype)]))

    def _moved(self, values: Tensor | NDArray[Any]) -> Tensor:
        return moved(values if isinstance(values, Tensor) else torch.from_numpy(values), self.model.device)


class PerRow(Sequence[Encoding]):
    """The encoding of each row; most batches are never asked."""

    def __init__(self, encodings: Sequence[Encoding], numbers: Ints) -> None:
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


def _require_readable(encoding: Encoding) -> None:
    """One line for an example that has no tokens to be read."""
    if not encoding.readable:
        raise TrothError(
            f"example {encoding.example.id} was read back without its model; "
            "use Attribution.from_dict(facts, model) to ask about it"
        )


def _one_kind(keeps: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """All of them, one after another; booleans where all are."""
    if len(keeps) == 1 or len({keep.dtype for keep in keeps}) == 1:
        return np.concatenate(keeps)
    return np.concatenate([keep.astype(np.float32) for keep in keeps])


def _per_row(values: NDArray[Any], begins: Ints, sizes: Ints) -> Ints:
    """The sum over each row's units; 0 of none."""
    sums, some = np.zeros(len(sizes), np.int64), sizes > 0
    if some.any():
        sums[some] = np.add.reduceat(values, begins[some], dtype=np.int64)
    return sums


def _names(keep: NDArray[Any], sizes: Ints, widest: int) -> NDArray[np.uint64 | np.int64]:
    """[rows] a number for each row; rows of one question that have the same number keep the same."""
    padded = np.zeros((len(sizes), widest), keep.dtype)
    padded[np.arange(widest) < sizes[:, None]] = keep
    # Eight units a byte: searches ask about so many rows that sorting them would cost as much as a fast model.
    raw = np.packbits(padded, axis=1) if keep.dtype == np.bool_ else padded.view(np.uint8)
    if raw.shape[1] <= 8:
        names = np.zeros((len(sizes), 8), np.uint8)
        names[:, : raw.shape[1]] = raw
        return names.view(">u8")[:, 0].astype(np.uint64)
    whole = np.ascontiguousarray(raw).view(np.dtype((np.void, raw.shape[1])))[:, 0]
    return np.unique(whole, return_inverse=True)[1].reshape(-1)


def starts(sizes: Sequence[int] | Ints) -> Ints:
    """Where each of several lists begins once they are joined."""
    ends: Ints = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes


def _places(begins: Tensor, counts: Tensor, width: int, filler: int) -> Tensor:
    """[rows, width] places from each begin on, so many as it counts; then the filler's."""
    steps = torch.arange(width, device=begins.device)
    return torch.where(steps < counts[:, None], begins[:, None] + steps, filler)
