"""Converts examples, attributions and scores to stored rows and back."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Example, Question, Score
from troth.models import TextClassifier
from troth.models.targets import gold_class, gold_labels
from troth.store.specs import CHECKS, EXAMPLES, EXPLANATIONS, SCORES
from troth.validity.checking import Check
from troth.validity.masf import data_set_p_value

_NUMBERS = re.compile(r"\[(\d+(, \d+)*)?\]")


def examples_to_table(examples: Iterable[Example]) -> pa.Table:
    rows = []
    for example in examples:
        starts, ends = _columns(example.rationale) if example.rationale is not None else (None, None)
        # a set of labels is written as JSON: [0, 2]
        label = json.dumps(example.label) if isinstance(example.label, tuple) else example.label
        named = isinstance(label, str)
        rows.append(
            {
                "example_id": example.id,
                "text": example.text,
                "text_pair": example.text_pair,
                "label": label if named else None,
                "label_index": None if named else label,
                "rationale_starts": starts,
                "rationale_ends": ends,
                "group_name": example.group,
            }
        )
    table = pa.Table.from_pylist(rows, schema=EXAMPLES)
    return table if any(row["group_name"] is not None for row in rows) else table.drop_columns(["group_name"])


def table_to_examples(table: pa.Table) -> list[Example]:
    return [
        Example(
            id=row["example_id"],
            text=row["text"],
            text_pair=row["text_pair"],
            label=row["label_index"] if row["label"] is None else _label(row["label"]),
            rationale=None
            if row["rationale_starts"] is None
            else tuple(zip(row["rationale_starts"], row["rationale_ends"], strict=True)),
            group=row.get("group_name"),
        )
        for row in table.to_pylist()
    ]


def attributions_to_table(attributions: Iterable[Attribution]) -> pa.Table:
    """One row per attribution: float32 scores and character spans, no text."""
    rows = []
    for attribution in attributions:
        question = attribution.question
        starts, ends = _columns(attribution.spans)
        own = {name: getattr(attribution, name) for name in ("scores", "target", "signed", "rest", "gap", "note")}
        rows.append(
            {
                "example_id": attribution.example.id,
                "starts": starts,
                "ends": ends,
                "segments": np.array(question.encoding.unit_segments, np.int8),
                "against": question.against,
                "truncated": question.encoding.truncated,
                "probabilities": attribution.probabilities,
                "label": _gold(attribution),
                **own,
            }
        )
    return pa.Table.from_pylist(rows, schema=EXPLANATIONS)


def table_to_attributions(
    model: TextClassifier, encodings: Iterable[Encoding], table: pa.Table, *, explainer: str = "", seed: int = 0
) -> list[Attribution]:
    """The attributions in stored rows; the given examples must have the same units as those that were scored."""
    by_id = {encoding.example.id: encoding for encoding in encodings}

    def attribution(row: dict[str, Any]) -> Attribution:
        if (encoding := by_id.get(row["example_id"])) is None:
            raise TrothError(
                f"example {row['example_id']} was explained, but it is not among the examples that were passed"
            )
        spans = tuple(zip(row["starts"], row["ends"], strict=True))
        if spans != tuple(encoding.unit_spans) or tuple(row["segments"]) != tuple(encoding.unit_segments):
            raise TrothError(
                f"example {row['example_id']}: the model reads {encoding.n_units} units, but the stored "
                "explanation scores "
                f"{len(spans)} different ones; its text, the units or the tokenizer changed, so explain it again"
            )
        return Attribution(
            Question(encoding, row["target"], row["against"], seed=seed),
            np.array(row["scores"], np.float32),
            explainer=explainer,
            model=model.fingerprint,
            labels=model.labels,
            probabilities=tuple(row["probabilities"]),
            outputs=model.outputs,
            threshold=model.threshold,
            **{name: row[name] for name in ("signed", "rest", "gap", "note")},
        )

    return [attribution(row) for row in table.to_pylist()]


def scores_to_table(example_ids: Iterable[str], scores: Iterable[Score]) -> pa.Table:
    rows = [
        {
            "example_id": example_id,
            "value": None if math.isnan(score.value) else float(score.value),
            "why": score.why,
            "record": json.dumps(dict(score.record), default=_plain, ensure_ascii=False),
        }
        for example_id, score in zip(example_ids, scores, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=SCORES)


def table_to_scores(table: pa.Table) -> list[Score]:
    """The scores in stored rows, in the same order."""
    columns = (table.column(name).to_pylist() for name in ("value", "record", "why"))
    return [
        Score(math.nan if value is None else value, json.loads(record), why)
        for value, record, why in zip(*columns, strict=True)
    ]


def check_to_table(check: Check, explainer: str) -> pa.Table:
    """One row per example and ratio; if nothing could be tested, one row with the reason."""
    if check.not_tested:
        return pa.Table.from_pylist([{"why": check.not_tested}], schema=CHECKS)
    rows = [
        {"example_id": example_id, "ratio": ratio, "p": float(p), "smallest": check.smallest, "why": ""}
        for example_id, by_ratio in zip(check.example_ids, check.p_values[explainer], strict=True)
        for ratio, p in zip(check.ratios, by_ratio, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=CHECKS)


def table_to_p_values(table: pa.Table) -> tuple[dict[float, float], str, float | None]:
    """Simes's p-value for the hypothesis that all examples are in distribution, by ratio; the reason if there is none;
    and the smallest possible p-value.
    """
    rows = table.to_pylist()
    by_ratio: dict[float, list[float]] = {}
    for row in rows:
        if row["p"] is not None:
            by_ratio.setdefault(row["ratio"], []).append(row["p"])
    if not rows:
        return {}, "no examples", None
    smallest = rows[0].get("smallest")  # missing in earlier runs
    return {ratio: data_set_p_value(p) for ratio, p in by_ratio.items()}, rows[0]["why"], smallest


def _label(text: str) -> str | tuple[int, ...]:
    """A class by its name, or a set of labels from JSON."""
    return tuple(json.loads(text)) if _NUMBERS.fullmatch(text) else text


def _gold(attribution: Attribution) -> int | None:
    label = attribution.example.label
    if label is None or not attribution.labels:
        return label if isinstance(label, int) else None
    if isinstance(label, tuple):
        return (
            attribution.target if attribution.target in gold_labels(attribution.labels, attribution.example) else None
        )
    try:
        return gold_class(attribution.labels, attribution.example)
    except TrothError:
        return None


def _columns(spans: Iterable[tuple[int, int]]) -> tuple[Any, Any]:
    starts, ends = np.array(list(spans), np.int32).reshape(-1, 2).T
    return np.ascontiguousarray(starts), np.ascontiguousarray(ends)


def _plain(value: Any) -> Any:
    """Values of numpy and torch in a form that JSON can hold."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a record may contain only plain values and arrays, not {type(value).__name__}")
