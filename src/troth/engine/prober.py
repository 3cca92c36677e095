"""The engine: gathers what all routines ask, builds erased inputs a batch at a time, and deals out the answers.

Batches are cut by memory from rows sorted by length, so nothing is padded to the longest text of the data; a batch that
does not fit is halved. Rows asked twice are computed once. Draws are keyed by row, so none of this changes a number.
A GPU works while the next probes are prepared: half of the texts under way wait for it, the others for Python.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.types import Rows
from troth.engine.answers import AnswerBuffer
from troth.engine.asked_rows import Group, group_of
from troth.engine.probes import ProbeBatch, Reading, Readout
from troth.engine.routines import Routine, Running
from troth.engine.row_cache import RowCache
from troth.engine.row_layout import RowLayout
from troth.engine.row_table import RowTable
from troth.maskings import Masking
from troth.models import TextClassifier

T = TypeVar("T")
PENDING_ELEMENTS = 1 << 25  # keep entries that may wait at a time
# Of a batch on a GPU. More are no faster, and batches of one size find their memory where the one before had it.
_TOKENS = 1 << 17
_FEW_ROWS = 32  # of a question, which are remembered where the model takes longer than Python
ROWS = 1 << 13  # enough to keep a GPU busy while the next ones are prepared


@dataclass
class Cost:
    """What has been asked of the model so far."""

    forward: int = 0  # rows
    backward: int = 0  # rows
    batches: int = 0
    side_model_rows: int = 0  # through another model than the one explained: an attribution model, a masking's own


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
        # Texts under way at a time: a GPU needs as long to be told what to do for many as for few.
        self.window = window or (2 if on_gpu else 1) * model.examples_under_way
        self.pipeline_depth = 2 if on_gpu else 1  # parts of the window that take turns
        self.cost = Cost()
        self._few = 0 if on_gpu else _FEW_ROWS
        self._caches: dict[Group, RowCache] = {}

    @property
    def texts_at_once(self) -> int:
        """How many texts the model works on at a time."""
        return -(-self.window // self.pipeline_depth)

    def run(self, routines: Iterable[Routine[T]], texts: int = 1) -> Iterator[T]:
        """The result of every routine, in order; `texts` is how many texts each is about, at most.

        Only a window of texts is under way at a time.
        """
        source = iter(routines)
        running: deque[Running[T]] = deque()
        rounds: deque[_Round] = deque()  # that the model is working on
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
        """The result of one routine."""
        return next(self.run([routine]))

    def forget_erased(self) -> None:
        """Keeps only what the model said of whole inputs.

        Those are asked for first and alone, so the batches of what follows are those of a new prober, and its numbers
        the same to the last bit.
        """
        for cache in self._caches.values():
            cache.forget_erased()

    def _start(self, ready: Iterable[Running[Any]]) -> "_Round | None":
        """Takes the next probes and has the model begin with them; nobody waits for it."""
        waiting: list[Running[Any]] = []
        places: list[tuple[Group, int]] = []  # of each probe: its group and its number there
        groups: dict[Group, list[ProbeBatch]] = {}
        elements = rows = 0
        for each in ready:
            is_full = elements > PENDING_ELEMENTS or (self.pipeline_depth > 1 and rows > ROWS)
            if is_full or not each.advance():
                continue
            waiting.append(each)
            for probe in each.probes:
                batch = probe.batch()
                group = group_of(batch, self.masking)
                same = groups.setdefault(group, [])
                places.append((group, len(same)))
                same.append(batch)
                elements += batch.keep.size
                rows += int(batch.counts.sum())
        if not waiting:
            return None
        tables: dict[Group, RowTable] = {}
        for group, probes in groups.items():
            cache = self._caches.setdefault(group, RowCache(self._few))
            tables[group] = RowTable(probes, group, self.model, cache)
            self._read(tables[group])
        return _Round(waiting, places, tables)

    def _finish(self, done: "_Round") -> None:
        """Waits for the answers and deals them out."""
        for table in done.tables.values():
            table.settle()
            self._refuse_undefined(table)
        answers = {group: list(table.answers()) for group, table in done.tables.items()}
        places = iter(done.places)
        for each in done.waiting:
            mine = [next(places) for _ in each.probes]
            each.receive([answers[group][number] for group, number in mine])

    def _read(self, table: RowTable) -> None:
        """All rows of a table that are not known."""
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
        """Batches that fit into memory and in which padding costs less than one more batch would: [from, to)."""
        # Longest first would waste nothing either; shortest first lets the budget shrink before the big ones come.
        costs = {length: readout.bytes_per_row(self.model, length) for length in np.unique(lengths).tolist()}
        padding = self.model.padding_worth if self.model.pads else 0
        if readout.only_forward and self.model.pads and self.model.packs:
            padding = len(lengths) * int(lengths[-1])  # there is none
        start = 0
        while start < len(lengths):
            most = max(1, self.memory // max(1, costs[int(lengths[start])]))
            if self.tokens is not None:
                most = min(most, max(1, self.tokens // max(1, int(lengths[start]))))
            ahead = lengths[start : start + most]
            # The first row that is so much longer that padding the rows before it would cost more than a batch.
            longer = np.flatnonzero(np.diff(ahead) * np.arange(1, len(ahead)) > padding)
            end = start + (int(longer[0]) + 1 if len(longer) else len(ahead))
            while end > start + 1 and (end - start) * costs[int(lengths[end - 1])] > self.memory:
                end = start + max(1, self.memory // costs[int(lengths[end - 1])])
            yield start, end
            start = end

    def _answer(self, layout: RowLayout, buffer: AnswerBuffer, start: int, stop: int) -> None:
        readout, reading = layout.asked.readout, self._try(layout, start, stop)
        if reading is None:
            self.memory = max(self.memory // 2, 1)
            half = start + (stop - start) // 2
            self._answer(layout, buffer, start, half)
            self._answer(layout, buffer, half, stop)
            return
        self.cost.batches += 1
        more, passes = reading[1].more, self.model.passes(reading[0])
        self.cost.forward += passes + more.forward
        self.cost.backward += (passes if readout.backward else 0) + more.backward
        self.cost.side_model_rows += more.side_model_rows + reading[0].side_model_rows
        buffer.add(reading[1], reading[0], layout.widest(start, stop))

    def _try(self, layout: RowLayout, start: int, stop: int) -> tuple[Rows, Reading] | None:
        """None where the batch does not fit; apart, since a caught error holds on to the tensors it is about."""
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


@dataclass(eq=False)
class _Round:
    """Probes that the model works on: who waits, where each probe is, and the rows."""

    waiting: Sequence[Running[Any]]
    places: Sequence[tuple[Group, int]]
    tables: dict[Group, RowTable]
