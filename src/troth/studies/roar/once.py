"""ROAR, remove and retrain: erase the tokens an explanation calls important from all data, train again, and see how
much worse the model gets than when random tokens are erased (Hooker et al., 2019; for text Madsen et al., 2022).

The 0 % model is explained once. A curve below the random one is evidence for the explanation; one that is not below it
says nothing, since what is left may hold the same information again: see recursive_roar. At ratio r, floor(r·n) of n
tokens are masked, the highest scores first, of equal ones the earlier; train, validation and test alike. Scores are
magnitudes (`absolute=False`: signed), for the gold class's logit. RACU is the area between the curves, per seed.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics.formulas import Variant
from troth.studies import Setting
from troth.studies.roar._curves import Curve, Reader
from troth.studies.roar._plan import Way, plan_for
from troth.sweep.run import Progress

__all__ = ["Curve", "Result", "roar"]


@dataclass(frozen=True, eq=False)
class Result:
    """The curves of every explainer, the run's folder, and notes on guesses and omissions."""

    curves: list[Curve]
    out: Path
    metric: str
    trainings: int  # in all
    notes: tuple[str, ...]

    def __getitem__(self, explainer: str) -> Curve:
        for curve in self.curves:
            if explainer in (curve.explainer, curve.explainer.partition("(")[0]):
                return curve
        raise KeyError(explainer)


def roar(
    data: Any, base: Any, explainers: Sequence[str | Explainer], out: str | os.PathLike[str], **options: Any
) -> Result:
    """Curves and RACU of each explainer; `base` is trained from its initial weights for each of them, ratio and seed.

    Options, by name: `seeds` (0,), `step` 0.1 (a share that divides 1, or "one" token at a time, `most=10` times),
    `variant` "paper", `workers` 1, `progress`, `masking`, `limit`, `max_length`, `score`, `absolute`, `stack`
    (trainings that a cell does side by side), any training setting. Called again with the same folder, it resumes.
    """
    return carry_out("once", data, base, explainers, out, **options)


def carry_out(
    way: Way,
    data: Any,
    base: Any,
    explainers: Sequence[str | Explainer],
    out: str | os.PathLike[str],
    *,
    variant: Variant = "paper",
    workers: int | None = 1,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """Plans, trains what the folder does not have yet, and reads the curves."""
    planner = plan_for(data, base, explainers, (way,), **options)
    store, outcome = Setting(Path(out), workers=workers, progress=progress).carry_out(planner.plan)
    reader = Reader(planner, store, variant=variant)
    curves = reader.curves(way)
    failed = [cell.error for cell in outcome.failed]
    if not curves:
        raise TrothError(failed[0] if failed else "no training was done")
    notes = [*failed, *filter(None, [*(curve.warning for curve in curves), reader.too_short])]
    for note in notes:
        warnings.warn(note, stacklevel=3)
    subject = planner.subject
    return Result(curves, Path(out), subject.score, len(planner.trained_in), (*subject.labeled.notes, *notes))
