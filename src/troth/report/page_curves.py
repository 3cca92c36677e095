"""The probability of the class explained as units are erased or kept, from the records of stored scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth import seeds, statistics
from troth.core.copies import Ints, numbered
from troth.core.types import Score

Floats = NDArray[np.float64]
_GRID = tuple(np.linspace(0, 1, 11).tolist())  # for curves whose steps depend on how long a text is


@dataclass(frozen=True)
class ErasureCurve:
    """One example's: the shares of units that are gone (or alone kept), and what the model says then."""

    ratios: tuple[float, ...]
    probabilities: tuple[float, ...]
    kept: bool = False


def curve_of(record: Mapping[str, Any], inserts: bool = False) -> ErasureCurve | None:
    """The curve that a record holds; None where it holds none. A curve that erases begins with the whole input."""
    ratios = record.get("ratios")
    if not ratios:
        return None
    for key, kept in (("p_erased", False), ("log_p_erased", False), ("p_kept", True), ("log_p_kept", True)):
        if key not in record:
            continue
        full, left = record[key.replace("erased", "full").replace("kept", "full")], record[key]
        if key.startswith("log_"):
            full, left = np.exp(full), np.exp(left)
        if kept:
            return ErasureCurve(tuple(ratios), tuple(left), kept=True)
        return ErasureCurve((0.0, *ratios), (float(full), *left))
    if "p_explained" in record:
        return ErasureCurve(tuple(ratios), tuple(record["p_explained"]))
    if "p" in record and len(record["p"]) == len(ratios):
        return ErasureCurve(tuple(ratios), tuple(record["p"]), kept=inserts)
    return None


def mean_curve(
    by_example: Iterable[Sequence[Score]], inserts: bool = False, clusters: Ints | None = None
) -> dict[str, Any] | None:
    """The mean over examples with its 95 % interval at every share; None where no score has a curve.

    An example has a score for each seed; their curves are averaged first, then those of a cluster.
    """
    found = [[curve for score in scores if (curve := curve_of(score.record, inserts)) is not None]
             for scores in by_example]  # fmt: skip
    examples = [some for some in found if some]
    if clusters is not None:
        clusters = numbered(clusters[[bool(some) for some in found]].tolist())
    if not examples:
        return None
    ratios = examples[0][0].ratios
    if any(curve.ratios != ratios for some in examples for curve in some):
        ratios = _GRID
    each = np.array([np.mean([_at(ratios, curve) for curve in some], 0) for some in examples])
    values = seeds.mean_over_clusters(each, clusters)
    bands = [statistics.bca_interval(column) for column in values.T]
    return {
        "ratios": [round(ratio, 4) for ratio in ratios],
        "mean": _rounded(values.mean(0)),
        "low": _rounded([low for low, _ in bands]),
        "high": _rounded([high for _, high in bands]),
        "kept": examples[0][0].kept,
        "examples": len(examples),
    }


def _at(ratios: Sequence[float], curve: ErasureCurve) -> Floats:
    """The curve's values at these shares."""
    if curve.ratios == ratios:
        return np.array(curve.probabilities)
    return np.asarray(np.interp(ratios, curve.ratios, curve.probabilities))


def erased_at(score: Score, scores: NDArray[np.float32]) -> list[int] | None:
    """The place on the curve at which each unit goes, len(curve) where it never does; None where it is not known.

    A metric that explains again says so itself; the others take the units with the highest scores first.
    """
    record = score.record
    curve = curve_of(record)
    if curve is None or curve.kept:
        return None
    if "erased_at" in record:
        return [int(place) for place in record["erased_at"]] if len(record["erased_at"]) == len(scores) else None
    if "counts" in record:
        counts = [0, *record["counts"]]
    else:
        counts = [round(ratio * len(scores)) for ratio in curve.ratios]
    order = np.argsort(-scores, kind="stable")  # ties keep reading order, as where it was measured
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    gone = rank[:, None] < np.array(counts)  # [units, places]
    return [int(place) for place in np.where(gone.any(1), gone.argmax(1), len(counts))]


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
