"""The rows that some probes ask for: how much of every unit each one keeps, and which of them are the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.types import Question
from troth.engine.probes import ProbeBatch, Readout
from troth.maskings import Masking

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


class AskedRows:
    """The rows of the probes of one group, one after another; those of one question lie together."""

    def __init__(self, probes: Sequence[ProbeBatch], group: Group) -> None:
        self.probes = probes
        self.readout, self.masking, self.erased_by = group
        self.questions = [question for probe in probes for question in probe.questions]
        self.encodings = [question.encoding for question in self.questions]
        for encoding in self.encodings:
            if not encoding.readable:
                raise TrothError(
                    f"example {encoding.example.id} was read back without its model; "
                    "use Attribution.from_dict(facts, model) to ask about it"
                )
        self.n_units = np.array([encoding.n_units for encoding in self.encodings], np.int64)  # [questions]
        self.counts = np.concatenate([probe.counts for probe in probes])  # [questions] how many rows each has
        self.owner = np.repeat(np.arange(len(self.counts)), self.counts)  # [rows] the number of its question
        self.sizes = self.n_units[self.owner]  # [rows]
        self.begins = starts(self.sizes)  # [rows] where each begins in `keep`
        kinds = {probe.keep.dtype for probe in probes}
        given = [probe.keep if len(kinds) == 1 else probe.keep.astype(np.float32) for probe in probes]
        asked = np.concatenate(given)
        self.non_unit_keep = self._non_unit_keep()  # [rows], or None where all of it is kept
        no_more = True if self.non_unit_keep is None else self.non_unit_keep == 1
        self.keep = self._whole_or_faded(self._effective(asked))
        self.is_unchanged = (self.per_row(asked != 1) == 0) & no_more  # nothing more is erased than the question lacks
        self.is_whole = (self.per_row(self.keep != 1) == 0) & no_more  # nothing is erased by this masking
        # A row is known by what it keeps where nothing else changes it.
        self.is_named = self.non_unit_keep is None and not self.masking.stochastic

    def _effective(self, asked: NDArray[Any]) -> NDArray[Any]:
        """What is kept of what the questions have left; a unit that no token joins cannot be erased."""
        is_erased = self.erased_by is None and any(question.base is not None for question in self.questions)
        tokenless = [number for number, encoding in enumerate(self.encodings) if encoding.has_tokenless]
        if not is_erased and not tokenless:
            return asked
        keep = asked
        if is_erased:  # else what is gone is erased in its own way, before
            left = np.concatenate([question.left.numpy() for question in self.questions])  # [units]
            fades = bool(((left != 0) & (left != 1)).any())
            first = starts(self.n_units)[self.owner] - self.begins  # [rows] from places in `keep` to units
            unit = np.arange(len(asked)) + np.repeat(first, self.sizes)
            dtype = np.dtype(np.float32) if fades else asked.dtype
            keep = asked.astype(dtype) * left.astype(dtype)[unit]
        if tokenless:
            keep = keep.copy()
            parts = split_rows(keep, self.counts, self.n_units)
            for number in tokenless:
                parts[number][:, self.encodings[number].tokenless.numpy()] = 1
        return keep

    def _whole_or_faded(self, keep: NDArray[Any]) -> NDArray[Any]:
        """As booleans where every unit is kept or erased; refuses fractions where the masking has none."""
        if keep.dtype == np.bool_:
            return keep
        kept = keep == 1
        if bool((kept | (keep == 0)).all()):
            return np.asarray(kept)
        if self.masking.whole:
            name = catalog.name_of(self.masking)
            raise TrothError(f"{name} erases whole units; to fade them use zero, mix, soft, gaussian or attention")
        return keep

    def _non_unit_keep(self) -> NDArray[np.float32] | None:
        if all(probe.non_unit_keep is None for probe in self.probes):
            return None
        given = [(probe.non_unit_keep, int(probe.counts.sum())) for probe in self.probes]
        return np.concatenate([np.ones(rows, np.float32) if keep is None else keep for keep, rows in given])

    def per_row(self, values: NDArray[Any]) -> Ints:
        """The sum of a value of every unit over each row's units; 0 of none."""
        sums, some = np.zeros(len(self.sizes), np.int64), self.sizes > 0
        if some.any():
            sums[some] = np.add.reduceat(values, self.begins[some], dtype=np.int64)
        return sums

    @cached_property
    def about(self) -> list[Hashable]:
        """[questions] what its rows are about besides their text and what they keep."""
        return [self.about_target(question, question.target) for question in self.questions]

    def about_target(self, question: Question, target: int) -> Hashable:
        """The same where it is asked about another class."""
        chosen: Hashable = (target, question.against) if self.readout.about_target else None
        if self.masking.draws:
            chosen = chosen, question.seed
        if self.erased_by is None or question.base is None:
            return chosen
        return chosen, question.base.numpy().tobytes(), self.base_key(question)

    @cached_property
    def draws(self) -> Ints:
        """[rows] how many texts each one stands for, over which its answers are averaged."""
        counts = np.ones(len(self.owner), np.int64)
        if not self.readout.averaged:
            return counts
        if self.masking.draws:
            counts[~self.is_whole] = self.masking.draws
        if self.erased_by is not None and self.erased_by.draws:
            is_erased = np.array([question.base is not None for question in self.questions], np.bool_)
            counts[is_erased[self.owner]] = max(self.masking.draws, self.erased_by.draws)
        return counts

    def base_key(self, question: Question) -> int:
        """What was erased at random before stays the same in every row."""
        before = self.erased_by
        if before is not None and before.draws:
            return text_key(before, question)
        return 0 if before is None or not before.stochastic else question.draws(catalog.spec(before, full=True)).key

    @cached_property
    def _packed(self) -> NDArray[np.uint8]:
        """[rows, bytes] what each row keeps; eight units a byte where all are kept or erased."""
        widest = int(self.n_units.max(initial=0))
        padded = np.zeros((len(self.sizes), widest), self.keep.dtype)
        padded[np.arange(widest) < self.sizes[:, None]] = self.keep
        return np.packbits(padded, axis=1) if self.keep.dtype == np.bool_ else padded.view(np.uint8)

    def kept(self, rows: Ints) -> bytes:
        """What rows of one question keep, by which they are known in other tables too; as many bytes for each."""
        return self._packed[rows, : -(-int(self.sizes[rows[0]]) // 8)].tobytes()

    @cached_property
    def is_input(self) -> NDArray[np.bool_]:
        """[rows] nothing of the text is erased, neither by this masking nor before."""
        is_text = np.array([self.erased_by is None or question.base is None for question in self.questions], np.bool_)
        return np.asarray(self.is_whole & is_text[self.owner])

    def distinct(self) -> tuple[Ints, Ints | None]:
        """The rows without those that repeat another, and which of these each row asked for is (None = itself)."""
        everything = np.arange(len(self.owner))
        if not self.is_named or not len(everything):
            return everything, None
        first: dict[Hashable, int] = {}  # question about the same
        names = zip(map(id, self.encodings), self.about, strict=True)
        same = np.array([first.setdefault(name, number) for number, name in enumerate(names)])
        may_repeat = len(first) < len(self.questions) or not all(probe.distinct for probe in self.probes)
        if not may_repeat and not any(encoding.has_tokenless for encoding in self.encodings):
            return everything, None
        numbers, owner = self._numbers(), same[self.owner]
        order = np.lexsort((numbers, owner))  # stable: of equal ones the first comes first
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (np.diff(numbers[order]) != 0) | (np.diff(owner[order]) != 0)
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.cumsum(is_new) - 1
        return order[is_new], inverse

    def _numbers(self) -> NDArray[np.uint64 | np.int64]:
        """[rows] rows of one question that have the same number keep the same."""
        packed = self._packed
        # Searches ask about so many rows that sorting their bytes would cost as much as a fast model.
        if packed.shape[1] <= 8:
            return np.pad(packed, ((0, 0), (0, 8 - packed.shape[1]))).view(">u8")[:, 0].astype(np.uint64)
        whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
        return np.unique(whole, return_inverse=True)[1].reshape(-1)


def text_key(masking: Masking, question: Question) -> int:
    """The key of draws that depend on nothing but the seed and the text; draw i is the same however many there are."""
    return draws.key(question.seed, question.encoding.example.id, catalog.name_of(masking))


def split_rows(keep: NDArray[Any], counts: Ints, n_units: Ints) -> list[NDArray[Any]]:
    """Views of the rows of each question: [rows, units]."""
    parts = np.split(keep, np.cumsum(counts * n_units)[:-1])
    return [part.reshape(shape) for part, *shape in zip(parts, counts.tolist(), n_units.tolist(), strict=True)]


def starts(sizes: Sequence[int] | Ints) -> Ints:
    """Where each of several lists begins once they are joined."""
    ends: Ints = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes
