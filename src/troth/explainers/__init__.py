"""Explainers, the methods that give every unit a score: one file per method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ClassVar, Self

from troth.core import catalog
from troth.core.types import Attribution, Encoding, Question
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import LOGITS, Readout
from troth.engine.routines import Routine, guard_user_code, is_per_text


@dataclass(frozen=True)
class Explainer(ABC):
    """A method that scores units. An instance is a configuration; it holds no model."""

    signed: ClassVar[bool]  # a negative score pushes away from the target
    asks_model: ClassVar[bool] = True  # False: importance without a model
    learns: ClassVar[bool] = False  # whether it learns from all texts first: `prepare` then needs their encodings
    recursive: ClassVar[bool] = False  # its ranking already accounts for what was erased before, so it is computed once
    formula: ClassVar[str] = ""  # in the notation of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # a known limitation, in one sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_user_code(cls, ("prepare", "reads", "passes"), Attribution)

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        """The explainer, prepared for this model. `encodings` are those of all texts if it `learns`; otherwise they may
        be empty.
        """
        return self

    @cached_property
    def full_spec(self) -> str:
        """Its spec with every option, which is stored with results."""
        return catalog.spec(self, full=True)

    @property
    def files(self) -> str | None:
        """The hash of external files that the scores depend on, besides the model; None if there are none."""
        return None

    @property
    def gives_signed(self) -> bool:
        """Whether its scores can be negative with these options."""
        return self.signed

    def reads(self) -> Readout:
        """The readout it needs of the whole input. It is read when the class is chosen, so it costs no extra pass."""
        return LOGITS

    def passes(self, n_units: int) -> int:
        """The approximate number of forward and backward passes for a text of this many units."""
        return 2

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        """Probes the model as often as needed and returns one attribution per question.

        A method for one text is written with `@per_text`: `ask(self, question) -> Routine[Attribution]`.
        """

    @property
    def batch_size(self) -> int | None:
        """The number of texts explained at a time: 1 for a method written for one text, None = no limit."""
        return 1 if is_per_text(type(self).ask) else None

    def from_units(self, answers: Answers, name: str) -> list[Attribution]:
        """An attribution for each question, from the unit values of its whole input."""
        scores, rest = answers.units[name].numpy(), answers.rest[name].tolist()
        return [
            Attribution(question, scores[row, : question.n_units], signed=self.signed, rest=rest[row])
            for row, question in enumerate(answers.questions)
        ]


@dataclass(frozen=True)
class SignedExplainer(Explainer):
    """Scores may be negative. With `absolute`, scores are magnitudes, regardless of direction.

    The option is part of the spec, so metrics and checks that re-explain use absolute scores, too.
    """

    signed = True

    absolute: bool = field(default=False, kw_only=True)

    @property
    def gives_signed(self) -> bool:
        return not self.absolute

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "ask" in vars(cls):
            cls.ask = _absolute_where_wanted(cls.ask)  # type: ignore[method-assign]


def _absolute_where_wanted(ask: Callable[..., Routine[list[Attribution]]]) -> Callable[..., Routine[list[Attribution]]]:
    @wraps(ask)
    def asking(self: SignedExplainer, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        attributions = yield from ask(self, questions)
        return [each.magnitude() for each in attributions] if self.absolute else attributions

    return asking
