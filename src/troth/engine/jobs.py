"""What the engine has under way: an ask between two looks, and a look whose rows are being answered."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import catalog, draws
from troth.core.errors import TrothError
from troth.engine.looks import Answer, Ask, Look
from troth.maskings import Masking
from troth.models import TextClassifier

T = TypeVar("T")


class Running(Generic[T]):
    """One ask under way."""

    def __init__(self, ask: Ask[T]) -> None:
        self.ask = ask
        self.look: Look | None = None
        self.answer: Answer | None = None
        self.done = False
        self.result: T

    def advance(self) -> Look | None:
        """Hands the ask its answer and takes its next look; None when it is done."""
        try:
            self.look = next(self.ask) if self.answer is None else self.ask.send(self.answer)
        except StopIteration as stop:
            self.look, self.done, self.result = None, True, stop.value
        self.answer = None
        return self.look


@dataclass(eq=False)
class Job:
    """One look, its repeated rows dropped, and what has been answered of it."""

    look: Look | None
    default: Masking
    elsewhere: dict[int, tuple["Job", int]] = field(default_factory=dict)  # rows that another job has
    parts: dict[tuple[str, str], Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        look = self.look
        assert look is not None
        self.question, self.encoding, self.want = look.question, look.question.encoding, look.want
        if not self.encoding.readable:
            raise TrothError(
                f"example {self.encoding.example.id} was read back without its model; "
                "use Attribution.from_dict(facts, model) to ask about it"
            )
        if look.keep.dim() != 2 or look.keep.shape[1] != self.encoding.n_units:
            raise ValueError(f"keep must be [rows, {self.encoding.n_units} units], not {list(look.keep.shape)}")
        self.masking = look.masking or self.default
        self.others = look.others
        self.against = -1 if self.question.against is None else self.question.against
        # Erased already by the same masking: one operation does both. By another: first that, then this.
        self.erased_by = None if self.question.base is None else self.question.erased_by or self.default
        keep = look.keep.detach().to("cpu", torch.float32)
        # A unit that no token joins cannot be erased: such rows are one, and its score exactly 0.
        keep = torch.where(self.encoding.tokenless, 1.0, keep)
        if self.erased_by == self.masking:
            keep, self.erased_by = keep * self.question.left, None
        if self.masking.whole and not bool(((keep == 0) | (keep == 1)).all()):
            name = catalog.name_of(self.masking)
            raise TrothError(f"{name} erases whole units; to fade them use zero, mix, soft, gaussian or attention")
        if self.masking.stochastic or self.others is not None or len(keep) == 1 or keep.shape[1] == 0:
            self.keep, self.inverse = keep, torch.arange(len(keep))
        else:
            self.keep, self.inverse = _distinct(keep)
        self.lengths = self.masking.lengths(self.encoding, self.keep)
        if self.erased_by is not None:
            before = self.erased_by.lengths(self.encoding, self.question.left[None])
            self.lengths = torch.minimum(self.lengths, before)  # at most one of the two deletes
        self.group: Hashable = (self.want, self.masking, self.erased_by)
        # What was erased at random before stays the same in every row.
        by_chance = self.erased_by is not None and self.erased_by.stochastic
        self.base_key = self.question.draws(catalog.spec(self.erased_by, full=True)).key if by_chance else 0
        seed = self.question.seed
        self.key = draws.key(seed, self.encoding.example.id, look.purpose, catalog.spec(self.masking, full=True))

    @property
    def is_whole(self) -> bool:
        """Whether it asks about the input as it is, and nothing else."""
        return len(self.keep) == 1 and bool((self.keep == 1).all()) and self.erased_by is None and self.others is None

    def own_rows(self) -> NDArray[np.int64]:
        """Numbers of the rows that no other job has."""
        return np.delete(np.arange(len(self.keep)), list(self.elsewhere))

    def row_keys(self) -> Iterator[Hashable]:
        question = self.question
        left = b"" if question.base is None or self.erased_by is None else question.base.numpy().tobytes()
        target = (question.target, question.against) if self.want.about_target else None
        about = (self.group, target, left, self.base_key)
        others = np.ones(len(self.keep)) if self.others is None else self.others.numpy()
        return ((about, float(other), row.tobytes()) for other, row in zip(others, self.keep.numpy(), strict=True))

    def store(self, rows: Tensor, parts: dict[tuple[str, str], Tensor]) -> None:
        for name, part in parts.items():
            if name[0] == "units":
                part = part[:, : self.encoding.n_units]
            if name not in self.parts:
                self.parts[name] = part.new_empty(len(self.keep), *part.shape[1:])
            self.parts[name][rows] = part

    def answer(self, model: TextClassifier) -> Answer:
        for row, (job, other) in self.elsewhere.items():
            self.store(torch.tensor([row]), {name: part[other : other + 1] for name, part in job.parts.items()})
        parts: dict[str, dict[str, Any]] = {"logits": {}, "units": {}, "rest": {}, "rows": {}}
        for (kind, name), part in self.parts.items():
            parts[kind][name] = part[self.inverse]
        logits = parts["logits"].get("", torch.empty(0, 0))
        return Answer(
            self.question, logits, parts["units"], parts["rest"], parts["rows"], model.outputs, model.threshold
        )

    def forget(self) -> None:
        """Lets go of the example, so that a finished job can be remembered under it."""
        del self.look, self.question, self.encoding
        self.elsewhere = {}


def _distinct(keep: Tensor) -> tuple[Tensor, Tensor]:
    """Each row once, and which of these every row is."""
    if not bool(((keep == 0) | (keep == 1)).all()):
        rows, of_row = torch.unique(keep, dim=0, return_inverse=True)
        return rows, of_row
    # Eight units a byte: searches ask about so many rows that sorting them would cost as much as a fast model.
    packed = np.packbits(keep.numpy() == 1, axis=1)
    _, first, inverse = np.unique(
        packed.view(np.dtype((np.void, packed.shape[1])))[:, 0], return_index=True, return_inverse=True
    )
    return keep[torch.from_numpy(first)], torch.from_numpy(inverse)
