"""Running methods: generators that yield probes, receive answers and return a result.

A method is written for a batch of texts, or for one text and converted by `per_text`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import wraps
from inspect import signature
from itertools import islice, repeat
from typing import Any, Generic, TypeAlias, TypeVar

from troth.core import user_code
from troth.core.types import Question
from troth.engine.answers import Answers
from troth.engine.probes import Probe, ProbeBatch

T = TypeVar("T")
Probes: TypeAlias = Probe | ProbeBatch | Sequence[Probe | ProbeBatch]
# A routine receives the answers to its probe or, if it yielded several probes, a list with the answers to each.
Routine: TypeAlias = Generator[Probes, Any, T]


class Running(Generic[T]):
    """One routine and the probes it waits for."""

    def __init__(self, routine: Routine[T]) -> None:
        self._routine = routine
        self._several = False
        self._answers: list[Answers] | None = None
        self.probes: list[Probe | ProbeBatch] = []  # unanswered so far
        self.done = False
        self.result: T

    @property
    def can_advance(self) -> bool:
        return not self.done and not self.probes

    def advance(self) -> bool:
        """Sends the answers to the routine and takes its next probes; returns False once the routine has finished."""
        answers, self._answers = self._answers, None
        try:
            asked = self._routine.send(answers if answers is None or self._several else answers[0])
        except StopIteration as stop:
            self.done, self.result = True, stop.value
            return False
        self._several = not isinstance(asked, Probe | ProbeBatch)
        self.probes = list(asked) if self._several else [asked]  # type: ignore[arg-type, list-item]
        return True

    def receive(self, answers: list[Answers]) -> None:
        self.probes, self._answers = [], answers


def in_step(routines: Sequence[Routine[T]]) -> Routine[list[T]]:
    """Runs several routines side by side and returns their results; their probes share rounds."""
    running = [Running(routine) for routine in routines]
    waiting = [each for each in running if each.advance()]
    while waiting:
        answers = iter((yield [probe for each in waiting for probe in each.probes]))
        for each in waiting:
            each.receive([next(answers) for _ in each.probes])
        waiting = [each for each in waiting if each.advance()]
    return [each.result for each in running]


def per_text(ask: Callable[..., Routine[T]]) -> Callable[..., Routine[list[T]]]:
    """Turns a method `ask(self, question, …)` for one text into `ask(self, questions, …)` for many.

    Further arguments are lists with one entry per question, or a function that explains questions again, which is
    turned into one that explains a single question.
    """

    @wraps(ask)
    def ask_each(self: Any, questions: Sequence[Question], *more: Any) -> Routine[list[T]]:
        lists = [repeat(_of_one(each)) if callable(each) else each for each in more]
        return (yield from in_step([ask(self, *own) for own in zip(questions, *lists, strict=False)]))

    ask_each.is_per_text = True  # type: ignore[attr-defined]
    return ask_each


def _of_one(explain: Callable[[Sequence[Question]], Routine[list[T]]]) -> Callable[[Question], Routine[T]]:
    def explain_one(question: Question) -> Routine[T]:
        (result,) = yield from explain([question])
        return result

    return explain_one


def is_per_text(ask: Callable[..., Any]) -> bool:
    """Whether a method was written for one text; such methods run text by text, so that a slow text delays no other."""
    return getattr(ask, "is_per_text", False)


def guard_user_code(cls: type, names: tuple[str, ...], result: type) -> None:
    """Guards the methods of a user's class against errors, and applies `per_text` to an `ask` for one question."""
    ask = vars(cls).get("ask")
    if ask is None or cls.__module__.partition(".")[0] == "troth":
        user_code.guard(cls, names)
        return
    if not is_per_text(ask) and next(islice(signature(ask).parameters, 1, None), "") != "question":
        user_code.guard(cls, names, ask=((Probe, ProbeBatch, list), list))
        return
    cls.ask = getattr(ask, "__wrapped__", ask) if is_per_text(ask) else ask  # type: ignore[attr-defined]
    user_code.guard(cls, names, ask=(Probe, result))
    cls.ask = per_text(cls.ask)  # type: ignore[attr-defined]
