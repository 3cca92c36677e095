"""Shared code of soft metrics: scores as keep probabilities, the same retention for every method, and random draws."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import scipy.stats
import torch
from scipy.integrate import trapezoid

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question, Score
from troth.data import Data
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.maskings.gaussian import Gaussian
from troth.maskings.soft import Soft
from troth.maskings.zero import Zero
from troth.metrics import Erasing, ExplainOne, defined_records, formulas, undefined
from troth.metrics._erasing import EMPTY_AS_GOOD, WHOLE_MINUS_EMPTY, target_probability
from troth.metrics.formulas import Floats

ScoreMap = Literal["sigmoid", "min_max", "softmax", "rank"]
AUC_RETENTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def usual_map(signed: bool) -> ScoreMap:
    """The default map from scores to [0, 1]: a sigmoid for signed scores, because it preserves the sign."""
    return "sigmoid" if signed else "min_max"


def importance(attribution: Attribution, scores: ScoreMap | None) -> Floats:
    """[units] Scores mapped to [0, 1]."""
    raw = torch.as_tensor(np.asarray(attribution.scores, dtype=np.float64))
    chosen = scores or usual_map(attribution.signed)
    if chosen == "sigmoid":
        mapped = raw.sigmoid()
    elif chosen == "softmax":
        mapped = raw.softmax(-1)
    elif chosen == "rank":
        # The lowest of n ranks gets 1/n, the highest 1; equal scores share their mean rank.
        mapped = torch.from_numpy(scipy.stats.rankdata(raw)) / len(raw)
    else:
        spread = raw.max() - raw.min()
        # Equal scores say nothing about importance, so half of everything is kept.
        mapped = (raw - raw.min()) / spread if spread > 0 else torch.full_like(raw, 0.5)
    return mapped.numpy()


def token_counts(encoding: Encoding) -> Floats:
    """[units] The number of tokens of each unit."""
    inside = encoding.units[encoding.units >= 0]
    counts = torch.bincount(inside, minlength=encoding.n_units).numpy().astype(np.float64)
    return counts if counts.any() else np.ones(encoding.n_units)


def at_retention(keep: Floats, weights: Floats, retention: float) -> Floats:
    """Probabilities in proportion to `keep`, none above 1, whose weighted mean is exactly `retention`.

    Probability mass above 1 is redistributed to the other units. Units at 0 share the rest once all others are at 1.

    >>> at_retention(np.array([0.75, 0.25, 0.0, 0.0]), np.ones(4), 0.25)
    array([0.75, 0.25, 0.  , 0.  ])
    >>> at_retention(np.array([0.75, 0.25, 0.0, 0.0]), np.ones(4), 0.75)
    array([1. , 1. , 0.5, 0.5])
    """
    order = np.argsort(-keep, kind="stable")
    share, weight = keep[order], weights[order]
    left = retention * weight.sum()
    filled = np.zeros_like(share)
    for start, level in enumerate(share):
        if level == 0:
            filled[start:] = left / weight[start:].sum() if left > 0 and weight[start:].any() else 0.0
            break
        factor = left / (weight[start:] @ share[start:]) if weight[start:].any() else 0.0
        if factor * level <= 1:
            filled[start:] = factor * share[start:]
            break
        filled[start] = 1.0
        left -= weight[start]
    rescaled = np.empty_like(filled)
    rescaled[order] = np.clip(filled, 0, 1)
    return rescaled


@dataclass(frozen=True)
class SoftErasure(Erasing):
    """Fades every unit in proportion to its score instead of erasing a few.

    `retention` rescales the keep probabilities to the same mean over tokens for every method (Huang & Chan, 2026);
    otherwise methods that keep more have an advantage. It is a number, or several (`"auc"`: 0.1 to 0.9) for the area
    under the curve over them. `masking` is how units fade: soft, gaussian, attention or any other masking that accepts
    fractions. `clip` limits each draw's score to [0, 1]. `variant="released"` is the authors' code: it swaps what the
    two metrics keep, adds a small constant to the denominator and clips.
    """

    higher_is_better = True
    pitfalls = (
        "Rewards methods whose scores happen to keep (or erase) more: compare them at equal retention. A sigmoid "
        "depends on the scale of the scores, so a bench uses one map for all its explainers. If the prediction of the "
        "empty input is nearly as high as that of the whole one, values are far outside [0, 1]: use clip=true. One "
        "draw is noisy: raise samples."
    )

    samples: int = 1
    scores: ScoreMap | None = None
    at: Literal["word", "embedding_output"] = "word"
    normalized: bool = True
    retention: float | tuple[float, ...] | Literal["auc"] | None = None
    masking: str = "soft"
    clip: bool = False
    variant: formulas.Variant = "paper"

    def __post_init__(self) -> None:
        name = catalog.name_of(self)
        if self.samples < 1:
            raise TrothError(f"{name}: samples must be at least 1, not {self.samples}")
        retentions = self.retentions
        if any(not 0 <= share <= 1 for share in retentions) or any(b <= a for a, b in pairwise(retentions)):
            raise TrothError(
                f"{name}: retention must be a share from 0 to 1, or several that rise, not {self.retention}"
            )
        if self.perturbation.whole:
            raise TrothError(f"{name}: {self.masking} erases whole units; use soft, gaussian, attention, zero or mix")

    @property
    def retentions(self) -> tuple[float, ...]:
        """The retentions; none if the scores alone decide."""
        if self.retention is None or isinstance(self.retention, int | float):
            return () if self.retention is None else (float(self.retention),)
        return AUC_RETENTIONS if self.retention == "auc" else tuple(self.retention)

    @property
    def perturbation(self) -> Masking:
        masking = super().perturbation
        if self.at != "word":
            if not isinstance(masking, Soft):
                raise TrothError(f"{catalog.name_of(self)}: at={self.at} needs the masking soft, not {self.masking}")
            return replace(masking, at=self.at)
        return masking

    @property
    def divides_by(self) -> str:
        bounded = self.clip or self.variant == "released" or not self.normalized
        return "" if bounded else WHOLE_MINUS_EMPTY

    @abstractmethod
    def keep(self, importance: Floats) -> Floats:
        """How much of each unit is kept, given its importance."""

    @abstractmethod
    def values(self, full: float, left: Floats, empty: float) -> formulas.Values:
        """The score of each draw."""

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        """One map for all explainers, because scores that are mapped differently keep different fractions and cannot be
        compared.

        If signed and unsigned scores are compared it is min_max, which depends neither on sign nor on scale.
        """
        maps = {usual_map(explainer.gives_signed) for explainer in explainers}
        return replace(self, scores=self.scores or (maps.pop() if len(maps) == 1 else "min_max"))

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        fading = self.perturbation
        weights = token_counts(question.encoding)
        wanted = self.keep(importance(attribution, self.scores))
        if self.variant == "released":
            wanted = 1 - wanted
        levels = [at_retention(wanted, weights, retention) for retention in self.retentions] or [wanted]
        samples = self.samples if fading.stochastic else 1
        keep = torch.from_numpy(np.repeat(levels, samples, axis=0)).float()
        faded = yield Probe(question, keep, fading, purpose="soft")
        # Noise never fully erases a unit, and dropping every element of a word vector sets it to 0.
        erasing = Zero() if isinstance(fading, Gaussian) or fading == Soft() else fading
        ends = yield Probe(question, torch.cat([keep_all(question), torch.zeros(1, question.n_units)]), erasing)
        full, nothing = target_probability(ends).tolist()
        left = target_probability(faded).reshape(len(levels), samples)
        retained = [float(weights @ level / weights.sum()) for level in levels]
        values = np.asarray(self.values(full, left, nothing))  # [levels, samples]
        each = self._over_retentions(np.clip(values, 0, 1) if self.clip else values)  # [samples]
        error = each.std(ddof=1) / np.sqrt(samples) if samples > 1 else np.nan
        record = {
            "scores": self.scores or usual_map(attribution.signed),
            "p_full": full,
            "p_zero": nothing,
            "p_left": left.tolist(),
            "retained": float(np.mean(retained)),
            "retained_by_level": retained,
            "standard_error": float(error) if fading.stochastic else 0.0,
        }
        if np.isnan(each).any():
            return undefined(EMPTY_AS_GOOD, **record)
        return Score(float(each.mean()), record)

    def _over_retentions(self, values: Floats) -> Floats:
        """[levels, samples] -> [samples]: the area over the retentions, relative to their range."""
        if len(values) == 1:
            return np.asarray(values[0])
        places = np.array(self.retentions)
        return np.asarray(trapezoid(values, places, axis=0) / (places[-1] - places[0]))

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        records = defined_records(scores)
        means = {
            name: float(np.mean([record[name] for record in records])) if records else np.nan
            for name in ("retained", "standard_error")
        }
        return {**means, "scores": " and ".join(sorted({record["scores"] for record in records if "scores" in record}))}
