"""Explanations of known quality, and measures of how high an explanation ranks the deciding words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from troth.core import catalog
from troth.core.types import Attribution, Encoding, Question
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.metrics._erasing import Bools, ranking
from troth.metrics.formulas import Floats

NOISE = (0.0, 0.25, 0.5, 0.75, 1.0)
TRUTH = "truth"


@dataclass(frozen=True)
class Planted(Explainer):
    """The truth, 1 for a deciding word and 0 for the others, mixed with normal noise; it never asks the model."""

    signed = True
    asks_model = False

    noise: float = 0.0
    draw: int = 0

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        yield from ()
        return [Attribution(question, self._scores(question).numpy(), signed=True) for question in questions]

    def _scores(self, question: Question) -> torch.Tensor:
        truth = torch.from_numpy(deciding(question.encoding)).float()
        if not self.noise:
            return truth
        noise = question.draws(f"planted {self.noise} {self.draw}").normals(1, question.n_units)[0]
        return (1 - self.noise) * truth + self.noise * noise


# By name, from the truth to pure noise; and several of pure noise, whose order means nothing.
MIXED = {TRUTH if noise == 0 else f"truth, {noise:.0%} noise": Planted(noise) for noise in NOISE}
NOTHING = {f"noise {draw}": Planted(1.0, draw) for draw in range(1, 5)}


def explanations(explainers: Sequence[str]) -> Mapping[str, Explainer]:
    """All explanations by name: those of the explainers, and those of known quality."""
    return {**{spec: catalog.build("explainers", spec) for spec in explainers}, **MIXED, **NOTHING}


def deciding(encoding: Encoding) -> Bools:
    """[units] True for the deciding units, which the example's rationale marks."""
    spans = encoding.example.rationale or ()
    found = [any(start < end_ and start_ < end for start_, end_ in spans) for start, end in encoding.unit_spans]
    in_text = [segment == 0 for segment in encoding.unit_segments]
    return np.array(found, np.bool_) & np.array(in_text, np.bool_)


@dataclass(frozen=True)
class Placement:
    """The positions of the deciding units in the order of the scores."""

    average_precision: float  # 1 if they come before all others
    precision: float  # their share among as many top units
    rank: float  # their mean rank, counted from 1
    mass: float  # their share of the sum of the absolute scores


def placement(scores: Floats, decides: Bools) -> Placement:
    """Of one text; the order is that in which metrics erase, ties in reading order.

    >>> placement(np.array([0.25, -0.25, 0.5]), np.array([True, False, True]))
    Placement(average_precision=1.0, precision=1.0, rank=1.5, mass=0.75)
    """
    sizes, count = np.abs(np.asarray(scores, np.float64)), int(decides.sum())
    if not count:
        return Placement(*[float("nan")] * 4)
    hits = decides[ranking(np.asarray(scores, np.float32)).numpy()]
    ranks = np.flatnonzero(hits) + 1
    total = float(sizes.sum())
    return Placement(
        average_precision=float(np.mean(np.arange(1, count + 1) / ranks)),
        precision=float(hits[:count].mean()),
        rank=float(ranks.mean()),
        mass=float(sizes[decides].sum() / total) if total else float("nan"),
    )
