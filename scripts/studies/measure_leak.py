"""What a Recursive ROAR run on bAbI leaves to be read: does it give the answer away?

    python scripts/studies/measure_leak.py babi1 runs/roar_babi1 0.2

By measure and share erased, of the test stories: in how many the answer's word still stands somewhere, which share of
the other places does, and how often a logistic regression is right that counts the words which stand (no question, no
order), trained on the training stories. TROTH_DATA must have the data; 0.2 is the run's step.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from troth.core.example import Example
from troth.metrics._erasing import basis_points
from troth.store.store import Store
from troth.studies._copies import erase
from troth.training import presets
from troth.training.examples import Labeled, load_three_splits

Read = tuple[float, float, float]


def main(data: str, run: str, step: float) -> None:
    labeled = load_three_splits(data, hold_out=presets.held_out("roar", data))
    store = Store(Path(run))
    found: dict[tuple[str, float], list[Read]] = defaultdict(list)
    for cell in store.cells():
        if cell.kind == "importance" and cell.specs["explainer"] != "random":
            rows = store.table(cell.name).to_pylist()
            before = np.mean([1 - np.mean(row["left"]) for row in rows])
            share = round(step * (round(before / step) + 1), 4)
            found[cell.specs["explainer"].partition("(")[0], share].append(left_to_read(labeled, rows, share))
    print("| measure | erased | answer's word stands | other places stand | right by the words that stand |")
    print("|---|--:|--:|--:|--:|")
    for (measure, share), seeds in sorted(found.items()):
        print(f"| {measure} | {share:.0%} | " + " | ".join(f"{value:.2f}" for value in np.mean(seeds, axis=0)) + " |")


def left_to_read(labeled: Labeled, rows: Sequence[Mapping[str, Any]], share: float) -> Read:
    test = labeled.others["test"]
    examples = [*labeled.training, *labeled.validation, *test]
    stand = [standing(example, row["left"], row["scores"], share) for example, row in zip(examples, rows, strict=True)]
    gold = [example.class_index or 0 for example in examples]
    places = [label.lower() for label in labeled.labels]
    own = [places[index] in words for index, words in zip(gold, stand, strict=True)]
    others = [len(words.keys() & {*places} - {places[index]}) for index, words in zip(gold, stand, strict=True)]
    counts = DictVectorizer().fit_transform(stand)
    train = len(labeled.training)
    reader = LogisticRegression(max_iter=300, C=0.3).fit(counts[:train], gold[:train])
    of_test = slice(len(examples) - len(test), None)
    right = reader.score(counts[of_test], gold[of_test])
    return float(np.mean(own[of_test])), float(np.mean(others[of_test])) / (len(places) - 1), float(right)


def standing(example: Example, left: Sequence[bool], scores: Sequence[float], share: float) -> Counter[str]:
    """The words that stand when the share is erased, and how often."""
    words = re.findall(r"\w+|[^\w\s]", example.text.lower())
    if len(words) != len(scores):
        raise SystemExit(f"{len(scores)} scores for the {len(words)} words of {example.text!r}")
    stand = erase(np.float32(scores), np.array(left), [len(words)], "share", basis_points(share))
    return Counter(compress(words, stand))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
