"""One benchmark from data and base to curves: what ROAR and Recursive ROAR share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics.formulas import Variant
from troth.studies import Setting
from troth.studies.roar._curves import Curve
from troth.studies.roar._plan import Planner, Way
from troth.studies.roar._reader import Reader
from troth.studies.roar._steps import MOST, Step, steps_of
from troth.studies.roar._subject import settle, try_out
from troth.sweep.run import Progress


@dataclass(frozen=True, eq=False)
class Result:
    """The curves of every explainer, the run's folder, and notes on what was guessed or left out."""

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


def plan_for(
    data: Any,
    base: Any,
    explainers: Sequence[str | Explainer],
    ways: Sequence[Way],
    *,
    seeds: Sequence[int] = (0,),
    step: Step = 0.1,
    most: int = MOST,
    absolute: bool = True,
    stack: int | None = None,
    **options: Any,
) -> tuple[Planner, list[Explainer]]:
    """The plan, and the explainers without `random`, which is always there."""
    steps = steps_of(step, most)
    if not seeds:
        raise TrothError("a benchmark needs at least one seed")
    if stack is not None and stack < 1:
        raise TrothError(f"stack must be 1 training or more, not {stack}")
    built: list[Explainer] = [catalog.build("explainers", explainer) for explainer in explainers]
    methods = [method for method in dict.fromkeys(built) if catalog.name_of(method) != "random"]
    subject = settle(data, base, **options)
    if stack is not None and stack > 1 and subject.why_alone is not None:
        raise TrothError(f"stack={stack}: {subject.why_alone}; use stack=1")
    try_out(subject, methods)
    planner = Planner(subject, steps, seeds, absolute=absolute, most=stack)
    planner.add(methods, ways)
    return planner, methods


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
    planner, methods = plan_for(data, base, explainers, (way,), **options)
    store, outcome = Setting(Path(out), workers=workers, progress=progress).carry_out(planner.plan)
    reader = Reader(planner, store, variant=variant)
    curves = reader.curves(methods, way)
    failed = [cell.error for cell in outcome.failed]
    if not curves:
        raise TrothError(failed[0] if failed else "no training was done")
    notes = [*failed, *filter(None, [*(curve.warning for curve in curves), reader.too_short])]
    for note in notes:
        warnings.warn(note, stacklevel=3)
    trainings = planner.plan.about["trainings"]
    return Result(curves, Path(out), planner.subject.score, trainings, (*planner.subject.labeled.notes, *notes))
