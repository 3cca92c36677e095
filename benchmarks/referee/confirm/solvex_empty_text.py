"""SOLVE-X on no words fails in an assertion about explanations."""

import numpy as np
from _tiny import say
from solvex import BeamSearchExplainer, TextWordMasker

try:
    explainer = BeamSearchExplainer(
        TextWordMasker("replace-[MASK]"), lambda rows: np.tile([0.4, 0.6], (len(rows), 1)), "comp-suff", 5, 32
    )
    explainer.explain_instance([], label=1, logging="none")
except AssertionError as error:
    say("empty" not in str(error).lower(), f"AssertionError: {error}")
say(False, "no error")
