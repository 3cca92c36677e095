from __future__ import annotations

import numpy as np
from ferret.evaluators.faithfulness_measures import AOPC_Comprehensiveness_Evaluation, AOPC_Sufficiency_Evaluation
from ferret.explainers.gradient import GradientExplainer, IntegratedGradientExplainer
from ferret.explainers.lime import LIMEExplainer
from works import AOPC_RATIOS

from contestants.base import BATCH, Peer


class Contestant(Peer):
    def input_x_gradient(self, text):
        return self._explained(GradientExplainer, text).scores[1:-1]

    def integrated_gradients(self, text, steps):
        return self._explained(IntegratedGradientExplainer, text, n_steps=steps).scores[1:-1]

    def lime(self, text, samples):
        return self._explained(LIMEExplainer, text, num_samples=samples, batch_size=BATCH).scores[1:-1]

    def before_aopc(self, text):
        explanation = self._explained(GradientExplainer, text)
        # By default it erases only what has a positive score; its other way fails with its own numpy.
        explanation.scores = explanation.scores - explanation.scores.min() + 1
        return explanation, self.read(text)[1]

    def aopc(self, given):
        explanation, target = given
        # Its own steps, 10 to 100 %; a hair more, as it multiplies them as floats and cuts off.
        removal = {"based_on": "perc", "remove_tokens": True, "thresholds": np.array(AOPC_RATIOS) + 1e-9}
        return [
            kind(self.model, self.tokenizer).compute_evaluation(explanation, target, removal_args=removal).score
            for kind in (AOPC_Comprehensiveness_Evaluation, AOPC_Sufficiency_Evaluation)
        ]

    def _explained(self, method, text, **options):
        _, target = self.read(text)
        return method(self.model, self.tokenizer)(text, target=target, call_args=options)
