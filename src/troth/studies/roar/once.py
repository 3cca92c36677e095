"""ROAR, remove and retrain: erase the tokens an explanation calls important from all data, train anew, and see how much
worse the model gets than when random tokens are erased (Hooker et al., 2019; for text Madsen et al., 2022).

The 0 % model is explained once. A curve below the random one speaks for the explanation; one that is not below it says
nothing, since what is left may hold the same information again: see recursive_roar. At ratio r, floor(r·n) of n
tokens are masked, the highest scores first, of equal ones the earlier; train, validation and test alike. Scores are
magnitudes (`absolute=False`: as they stand), for the gold class's logit. RACU is the area between the curves a seed.
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

__all__ = ["Curve", "Result", "roar"]


def roar(
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
    """Curves and RACU of each explainer; `base` is trained from its initial weights for every one, ratio and seed.

    `step` is a share that divides 1, or "one" token at a time (`most=10` times). Called again with the same folder it
    goes on. Options: masking, limit, max_length, score, absolute, stack (trainings a cell does side by side) and any
    training setting.
    """
    common: dict[str, Any] = {"seeds": seeds, "step": step, "variant": variant, "workers": workers}
    return carry_out("once", data, base, explainers, out, progress=progress, **common, **options)
