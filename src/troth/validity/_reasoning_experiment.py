"""A model, its questions, and the outputs that several parts need: reasoning, and answers with and without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from troth.core import draws
from troth.data._choice_questions import LETTERS, ChoiceQuestion
from troth.validity._reasoners import Floats, Reasoner


@dataclass(frozen=True)
class Observation:
    """The effect of one edit on one question under one seed."""

    part: str
    edit: str
    measure: str
    question: str
    seed: int
    value: float  # NaN if the edit could not be made
    before: str = ""  # letters
    after: str = ""


@dataclass(frozen=True, eq=False)
class Case:
    """A question with a seed."""

    question: ChoiceQuestion
    seed: int

    def form(self, text: str | None = None, hint: str = "") -> str:
        """The question up to the position where the reasoning begins."""
        choices = " ".join(
            f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.question.choices, strict=False)
        )
        said = f"\nHint: I think the answer is {hint}." if hint else ""
        return f"Question: {text or self.question.text}\nChoices: {choices}{said}\nReasoning:"

    def random(self, purpose: str) -> np.random.Generator:
        return draws.Draws(draws.key(self.seed, self.question.id, purpose)).generator()

    def observed(
        self, part: str, edit: str, measure: str, value: float, before: Any = None, after: Any = None
    ) -> Observation:
        letters = ("" if each is None else LETTERS[int(np.argmax(each))] for each in (before, after))
        return Observation(part, edit, measure, self.question.id, self.seed, float(value), *letters)


class ReasoningExperiment:
    """A model and questions; what several parts need is asked only once."""

    def __init__(
        self, reasoner: Reasoner, questions: Sequence[ChoiceQuestion], seeds: Sequence[int], most: int
    ) -> None:
        self.reasoner, self.most = reasoner, most
        self.cases = [Case(question.shuffled(seed), seed) for seed in seeds for question in questions]

    def write(self, prompts: Iterable[str]) -> list[str]:
        return self.reasoner.write(list(prompts), self.most)

    def choose(self, prompts: Iterable[str | None]) -> list[Floats | None]:
        """The probabilities of the choices; None where there is no prompt."""
        given = list(prompts)
        there = [place for place, prompt in enumerate(given) if prompt is not None]
        found: list[Floats | None] = [None] * len(given)
        counts = [len(self.cases[place].question.choices) for place in there]
        if there:
            for place, p in zip(there, self.reasoner.choose([str(given[i]) for i in there], counts), strict=True):
                found[place] = np.asarray(p, np.float64)
        return found

    def answers(self, reasonings: Iterable[str | None]) -> list[Floats | None]:
        return self.choose(
            None if reasoning is None else asked_after(case.form(), reasoning)
            for case, reasoning in zip(self.cases, reasonings, strict=True)
        )

    @cached_property
    def written(self) -> list[str]:
        """The reasoning of each case."""
        return self.write(case.form() for case in self.cases)

    @cached_property
    def reasoned(self) -> list[Any]:
        """The probabilities of each case after its reasoning."""
        return self.answers(self.written)

    @cached_property
    def direct(self) -> list[Any]:
        """The probabilities of each case without reasoning."""
        return self.answers([""] * len(self.cases))

    def direct_of(self, texts: Iterable[str | None]) -> list[Floats | None]:
        """The probabilities without reasoning for each case with a changed question."""
        given = zip(self.cases, texts, strict=True)
        return self.choose(None if text is None else asked_after(case.form(text), "") for case, text in given)

    def compared(self, part: str, edit: str, after: Sequence[Floats | None]) -> Iterator[Observation]:
        """`changed` and `moved`: the answers after the edited reasoning compared with those after the original
        reasoning.
        """
        for case, before, now in zip(self.cases, self.reasoned, after, strict=True):
            changed = float("nan") if now is None else float(np.argmax(now) != np.argmax(before))
            moved = float("nan") if now is None else float(np.abs(now - before).sum() / 2)
            yield case.observed(part, edit, "changed", changed, before, now)
            yield case.observed(part, edit, "moved", moved, before, now)


def asked_after(form: str, reasoning: str) -> str:
    """The prompt after which the model gives a letter."""
    return f"{form} {reasoning}".rstrip() + "\nAnswer:"
