"""ROAR, remove and retrain: erase the tokens an explanation calls important from all data, train again, and see how
much worse the model gets than when random tokens are erased (Hooker et al., 2019; for text Madsen et al., 2022).

The 0 % model is explained once. A curve below the random one is evidence for the explanation; one that is not below it
says nothing, since what is left may hold the same information again: see recursive_roar. At ratio r, floor(r·n) of n
tokens are masked, the highest scores first, of equal ones the earlier; train, validation and test alike. Scores are
magnitudes (`absolute=False`: signed), for the gold class's logit. RACU is the area between the curves, per seed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from troth.explainers import Explainer
from troth.studies.roar._benchmark import Result, carry_out
from troth.studies.roar._curves import Curve

__all__ = ["Curve", "Result", "roar"]


def roar(
    data: Any, base: Any, explainers: Sequence[str | Explainer], out: str | os.PathLike[str], **options: Any
) -> Result:
    """Curves and RACU of each explainer; `base` is trained from its initial weights for each of them, ratio and seed.

    Options, by name: `seeds` (0,), `step` 0.1 (a share that divides 1, or "one" token at a time, `most=10` times),
    `variant` "paper", `workers` 1, `progress`, `masking`, `limit`, `max_length`, `score`, `absolute`, `stack`
    (trainings that a cell does side by side), any training setting. Called again with the same folder, it resumes.
    """
    return carry_out("once", data, base, explainers, out, **options)
