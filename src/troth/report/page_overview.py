"""Stored explanations by seed and by example, and the parts of a report that cover all examples.

These are the model's accuracy and calibration, the top words, and the agreement between explainers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from troth import statistics
from troth.core.sheet import without_nan
from troth.core.types import Example
from troth.store.measured import Key, example_keys, seed_groups
from troth.store.store import Store, Stored
from troth.store.tables import table_to_examples

_BINS = 10
_WORDS = 12  # words per class
_FEWEST = 2  # minimum number of examples that contain a listed word
_SUMS_TO_ONE = 1e-3


@dataclass(frozen=True, eq=False)
class Explained:
    """One explanation of one example."""

    source: Example
    spans: tuple[tuple[int, int], ...]
    segments: tuple[int, ...]  # [units] 0 in the text, 1 in its pair
    scores: NDArray[np.float32]
    target: int
    signed: bool
    probabilities: tuple[float, ...]
    label: int | None
    truncated: bool
    note: str

    @cached_property
    def words(self) -> list[str]:
        texts = (self.source.text, self.source.text_pair or "")
        placed = zip(self.spans, self.segments, strict=True)
        return [texts[min(segment, 1)][start:end] for (start, end), segment in placed]


def texts(store: Store, explanations: Iterable[Stored]) -> dict[Key, Example]:
    """The examples that were explained; empty for runs of an earlier format."""
    by_key: dict[Key, Example] = {}
    parents = {cell.parents[0]: cell.specs.get("data_fingerprint", "") for cell in explanations if cell.parents}
    for name, fingerprint in parents.items():
        if store.has(name):
            examples = table_to_examples(store.table(name))
            keys = example_keys(str(fingerprint), [example.id for example in examples])
            by_key.update(zip(keys, examples, strict=True))
    return by_key


BySeed = Sequence[Mapping[Key, Explained]]  # explanations of one explainer, the lowest seed first


def explained(store: Store, cells: Sequence[Stored], sources: Mapping[Key, Example]) -> BySeed:
    """The explanations of one explainer by seed; if two cells of a seed contain the same example, that of the larger
    cell.
    """
    by_seed: list[dict[Key, Explained]] = []
    for some in seed_groups(cells):
        by_seed.append({})
        for cell in sorted(some, key=lambda cell: cell.rows):
            rows = store.table(cell.name).to_pylist()
            keys = example_keys(str(cell.specs.get("data_fingerprint", "")), [row["example_id"] for row in rows])
            for key, row in zip(keys, rows, strict=True):
                if key in sources and row["scores"] is not None:
                    by_seed[-1][key] = _explained(row, sources[key])
    return by_seed


def _explained(row: dict[str, Any], source: Example) -> Explained:
    return Explained(
        source,
        tuple(zip(row["starts"], row["ends"], strict=True)),
        tuple(row["segments"] or [0] * len(row["starts"])),
        np.nan_to_num(np.array(row["scores"], np.float32)),
        row["target"] or 0,
        bool(row["signed"]),
        tuple(row["probabilities"] or ()),
        row["label"],
        bool(row["truncated"]),
        row["note"] or "",
    )


def model_facts(explained: Sequence[Explained], labels: Sequence[str]) -> dict[str, Any] | None:
    """Accuracy, confusion matrix and calibration against gold classes; None if there are no classes."""
    known = [
        one for one in explained
        if one.label is not None and len(one.probabilities) > 1 and abs(sum(one.probabilities) - 1) < _SUMS_TO_ONE
    ]  # fmt: skip
    if not known:
        return None
    gold = np.array([one.label for one in known])
    probabilities = np.array([one.probabilities for one in known])
    predicted, sure = probabilities.argmax(1), probabilities.max(1)
    right = (predicted == gold).astype(np.float64)
    low, high = statistics.bca_interval(right)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    calibration = [
        {"sure": rounded(sure[inside].mean()), "right": rounded(right[inside].mean()), "examples": int(inside.sum())}
        for place in range(_BINS)
        if (inside := bins == place).any()
    ]
    error = sum(part["examples"] * abs(part["sure"] - part["right"]) for part in calibration) / len(known)
    classes = max(probabilities.shape[1], int(gold.max()) + 1)
    confusion = np.zeros((classes, classes), int)
    np.add.at(confusion, (gold, predicted), 1)
    return {
        "examples": len(known),
        "accuracy": rounded(right.mean()), "low": rounded(low), "high": rounded(high),
        "calibration_error": rounded(error),
        "calibration": calibration,
        "confusion": confusion.tolist() if classes <= 20 else None,
        "labels": [labels[place] if place < len(labels) else str(place) for place in range(classes)],
    }  # fmt: skip


def top_words(by_seed: BySeed) -> dict[str, list[dict[str, Any]]]:
    """The words with the highest mean scores for each explained class; the mean includes one additional 0, so that a
    word seen twice does not rank high by chance.

    Scores are divided by the largest in their text, so that every text counts alike, and averaged over seeds.
    """
    total: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    texts: dict[int, Counter[str]] = defaultdict(Counter)
    for key in dict.fromkeys(key for explained in by_seed for key in explained):
        seeds = [explained[key] for explained in by_seed if key in explained]
        for name, score in _over_seeds(seeds).items():
            total[seeds[0].target][name] += score
            texts[seeds[0].target][name] += 1
    words = {}
    for target, counts in sorted(texts.items()):
        means: list[dict[str, Any]] = [
            {"word": name, "score": rounded(total[target][name] / (count + 1)), "examples": count}
            for name, count in counts.items()
            if count >= _FEWEST
        ]
        means.sort(key=lambda one: (-one["score"], one["word"]))
        words[str(target)] = means[:_WORDS]
    return words


def _over_seeds(seeds: Sequence[Explained]) -> dict[str, float]:
    """The score of each word in one text, averaged over the seeds for which it is defined."""
    every = [_relative(one) for one in seeds]
    names = dict.fromkeys(name for found in every for name in found)
    return {name: fmean(found[name] for found in every if name in found) for name in names}


def _relative(one: Explained) -> dict[str, float]:
    """The highest score of each word in a text, divided by the largest magnitude; empty if all scores are 0."""
    largest = np.abs(one.scores).max(initial=0.0)
    found: dict[str, float] = {}
    if largest > 0:
        for word, score in zip(one.words, (one.scores / largest).tolist(), strict=True):
            name = word.casefold().strip()
            if any(letter.isalnum() for letter in name):
                found[name] = max(found.get(name, -1.0), score)
    return found


def rank_agreement(magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """[explainers, units] -> [explainers, explainers] Spearman's correlation; NaN for constant scores."""
    ranks = rankdata(magnitudes, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.atleast_2d(np.corrcoef(ranks))


def explainer_agreement(by_explainer: Mapping[str, BySeed]) -> tuple[dict[str, Any], dict[Key, float]]:
    """How far explainers agree on which units matter: the mean over examples for every pair, and for each example the
    mean over pairs without random. Explanations of the same seed are compared, then averaged.
    """
    names = list(by_explainer)
    total, count = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
    real = [place for place, name in enumerate(names) if name != "random"]
    upper = np.triu_indices(len(real), 1)
    of_example: dict[Key, list[float]] = defaultdict(list)
    for key, every in _compared(list(by_explainer.values())):
        if len({len(one.scores) for one in every}) > 1 or len(every[0].scores) < 2:
            continue
        tau = rank_agreement(np.abs([one.scores for one in every]))
        defined = ~np.isnan(tau)
        total[defined] += tau[defined]
        count += defined
        pairs = tau[np.ix_(real, real)][upper]
        if not np.isnan(pairs).all() and len(pairs):
            of_example[key].append(float(np.nanmean(pairs)))
    if not count.any():
        return {"names": [], "values": []}, {}
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
    matrix = [[round(float(value), 2) for value in row] for row in mean]
    return {"names": names, "values": without_nan(matrix)}, {
        key: rounded(np.mean(some)) for key, some in of_example.items()
    }


def _compared(explainers: Sequence[BySeed]) -> Iterator[tuple[Key, list[Explained]]]:
    """The explanations of each example by all explainers, seed by seed; an explainer with fewer seeds uses its last
    one.
    """
    for seed in range(max(map(len, explainers), default=0)):
        maps = [some[min(seed, len(some) - 1)] for some in explainers]
        for key in [key for key in maps[0] if all(key in some for some in maps)]:
            yield key, [some[key] for some in maps]


def rounded(value: Any) -> float:
    return round(float(value), 4)
