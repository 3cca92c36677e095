"""Recursive ROAR: ROAR that explains anew at every step, with the model trained on what was left by the step before
(Madsen et al., 2022). So what stands in for an erased token is found as well, and a curve that is not below the random
one does speak against the explanation.

Tokens that are erased stay erased and stay in the count. The random baseline is not recursive and its masks are nested;
0 % and 100 % are shared by all measures. RACU is the area between the curves, relative to reaching the 100 %
performance at once; the released code clips it to [−1, 1] (`variant="released"`). Performance that rises as more is
erased means class leakage, which is warned of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from troth.explainers import Explainer
from troth.metrics.formulas import Variant
from troth.studies.roar._benchmark import Result, carry_out
from troth.studies.roar._curves import Curve
from troth.studies.roar._steps import Step
from troth.sweep.run import Progress

__all__ = ["Curve", "Result", "recursive_roar"]


def recursive_roar(
    data: Any,
    base: Any,
    explainers: Sequence[str | Explainer],
    out: str | os.PathLike[str],
    *,
    seeds: Sequence[int] = (0,),
    step: Step = 0.1,
    variant: Variant = "paper",
    workers: int | None = 1,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """As `roar`, explaining anew at every step; in one folder with it what both need is trained once."""
    common: dict[str, Any] = {"seeds": seeds, "step": step, "variant": variant, "workers": workers}
    return carry_out("recursive", data, base, explainers, out, progress=progress, **common, **options)
