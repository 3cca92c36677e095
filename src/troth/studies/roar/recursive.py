"""Recursive ROAR: ROAR that explains again at every step, with the model trained on what was left by the step before
(Madsen et al., 2022). So what replaces an erased token is found as well, and a curve that is not below the random one
is evidence against the explanation.

Tokens that are erased stay erased and stay in the count. The random baseline is not recursive and its masks are nested;
0 % and 100 % are shared by all measures. RACU is the area between the curves, relative to reaching the 100 %
performance at once; the released code clips it to [−1, 1] (`variant="released"`). Performance that rises as more is
erased means class leakage, which is warned of.
"""

import os
from collections.abc import Sequence
from typing import Any

from troth.explainers import Explainer
from troth.studies.roar._curves import Curve
from troth.studies.roar.once import Result, carry_out

__all__ = ["Curve", "Result", "recursive_roar"]


def recursive_roar(
    data: Any, base: Any, explainers: Sequence[str | Explainer], out: str | os.PathLike[str], **options: Any
) -> Result:
    """As `roar`, but explains again at every step; in the same folder, trainings that both need are done once."""
    return carry_out("recursive", data, base, explainers, out, **options)
