"""What a report shows of all examples together: the model's accuracy and calibration, words, who agrees with whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from troth import statistics
from troth.core.sheet import without_nan
from troth.report.page_rows import BySeed, Explained
from troth.store.measured import Key

_BINS = 10
_WORDS = 12  # of each class
_FEWEST = 2  # examples that a word must be in to be listed
_SUMS_TO_ONE = 1e-3


def model_facts(explained: Sequence[Explained], labels: Sequence[str]) -> dict[str, Any] | None:
    """Accuracy, confusions and calibration against gold classes; None where there are no classes."""
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
        {"sure": _round(sure[inside].mean()), "right": _round(right[inside].mean()), "examples": int(inside.sum())}
        for place in range(_BINS)
        if (inside := bins == place).any()
    ]
    classes = max(probabilities.shape[1], int(gold.max()) + 1)
    confusion = np.zeros((classes, classes), int)
    np.add.at(confusion, (gold, predicted), 1)
    return {
        "examples": len(known),
        "accuracy": _round(right.mean()), "low": _round(low), "high": _round(high),
        "calibration_error": _round(sum(b["examples"] * abs(b["sure"] - b["right"]) for b in calibration) / len(known)),
        "calibration": calibration,
        "confusion": confusion.tolist() if classes <= 20 else None,
        "labels": [labels[place] if place < len(labels) else str(place) for place in range(classes)],
    }  # fmt: skip


def top_words(by_seed: BySeed) -> dict[str, list[dict[str, Any]]]:
    """By class explained: the words with the highest mean score over the examples they are in, and one more with 0,
    so that a word seen twice does not win by luck.

    Scores are over the largest of their text, so every text counts alike, and averaged over seeds.
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
            {"word": name, "score": _round(total[target][name] / (count + 1)), "examples": count}
            for name, count in counts.items()
            if count >= _FEWEST
        ]
        means.sort(key=lambda one: (-one["score"], one["word"]))
        words[str(target)] = means[:_WORDS]
    return words


def _over_seeds(seeds: Sequence[Explained]) -> dict[str, float]:
    """Each word's score in one text, averaged over the seeds that define it."""
    every = [_relative(one) for one in seeds]
    if len(every) == 1:
        return every[0]
    names = dict.fromkeys(name for found in every for name in found)
    return {name: fmean(found[name] for found in every if name in found) for name in names}


def _relative(one: Explained) -> dict[str, float]:
    """Each word's highest score in a text, over the largest of all; none where nothing matters."""
    largest = np.abs(one.scores).max(initial=0.0)
    found: dict[str, float] = {}
    if largest > 0:
        for word, score in zip(one.words, (one.scores / largest).tolist(), strict=True):
            name = word.casefold().strip()
            if name.isalnum() or any(letter.isalnum() for letter in name):
                found[name] = max(found.get(name, -1.0), score)
    return found


def rank_agreement(magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """[explainers, units] -> [explainers, explainers] Spearman's correlation; NaN where one ranks nothing."""
    ranks = rankdata(magnitudes, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.atleast_2d(np.corrcoef(ranks))


def explainer_agreement(by_explainer: Mapping[str, BySeed]) -> tuple[dict[str, Any], dict[Key, float]]:
    """How far explainers agree on which units matter: mean over examples of every two, and mean over pairs of each
    example without random. Seeds are compared with their like and averaged."""
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
        key: _round(np.mean(some)) for key, some in of_example.items()
    }


def _compared(explainers: Sequence[BySeed]) -> Iterator[tuple[Key, list[Explained]]]:
    """An example under all explainers, for each seed; one that has fewer seeds is taken with its last."""
    for seed in range(max(map(len, explainers), default=0)):
        maps = [some[min(seed, len(some) - 1)] for some in explainers]
        for key in [key for key in maps[0] if all(key in some for some in maps)]:
            yield key, [some[key] for some in maps]


def _round(value: Any) -> float:
    return round(float(value), 4)
