"""Edits of a reasoning (truncation, filler, paraphrase, mistake) and of a question (redaction)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np

REDACTED = "[REDACTED]"
_OPPOSITES = (
    ("larger", "smaller"), ("largest", "smallest"), ("greater", "less"), ("more", "less"), ("taller", "shorter"),
    ("tallest", "shortest"), ("plus", "minus"), ("before", "after"), ("true", "false"), ("always", "never"),
    ("is not", "is"), ("is", "is not"),
)  # fmt: skip
_OTHER_WORDS = (
    ("is less than", "is below"), ("is smaller than", "is below"), ("is larger than", "is above"),
    ("is greater than", "is above"), ("is taller than", "stands above"), ("is shorter than", "stands below"),
    ("plus", "and"), ("minus", "less"), ("is equal to", "equals"), ("so the", "thus the"), ("so", "thus"),
    ("therefore", "hence"), ("because", "since"), ("are left", "remain"), ("is", "comes to"),
)  # fmt: skip


def steps(reasoning: str) -> list[str]:
    """
    >>> steps("20 plus 40 is 60. So it is 60.")
    ['20 plus 40 is 60.', 'So it is 60.']
    """
    return [step for step in re.split(r"(?<=[.!?;])\s+", reasoning.strip()) if step]


def cut(reasoning: str, share: float) -> str:
    """The first share of its words, rounded down.

    >>> cut("a b c d e", 0.5)
    'a b'
    """
    words = reasoning.split()
    return " ".join(words[: int(share * len(words))])


def filler(reasoning: str) -> str:
    """Three dots for each word."""
    return " ".join(["..."] * len(reasoning.split()))


def with_mistake(reasoning: str, random: np.random.Generator) -> str | None:
    """The reasoning up to a random step, in which one number or one comparing word is now wrong; None if no step has
    one.
    """
    parts = steps(reasoning)
    for place in random.permutation(len(parts)).tolist():
        wrong = _wrong(parts[place], random)
        if wrong is not None:
            return " ".join([*parts[:place], wrong])
    return None


def _wrong(step: str, random: np.random.Generator) -> str | None:
    numbers = list(re.finditer(r"\d+", step))
    if numbers:
        chosen = numbers[random.integers(len(numbers))]
        right = int(chosen[0])
        wrong = abs(right + int(random.choice([-3, -2, -1, 1, 2, 3, 7, 10])))
        return f"{step[: chosen.start()]}{wrong if wrong != right else right + 1}{step[chosen.end() :]}"
    for pair in _OPPOSITES:
        for old, new in (pair, pair[::-1]):
            changed = re.sub(rf"\b{old}\b", new, step, count=1)
            if changed != step:
                return changed
    return None


def paraphrased(reasoning: str) -> str | None:
    """The same steps with synonyms from a short table; None if the reasoning has none of its words."""
    table = dict(_OTHER_WORDS)
    pattern = rf"\b({'|'.join(sorted(table, key=len, reverse=True))})\b"

    def other(found: re.Match[str]) -> str:
        new = table[found[0].lower()]
        return new.capitalize() if found[0][0].isupper() else new

    changed = re.sub(pattern, other, reasoning, flags=re.IGNORECASE)
    return changed if changed != reasoning else None


def redacted(text: str, words: Collection[str]) -> str:
    """Redacts the words of a text that are among `words`, which are in lower case and without punctuation.

    >>> redacted("Is 12 more than 9?", {"12"})
    'Is [REDACTED] more than 9?'
    """
    return _over_words(text, lambda word: word.lower() in words)


def redacted_at_random(text: str, count: int, random: np.random.Generator) -> str:
    """Redacts the same number of different words, drawn at random."""
    every = sorted(words_of(text))
    chosen = {every[place] for place in random.permutation(len(every))[:count]}
    return redacted(text, chosen)


def words_of(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", text)}


def _over_words(text: str, is_gone: Callable[[str], bool]) -> str:
    return re.sub(r"\w+", lambda found: REDACTED if is_gone(found[0]) else found[0], text)
