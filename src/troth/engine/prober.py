"""The engine: gathers what all examples ask, builds erased inputs a batch at a time, and deals out the answers.

Batches are cut by memory from rows sorted by length, so nothing is padded to the longest text of the data; a batch that
does not fit is halved. Rows asked twice are computed once. Draws are keyed by row, so none of this changes a number.
A GPU works while the next looks are prepared: half of the examples under way wait for it, the others for Python.
"""

import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.types import Encoding, Rows
from troth.engine.answers import Block
from troth.engine.groups import Group, Known
from troth.engine.jobs import Job, Running
from troth.engine.looks import Ask, Reading, Want
from troth.engine.many import AskMany, Batch, RunningMany
from troth.engine.rows import Sheet
from troth.maskings import Masking
from troth.models import TextClassifier

T = TypeVar("T")
PENDING_ELEMENTS = 1 << 25  # keep entries that may wait at a time
# Of a batch on a GPU. More are no faster, and batches of one size find their memory where the one before had it.
_TOKENS = 1 << 17
ROWS = 1 << 13  # enough to keep a GPU busy while the next ones are prepared


@dataclass
class Cost:
    """What has been asked of the model so far."""

    forward: int = 0  # rows
    backward: int = 0  # rows
    batches: int = 0
    beside: int = 0  # rows through another model than the one explained: an attribution model's own passes


