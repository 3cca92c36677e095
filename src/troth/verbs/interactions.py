"""`interactions`: which units of a text act together, and how well that predicts the model's outputs."""

from __future__ import annotations

from typing import Any

from troth.core import arguments
from troth.core.results import Attributions
from troth.engine.probes import Of
from troth.explainers._interactions import ShapleyInteractions
from troth.maskings import Masking
from troth.models import Segments
from troth.models.targets import Target
from troth.verbs.explain import Texts, Units, explain


@arguments.typed(
    target='"predicted", "gold", a class index, a label or a list',
    texts="a text, an Example, a pair of texts, or a list of them", units="a name, or a list of (start, end)",
    masking="a name such as delete, or a Masking",
)  # fmt: skip
def interactions(
    model: Any,
    texts: Texts,
    units: Units = "word",
    target: Target = "predicted",
    masking: str | Masking = "mask_token",
    seed: int = 0,
    *,
    against: str | int | None = None,
    segments: Segments = "first",
    of: Of = "logit",
    samples: int = 1024,
    tolerance: float | None = None,
    held_out: int = 128,
    progress: bool = True,
) -> Attributions:
    """Returns the Shapley interactions of each text: `.pairs` are (unit, unit, value) with two unit indices, the
    strongest first; a positive value means that the two together push toward the target more than the sum of what each
    does alone.

    The values are the Shapley interaction index of order two (SII), exact if a text has at most `samples` maskings (up
    to 10 units), and otherwise unbiased estimates with `.errors`. `tolerance=0.1` stops as soon as every pair is known
    to within ± 10 % of the strongest. `.scores` are the Shapley values, and `.forecast` says how well both predict the
    outputs for held-out maskings.
    """
    method = ShapleyInteractions(samples=samples, of=of, tolerance=tolerance, held_out=held_out)
    return explain(
        model, texts, method, units, target, masking, seed, against=against, segments=segments, progress=progress
    )
