"""Converts attributions to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from troth.core.errors import TrothError
from troth.core.outputs import THRESHOLD
from troth.core.proof import Proof
from troth.core.types import Attribution, Encoding, Example, Question
from troth.core.units import OWN

if TYPE_CHECKING:
    from troth.models import TextClassifier


def attribution_to_dict(attribution: Attribution) -> dict[str, Any]:
    encoding, question, example = attribution.question.encoding, attribution.question, attribution.example
    return {
        "id": example.id,
        "text": example.text,
        "text_pair": example.text_pair,
        "label": example.label,
        "units": list(attribution.units),
        "unit_kind": encoding.unit_kind,
        "spans": [list(span) for span in attribution.spans],
        "segments": list(encoding.unit_segments),
        "scores": [float(score) if np.isfinite(score) else None for score in attribution.scores],
        "target": attribution.target,
        "target_label": attribution.label(attribution.target),
        "against": question.against,
        "against_label": attribution.label(question.against) or None,
        "labels": list(attribution.labels),
        "probabilities": list(attribution.probabilities),
        "outputs": attribution.outputs,
        "threshold": attribution.threshold if attribution.outputs == "labels" else None,
        "signed": attribution.signed,
        "rest": attribution.rest,
        "gap": attribution.gap,
        "explainer": attribution.explainer,
        "model": attribution.model,
        "seed": question.seed,
        "truncated": encoding.truncated,
        "prompt": [list(part) for part in encoding.around],
        "continuation": [text for _, text in encoding.written],
        "word": None if encoding.asked is None else list(encoding.asked[1]),
        "note": attribution.note,
        "proof": None if attribution.proof is None else attribution.proof.to_dict(),
    }


def attribution_from_dict(facts: Mapping[str, Any], model: TextClassifier | None) -> Attribution:
    try:
        encoding = _shown(facts)
        question = Question(encoding, facts["target"], facts["against"], seed=facts["seed"])
        scores = np.array([np.nan if score is None else score for score in facts["scores"]], np.float32)
        attribution = Attribution(
            question if model is None else replace(question, encoding=_read(encoding, model)),
            scores,
            signed=facts["signed"],
            rest=facts["rest"],
            gap=facts["gap"],
            explainer=facts["explainer"],
            model=facts["model"],
            labels=tuple(facts.get("labels", ())),
            probabilities=tuple(facts["probabilities"]),
            outputs=facts.get("outputs", "classes"),
            threshold=facts.get("threshold") or THRESHOLD,
            note=facts["note"],
            proof=Proof.from_dict(facts["proof"]) if facts.get("proof") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrothError(f"this is not the data of an attribution ({type(error).__name__}: {error})") from None
    if not encoding.n_units == len(encoding.unit_spans) == len(encoding.unit_segments) == len(scores):
        raise TrothError(
            f"example {encoding.example.id}: {len(scores)} scores and {len(encoding.unit_spans)} spans "
            f"for {encoding.n_units} units; give one of each per unit"
        )
    return attribution


def _shown(facts: Mapping[str, Any]) -> Encoding:
    """The encoding without what only the model knows, which is enough to display it."""
    nothing = torch.empty(0, dtype=torch.int64)
    return Encoding(
        Example(facts["id"], facts["text"], facts["text_pair"], facts.get("label")),
        ids=nothing,
        units=nothing,
        unit_texts=tuple(facts["units"]),
        unit_spans=tuple((start, end) for start, end in facts["spans"]),
        unit_segments=tuple(facts["segments"]),
        truncated=facts["truncated"],
        around=tuple((segment, words) for segment, words in facts.get("prompt", ())),
        written=tuple((-1, text) for text in facts.get("continuation", ())),
        unit_kind=facts.get("unit_kind", "word"),
        asked=(-1, (word[0], word[1])) if (word := facts.get("word")) else None,
        readable=False,
    )


def _read(shown: Encoding, model: TextClassifier) -> Encoding:
    """Encodes the example with the model; raises an error if the units have changed."""
    both = any(segment == 1 for segment in shown.unit_segments)
    units: Any = shown.unit_kind
    if units == OWN:
        units = tuple(span for span, segment in zip(shown.unit_spans, shown.unit_segments, strict=True) if segment == 0)
    (encoding,) = model.encode([shown.example], units, "both" if both else "first")
    if (encoding.unit_spans, encoding.unit_segments) != (shown.unit_spans, shown.unit_segments):
        raise TrothError(
            f"example {shown.example.id}: {model.name} reads {encoding.n_units} units, but the explanation scores "
            f"{shown.n_units} different ones; explain the text again"
        )
    if shown.asked is None:
        return encoding
    start, end = shown.asked[1]
    return model.aimed(encoding, {"word": shown.example.text[start:end], "start": start})[0]
