"""Texts with planted redundancy: each of two words gives the label away, and a model at first needs only one."""

from __future__ import annotations

import json
import random

from troth.core.types import Example

FILLERS = ["the", "plot", "of", "this", "old", "film", "cast", "and"]
LOUD, QUIET = ("awful", "great"), ("weak", "strong")
OPTIONS = {"epochs": 8, "batch_size": 16, "learning_rate": 1e-2, "metric": "accuracy", "score": "accuracy"}


def texts(count: int, start: int) -> list[Example]:
    """The loud word is among the first three, the quiet one among the last three."""
    chance = random.Random(start)
    found = []
    for number in range(start, start + count):
        label = number % 2
        words = [chance.choice(FILLERS) for _ in range(6)]
        words[chance.randrange(3)] = LOUD[label]
        words[3 + chance.randrange(3)] = QUIET[label]
        found.append(Example(f"e{number}", " ".join(words), None, label))
    return found


def splits(size: int = 160) -> dict[str, list[Example]]:
    return {"train": texts(size, 0), "validation": texts(30, 1000), "test": texts(60, 2000)}


def base(folder) -> str:
    """A BiLSTM whose word vectors shout the loud words and whisper the quiet ones."""
    chance = random.Random(0)
    vectors = {word: [chance.gauss(0, 0.5) for _ in range(8)] for word in FILLERS}
    for sign, loud, quiet in zip((-1, 1), LOUD, QUIET, strict=True):
        vectors[loud] = [3.0 * sign, *[0.0] * 7]
        vectors[quiet] = [0.0, 0.05 * sign, *[0.0] * 6]
    file = folder / "vectors.json"
    file.write_text(json.dumps(vectors))
    return f"bilstm_attention(vectors={str(file)!r}, hidden=8)"
