"""How much faster performance falls when the most important units are erased step by step, with a new explanation at
every step, than when random units are erased (Madsen et al., 2024, Algorithm 3; Recursive ROAR without retraining).

The score of one example is the area between the two curves of the target's probability. The summary is RACU: the area
between the curves of performance, relative to an explanation that removes all performance at once; `extra` has ACU and
the curves.

The gold class is explained, and performance is measured against it, whatever class the given explanation is about.
Without a label, the given class is explained (usually the predicted one), and performance is measured against the
prediction on the whole input; `target="given"` always explains the given class. Performance is the data set's metric,
or accuracy for data that are not in the catalog. `recompute=False` keeps the ranking of the first explanation, which is
the default for methods that are recursive by themselves (beam_search).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from troth import seeds, statistics
from troth.core.copies import Ints, numbered
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.data import Data
from troth.engine.answers import Answers
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.metrics import Erasing, Explain, Summary, formulas, reasons
from troth.metrics._erasing import Bools, basis_points, erasing, recursively_erased, target_probability
from troth.metrics.formulas import Floats
from troth.models.targets import gold_class, gold_labels
from troth.performance import Performance, indicators, performance, performance_of

VALUE = "value"  # instead of performance, for models that return values: their mean
NEVER_FALLS = "performance does not fall when units are erased at random (RACU's denominator ≤ 0)"


@dataclass(frozen=True)
class RecursiveErasure(Erasing):
    higher_is_better = True
    explains_again = True
    pooled = True
    bounds = "RACU: (−∞, 1] for unsigned scores; an example: [−1, 1]"
    formula = "RACU = ∫₀¹ random(r) − explained(r) dr / ∫₀¹ random(r) − random(1) dr"
    pitfalls = (
        "Erased inputs are in distribution only for models fine-tuned with masking (check with MaSF). Signed scores "
        "can push predictions to the other class, so their RACU may exceed 1: compare ACU."
    )

    step: float = 0.1
    performance: Performance | None = None  # None: the data set's if it is known, otherwise accuracy
    masking: str = "mask_token"
    recompute: bool | None = None  # None: again at every step, unless the explainer is recursive by itself
    target: Literal["gold", "given"] = "gold"

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1 or 10_000 % basis_points(self.step):
            raise TrothError(f"recursive_erasure: step must divide 1 (0.1, 0.05, 0.25, …), not {self.step}")
        super().__post_init__()

    @property
    def divides_by(self) -> str:
        return "what erasing at random lowers performance by"

    @property
    def points(self) -> range:
        """The erased fractions in basis points: 0, 1000, … 10000."""
        return range(0, 10_001, basis_points(self.step))

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        return self if self.performance else replace(self, performance=performance_of(data))

    def for_explainer(self, explainer: Explainer) -> Self:
        return self if self.recompute is not None else replace(self, recompute=not explainer.recursive)

    def explanations(self) -> int:
        again = max(0, len(self.points) - 3) if self._recomputes else 0  # not at 0 %, the first step and 100 %
        return again + (self.target == "gold")  # if another class was explained

    def ask(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        gold = [_gold(attribution) for attribution in attributions]
        questions, attributions = yield from self._about_gold(questions, attributions, gold, explain)
        explained, left = yield from self._curves(questions, attributions, explain)
        drawn = yield from Random().ask(questions)
        random, _ = yield from self._curves(questions, drawn, Random().ask)
        ratios = np.array(self.points) / 10_000
        curves = [target_probability(each).reshape(len(questions), -1) for each in (explained, random)]
        areas = formulas.acu(ratios, *curves).tolist()
        scores = []
        for text, question in enumerate(questions):
            record = {
                "ratios": ratios.tolist(),
                "target": question.target,
                **self._performed(explained, random, text, gold[text]),
                "p_explained": curves[0][text].tolist(),
                "p_random": curves[1][text].tolist(),
                # The index of the ratio at which each unit is erased, for callers that read more of these inputs.
                "erased_at": left[text, :, : question.n_units].sum(0).tolist(),
            }
            scores.append(Score(areas[text], record))
        return scores

    def _about_gold(
        self,
        questions: Sequence[Question],
        attributions: Sequence[Attribution],
        gold: Sequence[int | None],
        explain: Explain,
    ) -> Routine[tuple[list[Question], list[Attribution]]]:
        """The same questions about the gold class, re-explained if another class was explained; a label is a question
        of its own.
        """
        questions, attributions = list(questions), list(attributions)
        others: dict[int, Question] = {}
        for place, (question, attribution, label) in enumerate(zip(questions, attributions, gold, strict=True)):
            can_explain = self._recomputes or attribution.explainer
            wanted = attribution.outputs == "classes" and self.target == "gold" and can_explain
            if wanted and label is not None and label != question.target:
                others[place] = replace(question, target=label, against=None)
        if others:
            again = yield from explain(list(others.values()))
            for place, attribution in zip(others, again, strict=True):
                questions[place], attributions[place] = others[place], attribution
        return questions, attributions

    def _performed(self, explained: Answers, random: Answers, text: int, gold: int | None) -> dict[str, Any]:
        """What performance is computed from: the predicted class or label at every step; for values, the values."""
        if explained.outputs == "values":
            return {"performance": VALUE, "target_is": "given"}
        rows = slice(text * len(self.points), (text + 1) * len(self.points))
        decisions, target = explained.predicted[rows].tolist(), explained.questions[text].target
        predicted = decisions[0]
        target_is = {predicted: "predicted", gold: "gold"}.get(target, "given")
        if explained.outputs == "labels":
            target_is = "predicted" if int(explained.strongest[rows][0]) == target else "given"
        return {
            "label": predicted if gold is None else gold,
            "label_is": "predicted" if gold is None else "gold",
            "target_is": target_is,
            "performance": self._performance,
            "explained": decisions,
            "random": random.predicted[rows].tolist(),
        }

    def _curves(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[tuple[Answers, Bools]]:
        """The model's outputs as more units are erased, and the units kept at each point [texts, points, units]."""
        again = explain if self._recomputes else None
        left = yield from recursively_erased(questions, attributions, again, self.perturbation, self.points)
        answers = yield erasing(questions, left, self.perturbation)
        return answers, left

    @property
    def _recomputes(self) -> bool:
        return self.recompute is not False

    @property
    def _performance(self) -> Performance:
        return self.performance or "accuracy"

    def summarize(self, *by_seed: Sequence[Score], clusters: Ints | None = None) -> Summary:
        """RACU of each seed's curves, averaged over seeds; clusters are resampled as a whole."""
        examples = list(zip(*by_seed, strict=True))
        places = [place for place, some in enumerate(examples) if not np.isnan([score.value for score in some]).any()]
        defined = [examples[place] for place in places]
        together = None if clusters is None else numbered(clusters[places].tolist())
        if not defined:
            return Summary(np.nan, np.nan, np.nan, 0, reasons(*by_seed), seeds=len(by_seed))
        records = [[score.record for score in scores] for scores in defined]  # [examples, seeds]
        ratios = np.array(records[0][0]["ratios"])
        has_values = records[0][0].get("performance") == VALUE
        counts = _values(records) if has_values else _counts(records)
        shape = counts.shape[1:]

        def curves(means: Floats) -> tuple[Floats, Floats]:
            shaped = means.reshape(*means.shape[:-1], *shape)
            both = shaped if has_values else performance(self._performance, shaped)  # [..., seeds, 2, points]
            return both[..., 0, :], both[..., 1, :]

        def racu(means: Floats) -> Floats:
            return np.asarray(formulas.racu(ratios, *curves(means)))  # [..., seeds]

        def over_seeds(values: Floats) -> Floats:
            return seeds.mean_over_seeds(np.moveaxis(values, -1, 0))

        flat = seeds.mean_over_clusters(counts.reshape(len(counts), -1), together)
        value, low, high = statistics.bca_of_means(flat, lambda means: over_seeds(racu(means)))
        acu = statistics.bca_of_means(flat, lambda means: over_seeds(np.asarray(formulas.acu(ratios, *curves(means)))))
        explained, random = (curve.mean(0) for curve in curves(flat.mean(0)))
        extra: dict[str, Any] = {
            "acu": acu[0],
            "acu_interval": list(acu[1:]),
            "performance": VALUE if has_values else self._performance,
            **{name: _all_of(itertools.chain(*records), name) for name in ("target_is", "label_is")},
            "ratios": ratios.tolist(),
            "explained": explained.tolist(),
            "random": random.tolist(),
        }
        each = racu(flat.mean(0))  # [seeds]
        why = reasons(*by_seed)
        if np.isnan(each).any():
            flat_seeds = "" if np.isnan(each).all() else f" (in {np.isnan(each).sum()} of {len(each)} seeds)"
            why |= {f"{NEVER_FALLS}{flat_seeds}": len(defined)}
        return Summary(value, low, high, len(flat), why, extra, len(by_seed), seeds.spread(each[:, None]))


