"""How much faster performance falls when the most important units are erased step by step, explaining anew at every
step, than when random ones are (Madsen et al., 2024, Algorithm 3; Recursive ROAR without retraining).

The score of one example is the area between the two curves of the target's probability. The summary is RACU: the area
between the curves of performance, relative to an explanation that takes everything away at once; `extra` has ACU and
the curves. Performance is measured against the gold label, without one against the prediction on the whole input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from troth import catalog, statistics
from troth.errors import TrothError
from troth.explainers.random import Random
from troth.looks import Ask, Look
from troth.maskings import Masking
from troth.metrics import Explain, Metric, Summary, formulas, reasons, undefined
from troth.metrics._erasing import basis_points, ranking
from troth.statistics import Floats
from troth.types import Attribution, Question, Score


@dataclass(frozen=True)
class RecursiveErasure(Metric):
    higher_is_better: ClassVar[bool | None] = True
    explains_again: ClassVar[bool] = True

    step: float = 0.1
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1 or 10_000 % basis_points(self.step):
            raise TrothError(f"recursive_erasure: step must divide 1 (0.1, 0.05, 0.25, …), not {self.step}")

    @property
    def points(self) -> range:
        """Erased shares in basis points: 0, 1000, … 10000."""
        return range(0, 10_001, basis_points(self.step))

    def ask(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Score]:
        if question.n_units == 0:
            return undefined("the text has no units")
        explained = yield from self._curve(question, attribution, explain)
        baseline = yield from Random().ask(question)
        random = yield from self._curve(question, baseline, Random().ask)
        ratios = np.array(self.points) / 10_000
        p_explained, p_random = (curve.softmax(-1)[:, question.target].numpy() for curve in (explained, random))
        label = question.encoding.example.label
        record = {
            "ratios": ratios.tolist(),
            "label": int(explained[0].argmax()) if label is None else label,
            "explained": explained.argmax(-1).tolist(),
            "random": random.argmax(-1).tolist(),
            "p_explained": p_explained.tolist(),
            "p_random": p_random.tolist(),
        }
        return Score(formulas.acu(ratios, p_explained, p_random), record)

    def _curve(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Tensor]:
        """[points, classes] logits as more and more is erased."""
        masking: Masking = catalog.build("maskings", self.masking)
        left = torch.ones(question.n_units)
        logits = []
        for point in self.points:
            missing = question.n_units * point // 10_000 - int((left == 0).sum())
            if point == 10_000:
                left = torch.zeros_like(left)
            elif missing:
                if not bool(left.all()):
                    attribution = yield from explain(question.erased(left, masking))
                order = ranking(attribution.scores)
                left = left.clone()
                left[order[left[order] == 1][:missing]] = 0
            answer = yield Look(question, left[None], masking)
            logits.append(answer.logits[0])
        return torch.stack(logits)

    def summarise(self, scores: Sequence[Score]) -> Summary:
        records = [score.record for score in scores if not np.isnan(score.value)]
        if not records:
            return Summary(np.nan, np.nan, np.nan, 0, reasons(scores))
        ratios = np.array(records[0]["ratios"])
        right = {
            curve: np.array(
                [[predicted == record["label"] for predicted in record[curve]] for record in records], float
            )
            for curve in ("explained", "random")
        }
        stacked = np.concatenate([right["explained"], right["random"]], axis=1)  # [examples, 2 · points]

        def relative_area(means: Floats) -> Floats:
            explained, random = np.split(means, 2, axis=-1)
            return np.asarray(formulas.racu(ratios, explained, random))

        value, low, high = statistics.bca_of_means(stacked, relative_area)
        explained, random = np.split(stacked.mean(0), 2)
        extra = {
            "acu": formulas.acu(ratios, explained, random),
            "ratios": ratios.tolist(),
            "explained": explained.tolist(),
            "random": random.tolist(),
        }
        return Summary(value, low, high, len(records), reasons(scores), extra)
