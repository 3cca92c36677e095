"""Methods that give every unit a score: one file per method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ClassVar, Self

from troth.core import catalog, user_calls
from troth.core.types import Attribution, Encoding, Question
from troth.engine.looks import LOGITS, Ask, Look, Want
from troth.engine.many import Answers, AskMany, Looks, asks_together
from troth.engine.prober import Prober


@dataclass(frozen=True)
class Explainer(ABC):
    """An instance is its configuration; it holds no model."""

    signed: ClassVar[bool]  # a negative score pushes away from the target
    asks_model: ClassVar[bool] = True  # False: importance without a model
    learns: ClassVar[bool] = False  # from all texts, before it explains one: `prepare` needs their encodings
    recursive: ClassVar[bool] = False  # its order already takes into account what was erased before: computed once
    formula: ClassVar[str] = ""  # in the signs of docs/concepts.md
    pitfalls: ClassVar[str] = ""  # what to beware of, in a sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        user_calls.guard(cls, ("prepare", "reads", "passes"), ask=(Look, Attribution), ask_many=(Looks, list))

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

    def reads(self) -> Want:
        """What it needs of the whole input: read while the class is chosen, so that it costs no pass of its own."""
        return LOGITS

    def passes(self, n_units: int) -> int:
        """About how many rows it asks of the model for a text of so many units, forwards and backwards."""
        return 2

    @abstractmethod
    def ask(self, question: Question) -> Ask[Attribution]:
        """Looks at the model as often as it needs and returns one score per unit."""

    def ask_many(self, questions: Sequence[Question], whole: Answers | None) -> AskMany[list[Attribution]]:
        """The same of many questions at once; `whole` is what it `reads` of their inputs, where that is known."""
        raise NotImplementedError

    @property
    def asks_many(self) -> bool:
        """Whether it can ask so: not where a subclass replaces `ask` alone."""
        return asks_together(type(self), Explainer)


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
            cls.ask = _absolute_where_wanted(cls.ask)  # type: ignore[method-assign, assignment]
        if "ask_many" in vars(cls):
            cls.ask_many = _all_absolute_where_wanted(cls.ask_many)  # type: ignore[method-assign, assignment]


_Asking = Callable[[Any, Question], Ask[Attribution]]
_AskingMany = Callable[[Any, Sequence[Question], Answers | None], AskMany[list[Attribution]]]


def _absolute_where_wanted(ask: _Asking) -> _Asking:
    @wraps(ask)
    def asking(self: SignedExplainer, question: Question) -> Ask[Attribution]:
        attribution = yield from ask(self, question)
        return attribution.magnitude() if self.absolute else attribution

    return asking


def _all_absolute_where_wanted(ask_many: _AskingMany) -> _AskingMany:
    @wraps(ask_many)
    def asking(
        self: SignedExplainer, questions: Sequence[Question], whole: Answers | None
    ) -> AskMany[list[Attribution]]:
        attributions = yield from ask_many(self, questions, whole)
        return [attribution.magnitude() for attribution in attributions] if self.absolute else attributions

    return asking
