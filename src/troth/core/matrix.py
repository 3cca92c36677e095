"""One text's explanations for several targets as a matrix: of a continuation, one row per token of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from troth.core.display import Shown, counted
from troth.core.types import Attribution, Scores


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Shown):
    """How much each unit (columns) pushes toward each target (rows), by one method."""

    attributions: tuple[Attribution, ...]  # one per row

    @property
    def scores(self) -> Scores:
        """[targets, units]"""
        return np.stack([attribution.scores for attribution in self.attributions])

    @property
    def targets(self) -> tuple[str, ...]:
        """The name of each row: the tokens of a continuation."""
        return tuple(attribution.label(attribution.target) for attribution in self.attributions)

    @property
    def units(self) -> tuple[str, ...]:
        return self.attributions[0].units

    @property
    def values(self) -> tuple[float, ...]:
        """What the model says of each target on the whole text: of a continuation's tokens their log-probabilities."""
        return tuple(
            attribution.probabilities[attribution.target] if attribution.probabilities else float("nan")
            for attribution in self.attributions
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: what the rows share, once, and the scores row by row."""
        first = self.attributions[0].to_dict()
        own = ("scores", "target", "target_label", "against", "against_label", "labels", "probabilities", "rest", "gap")
        shared = {name: value for name, value in first.items() if name not in (*own, "proof")}
        return shared | {
            "targets": list(self.targets),
            "values": list(self.values),
            "scores": [attribution.to_dict()["scores"] for attribution in self.attributions],
        }

    def _line(self) -> str:
        first = self.attributions[0]
        size = f"{counted(len(self.targets), 'target')}, {counted(len(self.units), first.question.encoding.unit_kind)}"
        return f"of {first.example.id!r} by {first.explainer.partition('(')[0] or 'imported scores'}: {size}"

    def _parts(self) -> Iterable[str]:
        from troth.report import evidence, matrix

        return matrix.html(self), evidence.legend_html(self.attributions)


def matrices(attributions: Iterable[Attribution]) -> list[Matrix]:
    """Explanations of one text by one method that stand next to each other, together."""

    def of(attribution: Attribution) -> tuple[int, str]:
        return id(attribution.question.encoding), attribution.explainer

    return [Matrix(tuple(rows)) for _, rows in groupby(_listed(attributions), key=of)]


def _listed(attributions: Iterable[Attribution]) -> Sequence[Attribution]:
    return list(attributions)  # held, so that no two encodings can have one id
