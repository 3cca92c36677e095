"""Multiple-choice questions with one right answer each, read from a file or generated (sums, comparisons, orders)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troth.core import draws
from troth.core.errors import TrothError
from troth.data.sources.readers import read_file

LETTERS = "ABCDEFGHIJ"
_NAMES = ("Anna", "Ben", "Cara", "Dan", "Eva", "Finn", "Gina", "Hugo")
_THINGS = ("apples", "books", "coins", "stamps")


@dataclass(frozen=True)
class ChoiceQuestion:
    """A question, its choices, and the index of the right one if it is known."""

    id: str
    text: str
    choices: tuple[str, ...]
    answer: int | None = None

    def shuffled(self, seed: int) -> ChoiceQuestion:
        """The choices in an order that depends on the seed."""
        order = draws.Draws(draws.key(seed, self.id, "choices")).generator().permutation(len(self.choices)).tolist()
        right = None if self.answer is None else order.index(self.answer)
        return ChoiceQuestion(self.id, self.text, tuple(self.choices[place] for place in order), right)


def made(count: int, seed: int = 0) -> list[ChoiceQuestion]:
    """Generates questions with three choices that need a calculation or a comparison, one kind after the other."""
    kinds = (_largest, _sum, _chain, _order)
    questions: list[ChoiceQuestion] = []
    seen: set[str] = set()
    for number in range(count):
        name = f"made-{seed}-{number}"
        random = draws.Draws(draws.key(seed, name)).generator()
        question = kinds[number % len(kinds)](name, random)
        while question.text in seen:
            question = kinds[number % len(kinds)](name, random)
        seen.add(question.text)
        questions.append(question)
    return questions


def read(path: str | Path, limit: int | None = None) -> list[ChoiceQuestion]:
    """Reads a file with the columns question, choices (a list, or a text separated by |) and, optionally, answer."""
    table = read_file(Path(path))
    for column in ("question", "choices"):
        if column not in table.columns:
            raise TrothError(
                f"{path}: there is no column {column!r}; questions need the columns question, choices "
                "(separated by |) and answer; "
                f"there are: {', '.join(table.columns)}"
            )
    return [_read_row(f"{path}: row {number}", number, row) for number, row in enumerate(table.rows[:limit], start=1)]


def _read_row(where: str, number: int, row: Mapping[str, Any]) -> ChoiceQuestion:
    given = row["choices"]
    choices = tuple(str(each).strip() for each in (given.split("|") if isinstance(given, str) else given or ()))
    if not 2 <= len(choices) <= len(LETTERS) or len(set(choices)) < len(choices) or not all(choices):
        raise TrothError(
            f"{where} has the choices {list(choices)}; give 2 to {len(LETTERS)} different ones, separated by |"
        )
    if not str(row["question"] or "").strip():
        raise TrothError(f"{where} has no question")
    answer, right = str(row.get("answer") or "").strip(), None
    if answer:
        names = choices if answer in choices else tuple(LETTERS[: len(choices)])
        if answer not in names:
            raise TrothError(f"{where}: the answer {answer!r} is not one of the choices {', '.join(choices)}")
        right = names.index(answer)
    return ChoiceQuestion(str(row.get("id") or number), str(row["question"]).strip(), choices, right)


def _of_numbers(name: str, text: str, right: int, random: np.random.Generator) -> ChoiceQuestion:
    """Wrong choices close to the right one."""
    offsets = random.permutation([-10, -2, -1, 1, 2, 10])[:2]
    choices = (right, *(abs(right + int(offset)) for offset in offsets))
    if len(set(choices)) < 3:
        choices = (right, right + 3, right + 5)
    return ChoiceQuestion(name, text, tuple(map(str, choices)), 0)


def _largest(name: str, random: np.random.Generator) -> ChoiceQuestion:
    numbers = random.choice(np.arange(10, 100), 3, replace=False).tolist()
    text = f"Which number is the largest: {numbers[0]}, {numbers[1]} or {numbers[2]}?"
    return ChoiceQuestion(name, text, tuple(map(str, numbers)), int(np.argmax(numbers)))


def _sum(name: str, random: np.random.Generator) -> ChoiceQuestion:
    first, second = random.integers(11, 50, 2).tolist()
    return _of_numbers(name, f"What is {first} plus {second}?", first + second, random)


def _chain(name: str, random: np.random.Generator) -> ChoiceQuestion:
    person, thing = _NAMES[random.integers(len(_NAMES))], _THINGS[random.integers(len(_THINGS))]
    start, more = random.integers(5, 20, 2).tolist()
    less = int(random.integers(1, 5))
    text = f"{person} has {start} {thing}. {person} buys {more} more and gives {less} away. How many {thing} are left?"
    return _of_numbers(name, text, start + more - less, random)


def _order(name: str, random: np.random.Generator) -> ChoiceQuestion:
    people = [_NAMES[place] for place in random.choice(len(_NAMES), 3, replace=False)]
    text = f"{people[0]} is taller than {people[1]}. {people[1]} is taller than {people[2]}. Who is the shortest?"
    return ChoiceQuestion(name, text, tuple(people), 2)
