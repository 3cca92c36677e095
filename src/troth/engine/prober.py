"""The engine: collects the probes of all running methods, runs the model on their rows, and returns the answers.

Rows are sorted by length and cut into batches that fit into memory, so short texts are not padded to the longest one. A
batch that runs out of memory is halved. Equal rows are read once. Random draws are keyed by row, so none of this
changes a number. On a GPU, the model reads half of the texts while Python prepares the probes of the other half.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.types import Rows
from troth.engine.answers import AnswerBuffer
from troth.engine.asked_rows import Group, group_of
from troth.engine.probes import Cost, ProbeBatch, Reading, Readout
from troth.engine.routines import Routine, Running
from troth.engine.row_layout import RowLayout
from troth.engine.row_table import RowCache, RowTable
from troth.maskings import Masking
from troth.models import TextClassifier

T = TypeVar("T")
# The routines that wait for answers, the group of each of their probes, and the tables of the rows to read.
_Round: TypeAlias = tuple[list[Running[Any]], list[Group], dict[Group, RowTable]]
PENDING_ELEMENTS = 1 << 25  # entries of `keep` that may be waiting at a time
# Maximum per batch on a GPU. Larger batches are no faster, and batches of similar size can reuse each other's memory.
_TOKENS = 1 << 17
ROWS = 1 << 13  # rows that keep a GPU busy while the next probes are prepared


class Prober:
    """Answers probes about erased inputs with one model and a default masking."""

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
        self.memory = memory or usual  # approximate bytes per batch
        self.tokens = _TOKENS if on_gpu else None  # limit per batch, padding included; None = limited by memory only
        # Texts in progress at a time: the launch overhead of a GPU is the same for few texts and for many.
        self.window = window or (2 if on_gpu else 1) * model.examples_under_way
        self.pipeline_depth = 2 if on_gpu else 1  # groups of texts that take turns
        self.cost = Cost()  # so far
        self._caches: dict[Group, RowCache] = {}

    @property
    def texts_at_once(self) -> int:
        """The number of texts that share a round."""
        return -(-self.window // self.pipeline_depth)

    def run(self, routines: Iterable[Routine[T]], texts: int = 1) -> Iterator[T]:
        """The result of every routine, in order; `texts` is the maximum number of texts per routine.

        Only a window of the texts is in progress at a time.
        """
        source = iter(routines)
        running: deque[Running[T]] = deque()
        rounds: deque[_Round] = deque()  # in progress on the model
        at_once, window = max(1, self.texts_at_once // texts), max(self.pipeline_depth, self.window // texts)
        while True:
            ready = [each for each in running if each.can_advance][:at_once]
            while len(ready) < at_once and len(running) < window and (routine := next(source, None)) is not None:
                running.append(Running(routine))
                ready.append(running[-1])
            if not running:
                return
            if started := self._start(ready):
                rounds.append(started)
            if rounds and (len(rounds) == self.pipeline_depth or not ready):
                self._finish(rounds.popleft())
            while running and running[0].done:
                yield running.popleft().result

    def ask(self, routine: Routine[T]) -> T:
        """Runs one routine and returns its result."""
        return next(self.run([routine]))

    def forget_erased(self) -> None:
        """Keeps only the cached answers to whole inputs.

        Whole inputs are read in batches of their own, so later batches, and with them the last bits of the results, are
        those of a new prober.
        """
        for cache in self._caches.values():
            cache.erased.clear()

    def _start(self, ready: Iterable[Running[Any]]) -> _Round | None:
        """Takes the next probes and starts reading them; does not wait for the results."""
        waiting: list[Running[Any]] = []
        order: list[Group] = []
        probes: dict[Group, list[ProbeBatch]] = {}
        elements = rows = 0
        for each in ready:
            is_full = elements > PENDING_ELEMENTS or (self.pipeline_depth > 1 and rows > ROWS)
            if is_full or not each.advance():
                continue
            waiting.append(each)
            for probe in each.probes:
                batch = probe.batch()
                order.append(group_of(batch, self.masking))
                probes.setdefault(order[-1], []).append(batch)
                elements += batch.keep.size
                rows += len(batch.keep)
        tables = {}
        for group, same in probes.items():
            tables[group] = RowTable(same, group, self.model, self._caches.setdefault(group, RowCache()))
            self._read(tables[group])
        return (waiting, order, tables) if waiting else None

    def _finish(self, done: _Round) -> None:
        """Waits for the answers and passes them to the routines."""
        waiting, order, tables = done
        for table in tables.values():
            table.settle()
            self._refuse_undefined(table)
        answers = {group: table.answers() for group, table in tables.items()}
        groups = iter(order)
        for each in waiting:
            each.receive([next(answers[next(groups)]) for _ in each.probes])

    def _read(self, table: RowTable) -> None:
        """Reads all rows of a table that are not cached."""
        if (layout := table.layout) is None:
            return
        readout = table.asked.readout
        for masking in filter(None, {table.asked.masking, table.asked.erased_by}):
            self.model.ready(masking.level, backward=readout.backward)
        with self.model.at_rest(attentions=readout.attentions):
            for start, stop in self._cut(layout.lengths, readout):
                self._answer(layout, table.buffer, start, stop)
        table.buffer.close(layout.order)

    def _cut(self, lengths: NDArray[np.int64], readout: Readout) -> Iterator[tuple[int, int]]:
        """Yields (start, stop) of batches that fit into memory, where padding costs less than another batch would."""
        # Shortest first, so that the memory budget shrinks before the longest rows are read.
        costs = {length: readout.bytes_per_row(self.model, length) for length in np.unique(lengths).tolist()}
        padding = self.model.padding_worth if self.model.pads else 0
        if readout.only_forward and self.model.pads and self.model.packs:
            padding = len(lengths) * int(lengths[-1])  # no limit: packed rows need no padding
        start = 0
        while start < len(lengths):
            most = max(1, self.memory // max(1, costs[int(lengths[start])]))
            if self.tokens is not None:
                most = min(most, max(1, self.tokens // max(1, int(lengths[start]))))
            ahead = lengths[start : start + most]
            # A jump in length that would cost more padding than a new batch.
            longer = np.flatnonzero(np.diff(ahead) * np.arange(1, len(ahead)) > padding)
            end = start + (int(longer[0]) + 1 if len(longer) else len(ahead))
            while end > start + 1 and (end - start) * costs[int(lengths[end - 1])] > self.memory:
                end = start + max(1, self.memory // costs[int(lengths[end - 1])])
            yield start, end
            start = end

    def _answer(self, layout: RowLayout, buffer: AnswerBuffer, start: int, stop: int) -> None:
        if (answered := self._try(layout, start, stop)) is None:
            self.memory = max(self.memory // 2, 1)
            half = start + (stop - start) // 2
            self._answer(layout, buffer, start, half)
            self._answer(layout, buffer, half, stop)
            return
        rows, reading = answered
        passes = self.model.passes(rows)
        self.cost.batches += 1
        self.cost.forward += passes + reading.more.forward
        self.cost.backward += passes * layout.asked.readout.backward + reading.more.backward
        self.cost.side_model_rows += rows.side_model_rows + reading.more.side_model_rows
        buffer.add(reading, rows, layout.widest(start, stop))

    def _try(self, layout: RowLayout, start: int, stop: int) -> tuple[Rows, Reading] | None:
        """Reads a batch; None if it does not fit. A separate function, because a caught error keeps tensors alive."""
        try:
            rows = layout.rows(start, stop)
            return rows, layout.asked.readout.read(self.model, rows)
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            if stop - start > 1:
                return None
            example = layout.asked.encodings[layout.questions[start]].example
            raise TrothError(
                f"example {example.id}: a single row of {layout.lengths[start]} tokens does not fit "
                "into memory; load the model with a smaller max_length or dtype=bfloat16"
            ) from None

    def _refuse_undefined(self, table: RowTable) -> None:
        if undefined := table.buffer.undefined():
            what, row = undefined
            raise TrothError(
                f"{self.model.name} gave NaN or infinite {what} for example "
                f"{table.encoding_of(row).example.id}; check its weights, or load it with dtype=float32"
            )
