"""What a Recursive ROAR run on bAbI leaves to be read: does it give the answer away?

    python scripts/measure_leak.py babi1 runs/roar_babi1 0.2

By measure and share erased, of the test stories: in how many the answer's word still stands somewhere, which share of
the story's other places does, and how often one is right who names, out of all places, one that no longer stands.
TROTH_DATA must have the data; 0.2 is the run's step.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from troth.core.example import Example
from troth.store.store import Store
from troth.training import presets
from troth.training.examples import load_three_splits


def visible(example: Example, left: list[bool], scores: list[float], share: float) -> list[str]:
    """The words that stand when the share is erased: those erased before first, then the highest scores."""
    words = re.findall(r"\w+|[^\w\s]", example.text.lower())
    if len(words) != len(scores):
        raise SystemExit(f"{len(scores)} scores for the {len(words)} words of {example.text!r}")
    order = np.argsort(np.where(left, -np.array(scores), -np.inf), kind="stable")
    return [words[place] for place in order[int(share * len(words)) :]]


def left_to_read(words: list[str], answer: str, places: list[str]) -> tuple[float, float, float]:
    standing = set(words) & set(places)
    gone = [place for place in places if place not in standing] or places
    return float(answer in standing), len(standing - {answer}) / (len(places) - 1), (answer in gone) / len(gone)


def main(data: str, run: str, step: float) -> None:
    labeled = load_three_splits(data, hold_out=presets.held_out("roar", data))
    test, places = labeled.others["test"], [label.lower() for label in labeled.labels]
    store = Store(Path(run))
    found: dict[tuple[str, float], list[tuple[float, float, float]]] = defaultdict(list)
    for cell in store.cells():
        if cell.kind != "importance" or cell.specs["explainer"] == "random":
            continue
        rows = store.table(cell.name).slice(store.table(cell.name).num_rows - len(test)).to_pylist()
        erased = np.mean([1 - np.mean(row["left"]) for row in rows])
        share = round(erased / step) * step + step
        for row, example in zip(rows, test, strict=True):
            words = visible(example, row["left"], row["scores"], share)
            answer = places[example.class_index or 0]
            found[cell.specs["explainer"].partition("(")[0], round(share, 2)].append(left_to_read(words, answer, places))
    print("| measure | erased | answer's word stands | other places stand | right by elimination |\n|---|--:|--:|--:|--:|")
    for (measure, share), values in sorted(found.items()):
        own, others, right = np.mean(values, axis=0)
        print(f"| {measure} | {share:.0%} | {own:.2f} | {others:.2f} | {right:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
