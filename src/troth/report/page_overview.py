"""What a report shows of all examples together: the model's accuracy and calibration, words, who agrees with whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from troth import statistics
from troth.report.page_rows import Explained

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


def top_words(explained: Sequence[Explained]) -> dict[str, list[dict[str, Any]]]:
    """By class explained: the words with the highest mean score over the examples they are in, and one more with 0,
    so that a word seen twice does not win by luck.

    Scores are over the largest of their text: every text counts alike.
    """
    seen: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in explained:
        largest = np.abs(one.scores).max(initial=0.0)
        if not largest > 0:
            continue
        here: dict[str, float] = {}
        for word, score in zip(one.words, one.scores / largest, strict=True):
            name = word.casefold().strip()
            if any(letter.isalnum() for letter in name):
                here[name] = max(here.get(name, -1.0), float(score))
        for name, score in here.items():
            seen[one.target][name].append(score)
    words = {}
    for target, by_word in sorted(seen.items()):
        means: list[dict[str, Any]] = [
            {"word": name, "score": _round(sum(values) / (len(values) + 1)), "examples": len(values)}
            for name, values in by_word.items()
            if len(values) >= _FEWEST
        ]
        means.sort(key=lambda one: (-one["score"], one["word"]))
        words[str(target)] = means[:_WORDS]
    return words


def rank_agreement(magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """[explainers, units] -> [explainers, explainers] Spearman's correlation; NaN where one ranks nothing."""
    ranks = rankdata(magnitudes, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.atleast_2d(np.corrcoef(ranks))


def explainer_agreement(by_explainer: Mapping[str, Mapping[Any, Explained]]) -> tuple[dict[str, Any], dict[Any, float]]:
    """How far explainers agree on which units matter: mean over examples of every two, and mean over pairs of each
    example without random."""
    names = list(by_explainer)
    total, count = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
    real = [place for place, name in enumerate(names) if name != "random"]
    upper = np.triu_indices(len(real), 1)
    of_example = {}
    maps = list(by_explainer.values())
    for key in [key for key in (maps[0] if maps else ()) if all(key in some for some in maps)]:
        every = [by_explainer[name][key] for name in names]
        if len({len(one.scores) for one in every}) > 1 or len(every[0].scores) < 2:
            continue
        tau = rank_agreement(np.abs([one.scores for one in every]))
        defined = ~np.isnan(tau)
        total[defined] += tau[defined]
        count += defined
        pairs = tau[np.ix_(real, real)][upper]
        if not np.isnan(pairs).all() and len(pairs):
            of_example[key] = _round(np.nanmean(pairs))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
    matrix = [[None if np.isnan(value) else round(float(value), 2) for value in row] for row in mean]
    return {"names": names, "values": matrix}, of_example


def _round(value: Any) -> float:
    return round(float(value), 4)