class Prober:
    """A model and a default masking; answers questions about erased inputs, many examples a batch."""

    def __init__(
        self,
        model: TextClassifier,
        masking: str | Masking = "mask_token",
        *,
        memory: int | None = None,
        window: int | None = None,
    ) -> None:
        arguments.of_kind("model", model, TextClassifier, "what load_model gives")
        self.model = model
        self.masking: Masking = catalog.build("maskings", masking)
        on_gpu = model.device.type == "cuda"
        usual = int(free(model.device) * 0.25) if on_gpu else 128 << 20
        self.memory = memory or usual  # bytes a batch may take, roughly
        self.tokens = _TOKENS if on_gpu else None  # a batch may have, with padding; None = as many as fit
        # Examples under way at a time: a GPU needs as long to be told what to do for many as for few.
        self.window = window or (2 if on_gpu else 1) * model.examples_under_way
        self.shifts = 2 if on_gpu else 1  # parts of the window that take turns
        self.cost = Cost()
        self._answers: weakref.WeakKeyDictionary[Encoding, Known] = weakref.WeakKeyDictionary()
        self._numbers: dict[Hashable, int] = {}  # of groups

    def run(self, asks: Iterable[Ask[T]]) -> Iterator[T]:
        """The result of every ask, in order; only a window of them is under way at a time."""
        source = iter(asks)
        running: deque[Running[T]] = deque()
        rounds: deque[_Round] = deque()  # that the model is working on
        most = -(-self.window // self.shifts)
        while True:
            ready = [ask for ask in running if ask.can_advance][:most]
            while len(ready) < most and len(running) < self.window and (ask := next(source, None)) is not None:
                running.append(Running(ask))
                ready.append(running[-1])
            if not running:
                return
            if started := self._start(ready):
                rounds.append(started)
            if rounds and (len(rounds) == self.shifts or not ready):
                self._finish(rounds.popleft())
            while running and running[0].done:
                yield running.popleft().result

    def run_many(self, asks: Iterable[AskMany[T]]) -> Iterator[T]:
        """As `run`, of asks that are about many examples each: a GPU works on one while another is prepared."""
        source = iter(asks)
        running: deque[RunningMany[T]] = deque()
        begun: deque[RunningMany[T]] = deque()  # those that the model works for, in that order
        while True:
            while len(running) < self.shifts and (ask := next(source, None)) is not None:
                running.append(RunningMany(ask))
                self._advance(running[-1], begun)
            if not running:
                return
            if begun:
                first = begun.popleft()
                assert first.batch is not None
                first.batch.block.settle()
                self._refuse_undefined(first.batch.block, first.batch.encoding_of)
                self._advance(first, begun)
            while running and running[0].done:
                yield running.popleft().result

    def _advance(self, ask: RunningMany[T], begun: deque[RunningMany[T]]) -> None:
        """Takes the next looks of an ask and has the model begin with them."""
        looks = ask.advance()
        if looks is not None:
            ask.batch = Batch(looks, self.masking, self.model)
            if len(ask.batch.table):
                self._read(ask.batch, ask.batch.block, ask.batch.order)
            begun.append(ask)

    def ask(self, ask: Ask[T]) -> T:
        """The result of one ask."""
        return next(self.run([ask]))

    def forget_erased(self) -> None:
        """Keeps only the answers about whole inputs.

        Those are asked for first and alone, so the batches of what follows are those of a new prober, and its numbers
        the same to the last bit.
        """
        for known in self._answers.values():
            known.forget_erased()

    def _start(self, ready: Iterable[Running[Any]]) -> "_Round | None":
        """Takes the next looks and has the model begin with them; nobody waits for it."""
        waiting: list[Running[Any]] = []
        groups: dict[int, Group] = {}
        elements = rows = 0
        try:
            for ask in ready:
                is_full = elements > PENDING_ELEMENTS or (self.shifts > 1 and rows > ROWS)
                look = None if is_full else ask.advance()
                if look is None:
                    continue
                waiting.append(ask)
                elements += look.keep.numel()
                rows += len(look.keep)
            if not waiting:
                return None
            order: list[Group] = []
            for ask in waiting:
                assert ask.look is not None
                job = Job(ask.look, self.masking)
                number = self._numbers.setdefault(job.group, len(self._numbers))
                group = groups.get(number) or groups.setdefault(number, Group(number))
                group.add(job, self._known(job))
                order.append(group)
            for group in groups.values():
                self._compute(group)
        except BaseException:
            self._answers.clear()  # nobody may be pointed at rows that were never computed
            raise
        return _Round(waiting, order, list(groups.values()))

    def _known(self, job: Job) -> Known | None:
        """Where the rows of a job are remembered, if they are."""
        if not job.is_remembered:
            return None
        known = self._answers.get(job.encoding)
        if known is None:
            known = self._answers[job.encoding] = Known()
        return known

    def _finish(self, done: "_Round") -> None:
        """Waits for the answers and deals them out."""
        try:
            for group in done.groups:
                group.block.settle()
                self._refuse_undefined(group.block, group.encoding_of)
        except BaseException:
            self._answers.clear()
            raise
        answers = {group: group.answers(self.model) for group in done.groups}
        for ask, group in zip(done.waiting, done.order, strict=True):
            ask.receive(next(answers[group]))

    def _compute(self, group: Group) -> None:
        """All rows that the group asks for."""
        table = group.table()
        if len(table) == 0:
            return
        order = np.argsort(table[:, 2], kind="stable")
        self._read(Sheet(group.jobs, table[order], self.model), group.block, order)

    def _read(self, sheet: Sheet, block: Block, order: NDArray[np.int64]) -> None:
        """All rows of a sheet, whose row i is row order[i] of the block."""
        want, start = sheet.want, 0
        for masking in filter(None, {sheet.masking, sheet.erased_by}):
            self.model.ready(masking.level, backward=want.backward)
        with self.model.at_rest(attentions=want.attentions):
            for batch in self._cut(sheet.table, want):
                self._answer(block, sheet, start, start + len(batch))
                start += len(batch)
        block.close(order)

    def _cut(self, table: NDArray[np.int64], want: Want) -> Iterator[NDArray[np.int64]]:
        """Batches that fit into memory and in which padding costs less than one more batch would."""
        # Longest first would waste nothing either; shortest first lets the budget shrink before the big ones come.
        lengths = table[:, 2]
        costs = {length: want.bytes_per_row(self.model, length) for length in np.unique(lengths).tolist()}
        padding = self.model.padding_worth if self.model.pads else 0
        if want.only_forward and self.model.pads and self.model.packs:
            padding = len(table) * int(lengths[-1])  # there is none
        start = 0
        while start < len(table):
            most = max(1, self.memory // max(1, costs[int(lengths[start])]))
            if self.tokens is not None:
                most = min(most, max(1, self.tokens // max(1, int(lengths[start]))))
            ahead = lengths[start : start + most]
            # The first row that is longer by so much that those before it had better stay among themselves.
            longer = np.flatnonzero(np.diff(ahead) * np.arange(1, len(ahead)) > padding)
            end = start + (int(longer[0]) + 1 if len(longer) else len(ahead))
            while end > start + 1 and (end - start) * costs[int(lengths[end - 1])] > self.memory:
                end = start + max(1, self.memory // costs[int(lengths[end - 1])])
            yield table[start:end]
            start = end

    def _answer(self, block: Block, sheet: Sheet, start: int, stop: int) -> None:
        reading = self._try(sheet, start, stop)
        if reading is None:
            self.memory = max(self.memory // 2, 1)
            half = start + (stop - start) // 2
            self._answer(block, sheet, start, half)
            self._answer(block, sheet, half, stop)
            return
        self.cost.batches += 1
        more, passes = reading[1].more, self.model.passes(reading[0])
        self.cost.forward += passes + more.forward
        self.cost.backward += (passes if sheet.want.backward else 0) + more.backward
        self.cost.beside += more.beside
        block.add(reading[1], reading[0], sheet.widest(start, stop))

    def _try(self, sheet: Sheet, start: int, stop: int) -> tuple[Rows, Reading] | None:
        """None where the batch does not fit; apart, since a caught error holds on to the tensors it is about."""
        try:
            rows = sheet.rows(start, stop)
            return rows, sheet.want.read(self.model, rows)
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            if stop - start > 1:
                return None
            job, _, length = sheet.table[start]
            raise TrothError(
                f"example {sheet.encodings[job].example.id}: a single row of {length} tokens does not fit "
                "into memory; load the model with a smaller max_length or dtype=bfloat16"
            ) from None

    def _refuse_undefined(self, block: Block, encoding_of: Callable[[int], Encoding]) -> None:
        if undefined := block.undefined():
            what, row = undefined
            raise TrothError(
                f"{self.model.name} gave NaN or infinite {what} for example "
                f"{encoding_of(row).example.id}; check its weights, or load it with dtype=float32"
            )


@dataclass(eq=False)
class _Round:
    """Looks that the model works on: who waits, in whose group each is."""

    waiting: Sequence[Running[Any]]
    order: Sequence[Group]
    groups: Sequence[Group]
