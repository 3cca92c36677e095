"""Methods that give every unit a score: one file per method."""

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
    """An instance is its configuration; it holds no model."""

    signed: ClassVar[bool]  # a negative score pushes away from the target
    asks_model: ClassVar[bool] = True  # False: importance without a model
    learns: ClassVar[bool] = False  # from all texts, before it explains one: `prepare` needs their encodings
    recursive: ClassVar[bool] = False  # its order already takes into account what was erased before: computed once
    formula: ClassVar[str] = ""  # in the signs of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # what to beware of, in a sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_user_code(cls, ("prepare", "reads", "passes"), Attribution)

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        """Itself, ready for this model; `encodings` are those of all texts if it `learns`, else perhaps none."""
        return self

    @cached_property
    def full_spec(self) -> str:
        """Its spec text with every option, as results note it."""
        return catalog.spec(self, full=True)

    @property
    def files(self) -> str | None:
        """The hash of the files that its scores depend on besides the model; None where its options say it all."""
        return None

    @property
    def gives_signed(self) -> bool:
        """Whether its scores can be negative as it is configured."""
        return self.signed

    def reads(self) -> Readout:
        """What it needs of the whole input: read while the class is chosen, so that it costs no pass of its own."""
        return LOGITS

    def passes(self, n_units: int) -> int:
        """About how many rows it asks of the model for a text of so many units, forwards and backwards."""
        return 2

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        """Probes the model as often as it needs and returns one attribution per question.

        Written for one text, with `@per_text` before it: `ask(self, question) -> Routine[Attribution]`.
        """

    @property
    def batch_size(self) -> int | None:
        """How many texts it explains in one go: 1 where it is written for one text, None = as many as there are."""
        return 1 if is_per_text(type(self).ask) else None

    def from_units(self, answers: Answers, name: str) -> list[Attribution]:
        """An attribution for each question: what was read of its whole input, unit by unit."""
        scores, rest = answers.units[name].numpy(), answers.rest[name].tolist()
        return [
            Attribution(question, scores[row, : question.n_units], signed=self.signed, rest=rest[row])
            for row, question in enumerate(answers.questions)
        ]


@dataclass(frozen=True)
class SignedExplainer(Explainer):
    """Scores may be negative. With `absolute` a score says how much a unit matters, either way.

    The option is part of the spec, so whatever explains again (recursive metrics, checks) does so with absolute scores.
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
