"""The examples of a report: every text once, the scores of each explainer in one letter per unit, and what erasing did.

Scores are rounded to 91 steps of the largest of their text, which is kept beside them. The order in which units were
erased is stored as it was measured, because rounded scores could no longer tell it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.sheet import without_nan
from troth.core.types import Score
from troth.report.page_curves import curve_of, erased_at
from troth.report.page_rows import Explained
from troth.store.measured import Key

# All that JSON writes as one byte, in order: the middle one is 0.
LETTERS = "".join(chr(code) for code in range(35, 127) if chr(code) != "\\")
STEPS = len(LETTERS) // 2  # to each side
BUDGET = 2_600_000  # bytes of a page for its examples

Erased = Mapping[str, Mapping[Key, Score]]  # explainer -> example -> the score whose record has the curve


def letters(scores: NDArray[np.float32]) -> tuple[str, float]:
    """The scores as text, and the largest magnitude they are relative to.

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
    """One entry per example that some explainer explained, in the order of the first."""
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
    """What differs from the first explainer's units or target is said."""
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
    """Spans as gaps and lengths, which are small numbers; those of a pair start from 0 again."""
    flat, cursor, segment = [], 0, 0
    for (start, end), own in zip(one.spans, one.segments, strict=True):
        if own != segment:
            cursor, segment = 0, own
        flat += [start - cursor, end - start]
        cursor = end
    return flat


def packed(boards: Sequence[Sequence[Mapping[str, Any]]], budget: float = BUDGET) -> tuple[str, list[int]]:
    """Base64 of compressed JSON within the budget, and how many examples of each board are in it: the first ones."""
    counts = [len(entries) for entries in boards]
    while True:
        shown = [entries[:count] for entries, count in zip(boards, counts, strict=True)]
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        code = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        if len(code) <= budget or not any(counts):
            return code, counts
        counts = [int(count * min(0.9, 0.97 * budget / len(code))) for count in counts]
