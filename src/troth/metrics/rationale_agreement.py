"""How well the top units agree with those that a human marked: token F1, averaged over examples (DeYoung et al., 2020).

The number of top units is the number of marked units of that text; `top=25` uses 25 for every text, as AML does.

The summary also contains the micro F1, in which the tokens of all examples are pooled; ERASER's IOU-F1 of whole spans,
in which a run of top units matches a marked span if they overlap by half; and the area under the precision-recall
curve, which does not depend on the number of top units. A unit is marked if it shares a character with a marked span.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question, Score
from troth.engine.routines import Routine, per_text
from troth.metrics import NO_UNITS, ExplainOne, Metric, Quality, _agreement, defined_records, undefined
from troth.metrics._agreement import Span


@dataclass(frozen=True)
class RationaleAgreement(Metric):
    formula = "2 |T ∩ H| / (|T| + |H|),  H the units that a human marked"

    higher_is_better: ClassVar[bool | None] = True
    measures: ClassVar[Quality] = "plausibility"
    needs_rationale: ClassVar[bool] = True
    bounds: ClassVar[str] = "[0, 1]"
    pitfalls: ClassVar[str] = (
        "Measures plausibility, not faithfulness: a model may be right for reasons that no human gave. With k top "
        "and m marked units it cannot exceed 2·min(k, m)/(k + m)."
    )

    top: int | None = None  # None: as many as the human marked

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise TrothError(f"rationale_agreement: top must be at least 1, not {self.top}")

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        yield from ()
        if question.n_units == 0:
            return undefined(NO_UNITS)
        scores = attribution.scores
        marked = marked_spans(question.encoding)
        human = np.zeros(question.n_units)
        for start, stop in marked:
            human[start:stop] = 1
        if not marked:
            return undefined("the human rationale marks no unit")
        top = int(human.sum()) if self.top is None else self.top
        chosen = np.zeros(question.n_units)
        chosen[_agreement.top_units(scores, top)] = 1
        record = {
            "token_counts": _agreement.token_counts(scores, human, top),
            "span_counts": _agreement.intersection_over_union_counts(_agreement.spans_of(chosen), marked),
            "auprc": _agreement.auprc(scores, human, rule="trapezoid"),
        }
        return Score(_agreement.token_f1(scores, human, top), record)

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        records = defined_records(scores)
        return _pooled(records) if records else {}


def marked_spans(encoding: Encoding) -> list[Span]:
    """The marked spans of the text as (first unit, last unit + 1)."""
    in_text = np.array(encoding.unit_segments) == 0
    starts, ends = np.array(encoding.unit_spans).reshape(-1, 2).T
    spans = []
    for start, end in encoding.example.rationale or ():
        inside = np.flatnonzero(in_text & (starts < end) & (ends > start))
        if len(inside):
            spans.append((int(inside[0]), int(inside[-1]) + 1))
    return spans


def _pooled(records: Sequence[Any]) -> dict[str, float]:
    hit, extra, missed = np.sum([record["token_counts"] for record in records], axis=0)
    spans = np.array([record["span_counts"] for record in records])  # [examples, matched + guessed + human]
    matched, guessed, human = spans.sum(0)
    return {
        "micro_f1": float(2 * hit / (2 * hit + extra + missed)),
        "iou_f1": float(np.mean(2 * spans[:, 0] / (spans[:, 1] + spans[:, 2]))),
        "iou_micro_f1": float(2 * matched / (guessed + human)),
        "auprc": float(np.mean([record["auprc"] for record in records])),
    }
