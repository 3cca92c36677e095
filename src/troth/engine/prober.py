"""The engine: gathers what all examples ask, builds erased inputs a batch at a time, and deals out the answers.

Batches are cut by memory from rows sorted by length, so nothing is padded to the longest text of the data; a batch that
does not fit is halved. Rows asked twice are computed once. Draws are keyed by row, so none of this changes a number.
"""

import weakref
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.types import PROMPT, Encoding, Rows, gather_units, spread
from troth.engine.jobs import Job, Running
from troth.engine.looks import Ask, Reading, Want, at_least_single
from troth.maskings import Masking
from troth.models import TextClassifier

T = TypeVar("T")
_Answers = dict[Hashable, tuple[Job, int]]  # of one example: which job has a row, and where in it

_REMEMBERED_ROWS = 32  # looks of more rows (samples, searches) seldom repeat each other
_PENDING_ELEMENTS = 1 << 25  # keep entries that may wait at a time


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
        window: int = 512,
    ) -> None:
        self.model = model
        self.masking: Masking = catalog.build("maskings", masking)
        on_gpu = model.device.type == "cuda"
        usual = int(torch.cuda.mem_get_info(model.device)[0] * 0.25) if on_gpu else 128 << 20
        self.memory = memory or usual  # bytes a batch may take, roughly
        self.window = window  # examples under way at a time
        self.cost = Cost()
        self._answers: weakref.WeakKeyDictionary[Encoding, _Answers] = weakref.WeakKeyDictionary()

    def run(self, asks: Iterable[Ask[T]]) -> Iterator[T]:
        """The result of every ask, in order; only a window of them is under way at a time."""
        source = iter(asks)
        running: deque[Running[T]] = deque()
        while True:
            while len(running) < self.window and (ask := next(source, None)) is not None:
                running.append(Running(ask))
            if not running:
                return
            self._round(running)
            while running and running[0].done:
                yield running.popleft().result

    def ask(self, ask: Ask[T]) -> T:
        """The result of one ask."""
        return next(self.run([ask]))

    def forget_erased(self) -> None:
        """Keeps only the answers about whole inputs.

        Those are asked for first and alone, so the batches of what follows are those of a new prober, and its numbers
        the same to the last bit.
        """
        for encoding, answers in self._answers.items():
            self._answers[encoding] = {key: place for key, place in answers.items() if place[0].is_whole}

    def _round(self, running: Iterable[Running[T]]) -> None:
        waiting: list[Running[T]] = []
        elements = 0
        for ask in running:
            if ask.done or elements > _PENDING_ELEMENTS:
                continue
            look = ask.advance()
            if look is not None:
                waiting.append(ask)
                elements += look.keep.numel()
        jobs = [Job(ask.look, self.masking) for ask in waiting if ask.look is not None]
        groups: dict[Hashable, list[Job]] = {}
        for job in jobs:
            self._reuse(job)
            groups.setdefault(job.group, []).append(job)
        try:
            for group in groups.values():
                self._compute(group)
        except BaseException:
            self._answers.clear()  # nobody may be pointed at rows that were never computed
            raise
        for ask, job in zip(waiting, jobs, strict=True):
            ask.answer = job.answer(self.model)
        for job in jobs:
            job.forget()

    def _reuse(self, job: Job) -> None:
        """Points rows that are known, or already asked for in this round, at the job that has them."""
        if job.masking.stochastic or len(job.keep) > _REMEMBERED_ROWS or not job.want.remembered:
            return
        answers = self._answers.setdefault(job.encoding, {})
        for row, row_key in enumerate(job.row_keys()):
            owner = answers.setdefault(row_key, (job, row))
            if owner[0] is not job:
                job.elsewhere[row] = owner

    def _compute(self, jobs: Sequence[Job]) -> None:
        """All rows of jobs that want the same of the model under the same masking."""
        parts = []
        for number, job in enumerate(jobs):
            rows = job.own_rows()
            parts.append(np.stack([np.full_like(rows, number), rows, job.lengths.numpy()[rows]], axis=1))
        table = np.concatenate(parts)
        if len(table) == 0:
            return
        table = table[np.argsort(table[:, 2], kind="stable")]
        want = jobs[0].want
        with self.model.at_rest(attentions=want.attentions):
            for batch in self._cut(table, want):
                self._answer(jobs, batch)

    def _cut(self, table: NDArray[np.int64], want: Want) -> Iterator[NDArray[np.int64]]:
        """Batches that fit into memory and in which padding costs less than one more batch would."""
        # Longest first would waste nothing either; shortest first lets the budget shrink before the big ones come.
        lengths = table[:, 2]
        costs = {length: want.bytes_per_row(self.model, length) for length in np.unique(lengths).tolist()}
        padding = self.model.padding_worth if self.model.pads else 0
        start = 0
        while start < len(table):
            most = max(1, self.memory // max(1, costs[int(lengths[start])]))
            ahead = lengths[start : start + most]
            # The first row that is longer by so much that those before it had better stay among themselves.
            longer = np.flatnonzero(np.diff(ahead) * np.arange(1, len(ahead)) > padding)
            end = start + (int(longer[0]) + 1 if len(longer) else len(ahead))
            while end > start + 1 and (end - start) * costs[int(lengths[end - 1])] > self.memory:
                end = start + max(1, self.memory // costs[int(lengths[end - 1])])
            yield table[start:end]
            start = end

    def _answer(self, jobs: Sequence[Job], batch: NDArray[np.int64]) -> None:
        reading = self._try(jobs, batch)
        if reading is None:
            self.memory = max(self.memory // 2, 1)
            half = len(batch) // 2
            self._answer(jobs, batch[:half])
            self._answer(jobs, batch[half:])
            return
        self.cost.batches += 1
        more = reading[1].more
        self.cost.forward += len(batch) + more.forward
        self.cost.backward += (len(batch) if jobs[0].want.backward else 0) + more.backward
        self.cost.beside += more.beside
        self._deal(jobs, batch, *reading)

    def _try(self, jobs: Sequence[Job], batch: NDArray[np.int64]) -> tuple[Rows, Reading] | None:
        """None where the batch does not fit; apart, since a caught error holds on to the tensors it is about."""
        try:
            rows = self._rows(jobs, batch)
            return rows, jobs[0].want.read(self.model, rows)
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            if len(batch) > 1:
                return None
            raise TrothError(
                f"example {jobs[batch[0, 0]].encoding.example.id}: a single row of {batch[0, 2]} tokens does not fit "
                "into memory; load the model with a smaller max_length or dtype=bfloat16"
            ) from None

    def _rows(self, jobs: Sequence[Job], batch: NDArray[np.int64]) -> Rows:
        """One batch of erased inputs, whatever examples its rows come from."""
        numbers, place = np.unique(batch[:, 0], return_inverse=True)
        used = [jobs[number] for number in numbers]
        place_of = torch.from_numpy(place)
        device = self.model.device
        n_units = max(job.encoding.n_units for job in used)
        keep = torch.ones(len(batch), n_units)
        others = torch.ones(len(batch))
        keys = torch.zeros(len(batch), dtype=torch.int64)
        for position, job in enumerate(used):
            chosen = torch.from_numpy(np.flatnonzero(place == position))
            picked = torch.from_numpy(batch[chosen.numpy(), 1])
            keep[chosen, : job.encoding.n_units] = job.keep[picked]
            keys[chosen] = draws.row_keys(job.key, picked)
            if job.others is not None:
                others[chosen] = job.others[picked]
        encodings = [job.encoding for job in used]
        types = [encoding.token_types for encoding in encodings]
        rows = Rows(
            encodings=[encodings[position] for position in place],
            ids=_stack([encoding.ids for encoding in encodings], self.model.filler_id)[place_of].to(device),
            units=_stack([encoding.units for encoding in encodings], -1)[place_of].to(device),
            lengths=torch.tensor([len(encoding.ids) for encoding in encodings])[place_of].to(device),
            target=torch.tensor([job.question.target for job in used])[place_of].to(device),
            against=torch.tensor([job.against for job in used])[place_of].to(device),
            keys=keys.to(device),
            token_types=None
            if types[0] is None
            else _stack([t for t in types if t is not None], 0)[place_of].to(device),
        )
        base = used[0].erased_by
        if base is not None:
            left = torch.ones(len(used), n_units)
            for position, job in enumerate(used):
                left[position, : job.encoding.n_units] = job.question.left
            fixed = torch.tensor([job.base_key for job in used])[place_of].to(device)
            gone = spread(left[place_of].to(device), rows.units)
            rows = replace(base.erase(replace(rows, keys=fixed), gone, self.model), keys=rows.keys)
            rows = replace(rows, kept=keep * left[place_of])
        if bool((keep == 1).all()) and bool((others == 1).all()):
            return rows
        kept = spread(keep.to(device), rows.units, others[:, None].to(device))
        kept = kept.masked_fill(rows.units == PROMPT, 1)
        erased: Rows = used[0].masking.erase(rows, kept, self.model)
        return erased if erased.kept is not None else replace(erased, kept=keep)

    def _deal(self, jobs: Sequence[Job], batch: NDArray[np.int64], rows: Rows, reading: Reading) -> None:
        logits = at_least_single(reading.logits).cpu()
        widest = max(encoding.n_units for encoding in rows.encodings)
        parts: dict[tuple[str, str], Tensor] = {("logits", ""): logits}
        for name, tokens in reading.tokens.items():
            summed = gather_units(tokens, rows.units, widest)
            parts["units", name] = summed.cpu()
            parts["rest", name] = (tokens.sum(1) - summed.sum(1)).cpu()
        for name, values in reading.rows.items():
            parts["rows", name] = values.cpu()
        self._refuse_undefined(jobs, batch, parts)
        for number in np.unique(batch[:, 0]):
            chosen = torch.from_numpy(np.flatnonzero(batch[:, 0] == number))
            jobs[number].store(
                torch.from_numpy(batch[chosen.numpy(), 1]), {name: part[chosen] for name, part in parts.items()}
            )

    def _refuse_undefined(
        self, jobs: Sequence[Job], batch: NDArray[np.int64], parts: dict[tuple[str, str], Tensor]
    ) -> None:
        for (kind, name), part in parts.items():
            if part.is_floating_point() and not bool(torch.isfinite(part).all()):
                row = int((~torch.isfinite(part)).reshape(len(part), -1).any(1).nonzero()[0])
                what = "logits" if kind == "logits" else f"{name} numbers"
                raise TrothError(
                    f"{self.model.name} gave NaN or infinite {what} for example "
                    f"{jobs[batch[row, 0]].encoding.example.id}; check its weights, or load it with dtype=float32"
                )


def _stack(tensors: Sequence[Tensor], filler: int) -> Tensor:
    return pad_sequence(list(tensors), batch_first=True, padding_value=filler)
