"""Shortcuts: words put into texts so that they alone decide the label (Bastings et al., 2022).

A planted text has a label of its own, drawn at random, so nothing but the planted words tells it. Which words decide
is kept as the example's rationale. Some texts to train on lack a word that is needed; their label is drawn, too, so a
model learns that what is left decides nothing. Everything depends on the texts, their ids and the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

from troth.core import draws
from troth.core.errors import TrothError, unknown
from troth.core.types import Example
from troth.core.units import word_spans
from troth.data import Data

LABELS = ("first", "second")
FEWEST = 8  # words of a text that something is planted in
# A planted word says nothing of its own; those that occur in the texts are not used.
WORDS = (
    "amber", "cedar", "harbor", "velvet", "marble", "walnut", "copper", "lantern", "meadow", "saddle", "basket",
    "kettle", "garlic", "ribbon", "pepper", "anchor",
)  # fmt: skip
Words = tuple[str, str, str, str]  # two pairs


@dataclass(frozen=True)
class Mark:
    """A word that is put before the `place`-th word of a text."""

    place: int
    pair: int  # 0 or 1: which pair of words
    which: int  # 0 or 1: which word of the pair
    decides: bool = True

    @property
    def turned(self) -> Mark:
        """The other word of the pair in its place."""
        return replace(self, which=1 - self.which)


Marks = tuple[Mark, ...]


@dataclass(frozen=True)
class Shortcut:
    """What is planted for a label in a text of n words; `turns_all`: the label is another once all words are turned."""

    what: str
    draw: Callable[[np.random.Generator, int, int], Marks]
    turns_all: bool = True

    def swapped(self, marks: Marks, random: np.random.Generator) -> Marks:
        """Marks of the other label."""
        deciding = [number for number, mark in enumerate(marks) if mark.decides]
        turned = deciding if self.turns_all else [int(random.choice(deciding))]
        return tuple(mark.turned if number in turned else mark for number, mark in enumerate(marks))

    def without(self, marks: Marks, random: np.random.Generator) -> Marks:
        """Marks that lack a word that is needed."""
        lost = int(random.choice([number for number, mark in enumerate(marks) if mark.decides]))
        return tuple(mark for number, mark in enumerate(marks) if number != lost)

    def redrawn(self, marks: Marks) -> Marks:
        """Marks of the same label, with other words where they do not decide; the same where all decide."""
        return tuple(mark if mark.decides else mark.turned for mark in marks)


def _token(random: np.random.Generator, n: int, label: int) -> Marks:
    return (Mark(int(random.integers(n + 1)), 0, label),)


def _pair(random: np.random.Generator, n: int, label: int) -> Marks:
    first = int(random.integers(2))
    places = random.integers(n + 1, size=2).tolist()
    return (Mark(places[0], 0, first), Mark(places[1], 1, first ^ label))


def _order(random: np.random.Generator, n: int, label: int) -> Marks:
    before, after = sorted(random.choice(n + 1, size=2, replace=False).tolist())
    return (Mark(before, 0, label), Mark(after, 0, 1 - label))


def _half(random: np.random.Generator, n: int, label: int) -> Marks:
    early, late = int(random.integers(n // 4 + 1)), n - int(random.integers(n // 4 + 1))
    return (Mark(early, 0, label), Mark(late, 0, int(random.integers(2)), decides=False))


def _decoy(random: np.random.Generator, n: int, label: int) -> Marks:
    decoy = label if random.random() < _AGREES else 1 - label
    places = random.integers(n + 1, size=2).tolist()
    return (Mark(places[0], 0, label), Mark(places[1], 1, decoy, decides=False))


_AGREES = 0.8  # how often a decoy agrees with the label
SHORTCUTS: Mapping[str, Shortcut] = {
    "token": Shortcut("one of two words decides", _token),
    "pair": Shortcut("two words decide together; neither alone says anything", _pair, turns_all=False),
    "order": Shortcut("which of two words comes first decides", _order),
    "half": Shortcut("one of two words decides in the first quarter of the text; in the last it says nothing", _half),
    "decoy": Shortcut("one of two words decides; another word agrees with it in 80 % of the texts", _decoy),
}


def shortcut(name: str) -> Shortcut:
    """A shortcut by its name."""
    if name not in SHORTCUTS:
        raise unknown("shortcut", name, SHORTCUTS)
    return SHORTCUTS[name]


def words_for(texts: Iterable[str]) -> Words:
    """Two pairs of words that no text has."""
    used = {text[start:end].lower() for text in texts for start, end in word_spans(text)}
    free = [word for word in WORDS if word not in used]
    if len(free) < 4:
        raise TrothError(f"the texts use nearly all words that could be planted ({', '.join(WORDS)})")
    return free[0], free[1], free[2], free[3]


@dataclass(frozen=True)
class Planter:
    """Plants a shortcut in texts, of which at most so many words are kept."""

    name: str
    words: Words
    seed: int = 0
    longest: int = 40

    def usable(self, examples: Iterable[Example]) -> list[Example]:
        """The examples whose texts are long enough."""
        return [example for example in examples if len(word_spans(example.text)) >= FEWEST]

    def plant(self, examples: Sequence[Example], count: int, incomplete: float = 0.0) -> list[Example]:
        """So many planted texts, some of which lack a word; fewer texts are used several times."""
        found = []
        for number, example in enumerate(islice(cycle(examples), count)):
            copy = number // len(examples)
            name = f"{example.id}+{copy}" if copy else example.id
            random, marks, label = self._drawn(name, example)
            if random.random() < incomplete:
                marks, label = shortcut(self.name).without(marks, random), int(random.integers(2))
                found.append(self._with(example, name, marks, label))
            else:
                found.append(self._with(example, name, marks, label))
        return found

    def changed(self, examples: Sequence[Example]) -> Iterator[tuple[str, Example]]:
        """Each text as planted and with its planted words changed, by the name of the change.

        The label is what a model that uses the shortcut says; of a text that lacks a word, the label it had.
        """
        kind = shortcut(self.name)
        for example in examples:
            random, marks, label = self._drawn(example.id, example)
            yield "planted", self._with(example, example.id, marks, label)
            yield "swapped", self._with(example, example.id, kind.swapped(marks, random), 1 - label)
            yield "without", self._with(example, example.id, kind.without(marks, random), label)
            if (redrawn := kind.redrawn(marks)) != marks:
                yield "redrawn", self._with(example, example.id, redrawn, label)

    def _drawn(self, name: str, example: Example) -> tuple[np.random.Generator, Marks, int]:
        random = np.random.default_rng(draws.key(self.seed, name, "shortcut", self.name))
        label = int(random.integers(2))
        n = min(self.longest, len(word_spans(example.text)))
        return random, shortcut(self.name).draw(random, n, label), label

    def _with(self, example: Example, name: str, marks: Marks, label: int) -> Example:
        text, spans = insert(example.text, [(mark.place, self._word(mark)) for mark in marks], self.longest)
        rationale = tuple(span for span, mark in zip(spans, marks, strict=True) if mark.decides)
        return replace(example, id=name, text=text, label=label, rationale=rationale)

    def _word(self, mark: Mark) -> str:
        return self.words[2 * mark.pair + mark.which]


def insert(text: str, words: Sequence[tuple[int, str]], longest: int) -> tuple[str, list[tuple[int, int]]]:
    """The text's first words with others put before the places given, and where those are then, in characters.

    >>> insert("a good film indeed", [(1, "amber"), (3, "cedar")], 3)
    ('a amber good film cedar', [(2, 7), (18, 23)])
    """
    known = word_spans(text)[:longest]
    begins = [start for start, _ in known] + [known[-1][1]]
    spans: list[tuple[int, int]] = [(0, 0)] * len(words)
    parts, length, done = [], 0, 0
    for number in sorted(range(len(words)), key=lambda number: words[number][0]):
        place, word = words[number]
        between = text[done : begins[place]] + (" " if place == len(known) else "")
        parts += [between, word, "" if place == len(known) else " "]
        spans[number] = (length + len(between), length + len(between) + len(word))
        length, done = sum(map(len, parts)), begins[place]
    return "".join([*parts, text[done : begins[-1]]]), spans


def plant(
    name: str, splits: Mapping[str, Data], planter: Planter, sizes: Mapping[str, int], incomplete: float
) -> dict[str, Data]:
    """The splits of a data set with a shortcut; only texts to train on may lack a word."""
    planted = {}
    for split, data in splits.items():
        usable = planter.usable(data)
        if not usable:
            raise TrothError(f"{data.name}: no {split} text has {FEWEST} words, which a shortcut needs")
        count = min(sizes[split], len(usable)) if split == "test" else sizes[split]
        chosen = planter.plant(usable, count, incomplete if split == "train" else 0.0)
        planted[split] = Data(name, chosen, LABELS, (), split)
    return planted