def _counts(records: Sequence[Sequence[Mapping[str, Any]]]) -> Floats:
    """[examples, seeds, 2, points, 3, classes] The counts from which performance is computed."""
    labels = np.array([[record["label"] for record in row] for row in records])
    predictions = np.array([[[record["explained"], record["random"]] for record in row] for row in records])
    classes = int(max(labels.max(), predictions.max())) + 1
    by_seed = zip(labels.T, predictions.swapaxes(0, 1), strict=True)
    return np.stack([indicators(*seed, classes) for seed in by_seed], axis=1)


def _values(records: Sequence[Sequence[Mapping[str, Any]]]) -> Floats:
    """[examples, seeds, 2, points] The values on both curves."""
    return np.array([[[record["p_explained"], record["p_random"]] for record in row] for row in records], np.float64)


def _gold(attribution: Attribution) -> int | None:
    """The gold class; for labels 1 if it is one of the gold labels, else 0; None without a label."""
    label = attribution.example.label
    if label is None or attribution.outputs == "values":
        return None
    if attribution.outputs == "labels":
        return int(attribution.target in gold_labels(attribution.labels, attribution.example))
    if isinstance(label, int) and not attribution.labels:
        return label
    return gold_class(attribution.labels, attribution.example)


def _all_of(records: Iterable[Mapping[str, Any]], name: str) -> str:
    """The distinct values of this entry, usually one."""
    return " and ".join(sorted({record[name] for record in records if name in record}))
