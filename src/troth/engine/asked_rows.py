"""The rows that a group of probes asks for: how much of each unit every row keeps, and which rows are equal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.outputs import PREDICTED
from troth.core.types import Encoding, Question
from troth.engine.probes import ProbeBatch, Readout
from troth.maskings import Masking

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Group = tuple[Readout, Masking, Masking | None]  # the readout, the masking, and an earlier, different masking


def group_of(probe: ProbeBatch, default: Masking) -> Group:
    """The key of the probes that share batches with this one.

    Units that a question has lost may have been erased by another masking. That masking is then applied first, and the
    probe's masking after it. If both are the same, one application erases everything.
    """
    masking = probe.masking or default
    before = [question.erased_by or default for question in probe.questions if question.base is not None]
    assert all(each is before[0] or each == before[0] for each in before), "a batch was erased by several maskings"
    return probe.readout, masking, before[0] if before and before[0] != masking else None


class AskedRows:
    """The rows of all probes of one group, in the order of the probes and their questions."""

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
        self.has_base = np.array([question.base is not None for question in self.questions], np.bool_)  # [questions]
        self.counts = np.concatenate([probe.counts for probe in probes])  # [questions] rows of each
        self.owner = np.repeat(np.arange(len(self.counts)), self.counts)  # [rows] index of the question
        self.non_unit_keep = self._non_unit_keep()  # [rows], None = everything is kept
        # [rows, most units] boolean where no unit fades; 1 for units beyond those of a text.
        self.keep, unchanged = self._effective_keep()
        whole = self.keep if self.keep.dtype == np.bool_ else self.keep == 1
        no_more = True if self.non_unit_keep is None else self.non_unit_keep == 1
        self.is_unchanged: Bools = np.logical_and(unchanged.all(1), no_more)  # [rows] erases nothing new
        self.is_whole: Bools = np.logical_and(whole.all(1), no_more)  # [rows] the masking has nothing to erase
        # [rows] the text as it is, which no masking changes
        self.is_input: Bools = self.is_whole & ~(self.has_base & (self.erased_by is not None))[self.owner]
        # Whether equal values of `keep` make equal rows.
        self.can_repeat = self.non_unit_keep is None and not self.masking.stochastic

    def _effective_keep(self) -> tuple[NDArray[Any], Bools]:
        """[rows, most units] How much of each unit a row keeps, and whether that is all that its question has left."""
        asked = self._asked_keep()
        fixed = np.arange(asked.shape[1]) >= self.n_units[:, None]  # [questions, most units] cannot be erased
        for number, encoding in enumerate(self.encodings):
            if encoding.has_tokenless:
                fixed[number, : encoding.n_units] |= encoding.tokenless.numpy()
        is_fixed = fixed[self.owner]
        left: Any = True  # everything is left, or another masking erases the rest
        if self.erased_by is None and self.has_base.any():
            fades = bool(((self.left != 0) & (self.left != 1)).any())
            left = self.left.astype(np.float32 if fades else asked.dtype)[self.owner]
        keep = np.where(is_fixed, True, asked * left)
        return self._whole_or_faded(keep), (keep == left) | is_fixed

    def _asked_keep(self) -> NDArray[Any]:
        """[rows, most units] The `keep` values of all probes."""
        shape = len(self.owner), int(self.n_units.max(initial=0))
        is_boolean = all(probe.keep.dtype == np.bool_ for probe in self.probes)
        keep: NDArray[Any] = np.ones(shape, np.bool_ if is_boolean else np.float32)
        start = 0
        for probe in self.probes:
            count, width = len(probe.keep), min(probe.keep.shape[1], shape[1])
            keep[start : start + count, :width] = probe.keep[:, :width]
            start += count
        return keep

    def _whole_or_faded(self, keep: NDArray[Any]) -> NDArray[Any]:
        """Booleans where every unit is kept or erased; refuses fractions if the masking only erases whole units."""
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
        given = [(probe.non_unit_keep, len(probe.keep)) for probe in self.probes]
        return np.concatenate([np.ones(rows, np.float32) if keep is None else keep for keep, rows in given])

    @cached_property
    def left(self) -> NDArray[np.float32]:
        """[questions, most units] what is left of each unit."""
        return padded([question.left for question in self.questions], self.n_units, 1)

    @cached_property
    def subjects(self) -> list[Hashable]:
        """[questions] Everything that the answers depend on besides the text and `keep`."""
        return [self.subject_of(question, question.target) for question in self.questions]

    def subject_of(self, question: Question, target: int) -> Hashable:
        """The entry of `subjects` for a question, or for the same question about another target."""
        subject: Hashable = (target, question.against) if self.readout.about_target else None
        if self.masking.draws:
            subject = subject, question.seed
        if self.erased_by is None or question.base is None:
            return subject
        return subject, question.base.numpy().tobytes(), self.base_key(question)

    @cached_property
    def draws(self) -> Ints:
        """[rows] how many random texts stand for each row; answers are averaged over them."""
        counts = np.ones(len(self.owner), np.int64)
        if self.readout.averaged:
            if self.masking.draws:
                counts[~self.is_whole] = self.masking.draws
            if self.erased_by is not None and self.erased_by.draws:
                counts[self.has_base[self.owner]] = max(self.masking.draws, self.erased_by.draws)
        return counts

    def base_key(self, question: Question) -> int:
        """The random-generator key of the masking that erased units before, which draws the same for every row."""
        before = self.erased_by
        if before is not None and before.draws:
            return text_key(before, question)
        return 0 if before is None or not before.stochastic else question.draws(catalog.spec(before, full=True)).key

    def names_of(self, rows: Ints, predicted: Sequence[int] | None = None) -> list[tuple[Encoding, Hashable]]:
        """The text of each row, and a cache key made of its subject and its erased units (only for boolean `keep`).

        `predicted` has the predicted classes of these rows: questions about "predicted" then get the keys of questions
        about these classes.
        """
        owners, erased = self.owner[rows].tolist(), np.packbits(~self.keep[rows], axis=1)
        subjects = [self.subjects[owner] for owner in owners]
        if predicted is not None:
            questions = [self.questions[owner] for owner in owners]
            targets = [new if q.target == PREDICTED else q.target for q, new in zip(questions, predicted, strict=True)]
            subjects = [self.subject_of(*each) for each in zip(questions, targets, strict=True)]
        keys = ((subject, bits.tobytes().rstrip(b"\0")) for subject, bits in zip(subjects, erased, strict=True))
        return [(self.encodings[owner], key) for owner, key in zip(owners, keys, strict=True)]

    def distinct(self) -> tuple[Ints, Ints | None]:
        """The first of each set of equal rows, and for every row the index of its set (None = all rows differ)."""
        everything = np.arange(len(self.owner))
        if not self.can_repeat or not len(everything):
            return everything, None
        first: dict[Hashable, int] = {}  # the first question with this text and subject
        texts = zip(map(id, self.encodings), self.subjects, strict=True)
        same = np.array([first.setdefault(text, number) for number, text in enumerate(texts)])
        may_repeat = len(first) < len(self.questions) or not all(probe.distinct for probe in self.probes)
        if not may_repeat and not any(encoding.has_tokenless for encoding in self.encodings):
            return everything, None
        values, owner = self._values(), same[self.owner]
        order = np.lexsort((values, owner))  # a stable sort keeps the first of equal rows first
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (np.diff(values[order]) != 0) | (np.diff(owner[order]) != 0)
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.cumsum(is_new) - 1
        return order[is_new], inverse

    def _values(self) -> NDArray[np.uint64 | np.int64]:
        """[rows] an integer for each row; rows of one question with equal integers keep the same units."""
        packed = np.packbits(self.keep, axis=1) if self.keep.dtype == np.bool_ else self.keep.view(np.uint8)
        # Search methods ask for so many rows that sorting them byte by byte would take as long as a fast model does, so
        # rows of up to 8 bytes are compared as integers.
        if packed.shape[1] <= 8:
            return np.pad(packed, ((0, 0), (0, 8 - packed.shape[1]))).view(">u8")[:, 0].astype(np.uint64)
        whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
        return np.unique(whole, return_inverse=True)[1].reshape(-1)


def text_key(masking: Masking, question: Question) -> int:
    """The random-generator key of a masking's draws for one text; draw i does not depend on the number of draws."""
    return draws.key(question.seed, question.encoding.example.id, catalog.name_of(masking))


def padded(values: Sequence[Tensor], sizes: Ints, filler: int) -> NDArray[Any]:
    """[sequences, longest] several sequences as one array, padded on the right."""
    inside = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    joined = torch.cat(list(values)).numpy()
    array = np.full(inside.shape, filler, joined.dtype)
    array[inside] = joined
    return array
