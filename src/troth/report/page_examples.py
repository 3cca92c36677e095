"""The examples of a report: every text once, the scores of each explainer as one character per unit, and the effect of
erasing.

Curves show the probability of the explained class as units are erased or kept, from the records of stored scores.
Scores are rounded to 91 steps of the largest in their text, which is stored with them. The order in which units were
erased is stored as it was measured, because it cannot be recovered from rounded scores.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth import seeds, statistics
from troth.core.copies import Ints, numbered
from troth.core.sheet import without_nan
from troth.core.types import Score
from troth.report.page_overview import Explained, rounded
from troth.store.measured import Key

Floats = NDArray[np.float64]
_GRID = tuple(np.linspace(0, 1, 11).tolist())  # for curves whose steps depend on the length of the text
# All characters that JSON writes as one byte, in order; the middle one stands for 0.
LETTERS = "".join(chr(code) for code in range(35, 127) if chr(code) != "\\")
STEPS = len(LETTERS) // 2  # steps in each direction
BUDGET = 2_600_000  # maximum bytes of the examples in a page

Erased = Mapping[str, Mapping[Key, Score]]  # explainer -> example -> the score whose record contains the curve


def letters(scores: NDArray[np.float32]) -> tuple[str, float]:
    """Encodes scores as text; also returns the largest magnitude, to which they are relative.

    >>> letters(np.array([2.0, 0.0, -1.0], np.float32))
    ('~P:', 2.0)
    """
    largest = float(np.abs(scores).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        return LETTERS[STEPS] * len(scores), 0.0
    places = np.rint(scores.astype(np.float64) / largest * STEPS).astype(int) + STEPS
    return "".join(LETTERS[place] for place in places), float(f"{largest:.4g}")


def examples(
    by_explainer: Mapping[str, Mapping[Key, Explained]],
    values: Mapping[tuple[str, str], Mapping[Key, float | None]],
    erased: Erased,
    p_values: Mapping[str, float],
    agreement: Mapping[Key, float],
) -> list[dict[str, Any]]:
    """One entry per example that some explainer explained, in the order of the first explainer."""
    metrics = list(dict.fromkeys(metric for _, metric in values))
    entries = []
    for key in dict.fromkeys(key for some in by_explainer.values() for key in some):
        first = next(some[key] for some in by_explainer.values() if key in some)
        entry: dict[str, Any] = {
            "id": first.source.id,
            "text": first.source.text,
            "units": _flat(first),
            "target": first.target,
            "probabilities": [round(p, 4) for p in first.probabilities],
            "explanations": [_explanation(some.get(key), first, erased.get(name, {}).get(key))
                             for name, some in by_explainer.items()],
            "values": without_nan(
                [[values.get((name, metric), {}).get(key) for metric in metrics] for name in by_explainer], digits=3
            ),
        }  # fmt: skip
        optional = {
            "pair": first.source.text_pair,
            "segments": "".join(map(str, first.segments)) if any(first.segments) else None,
            "label": first.label,
            "truncated": first.truncated or None,
            "rationale": [place for span in first.source.rationale or () for place in span] or None,
            "p": without_nan(p_values.get(first.source.id), digits=3),
            "agreement": agreement.get(key),
        }
        entries.append(entry | {name: value for name, value in optional.items() if value is not None})
    return entries


def _explanation(one: Explained | None, first: Explained, score: Score | None) -> dict[str, Any] | None:
    """One explanation; units and target are included only if they differ from those of the first explainer."""
    if one is None:
        return None
    scores, largest = letters(one.scores)
    facts: dict[str, Any] = {"scores": scores, "largest": largest}
    if (one.spans, one.segments) != (first.spans, first.segments):
        facts |= {"units": _flat(one), "segments": "".join(map(str, one.segments))}
    if one.target != first.target:
        facts["target"] = one.target
    if not one.signed:
        facts["unsigned"] = True
    if one.note:
        facts["note"] = one.note
    if score is not None and (curve := curve_of(score.record)) and (steps := erased_at(score, one.scores)) is not None:
        facts["erased_at"] = "".join(LETTERS[min(step, len(LETTERS) - 1)] for step in steps)
        facts["curve"] = [round(float(p), 3) for p in curve.probabilities]
        if (target := score.record.get("target", one.target)) != one.target:
            facts["curve_target"] = target
    return facts


def _flat(one: Explained) -> list[int]:
    """Spans as gaps and lengths, which are small numbers; each segment starts from 0."""
    flat, cursor, segment = [], 0, 0
    for (start, end), own in zip(one.spans, one.segments, strict=True):
        if own != segment:
            cursor, segment = 0, own
        flat += [start - cursor, end - start]
        cursor = end
    return flat


def packed(boards: Sequence[Sequence[Mapping[str, Any]]], budget: float = BUDGET) -> tuple[str, list[int]]:
    """Base64 of compressed JSON within the budget, and how many of the first examples of each board it contains."""
    counts = [len(entries) for entries in boards]
    while True:
        shown = [entries[:count] for entries, count in zip(boards, counts, strict=True)]
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        code = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        if len(code) <= budget or not any(counts):
            return code, counts
        counts = [int(count * min(0.9, 0.97 * budget / len(code))) for count in counts]


@dataclass(frozen=True)
class ErasureCurve:
    """The curve of one example: the fractions of units that are erased (or kept), and the model's probabilities for
    them.
    """

    ratios: tuple[float, ...]
    probabilities: tuple[float, ...]
    kept: bool = False


def curve_of(record: Mapping[str, Any], inserts: bool = False) -> ErasureCurve | None:
    """The curve in a record; None if it contains none. A curve of erased inputs begins with the whole input."""
    ratios = record.get("ratios")
    if not ratios:
        return None
    for key in ("p_erased", "log_p_erased", "p_kept", "log_p_kept"):
        if key in record:
            full, left = record[key.replace("erased", "full").replace("kept", "full")], record[key]
            if key.startswith("log_"):
                full, left = np.exp(full), np.exp(left)
            if key.endswith("kept"):
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
    """The mean over examples with its 95 % interval at every fraction; None if no score has a curve.

    An example has one score per seed; their curves are averaged first, then those of a cluster.
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
        "mean": list(map(rounded, values.mean(0))),
        "low": [rounded(low) for low, _ in bands],
        "high": [rounded(high) for _, high in bands],
        "kept": examples[0][0].kept,
        "examples": len(examples),
    }


def _at(ratios: Sequence[float], curve: ErasureCurve) -> Floats:
    """The values of a curve at these fractions, interpolated if necessary."""
    if curve.ratios == ratios:
        return np.array(curve.probabilities)
    return np.asarray(np.interp(ratios, curve.ratios, curve.probabilities))


def erased_at(score: Score, scores: NDArray[np.float32]) -> list[int] | None:
    """The index on the curve at which each unit is erased, len(curve) if it never is; None if it is not known.

    A metric that explains again records it; the others erase the units with the highest scores first.
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
    order = np.argsort(-scores, kind="stable")  # ties keep reading order, as in the measurement
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    gone = rank[:, None] < np.array(counts)  # [units, steps]
    return [int(place) for place in np.where(gone.any(1), gone.argmax(1), len(counts))]
