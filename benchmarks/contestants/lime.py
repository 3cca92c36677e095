from __future__ import annotations

import numpy as np
from lime.lime_text import LimeTextExplainer

from contestants.base import Peer


class Contestant(Peer):
    def lime(self, text, samples):
        ids, target = self.read(text)
        count = ids.shape[1] - 2

        def predict(texts):
            keep = np.array([[word != "UNKWORDZ" for word in text.split()] for text in texts])
            return self.logits(self.kept(ids, keep)).numpy()

        words = " ".join(f"w{number}" for number in range(count))
        explainer = LimeTextExplainer(bow=False, split_expression=r"\s+")
        explanation = explainer.explain_instance(
            words, predict, labels=[target], num_features=count, num_samples=samples
        )
        scores = dict(explanation.local_exp[target])
        return [scores[number] for number in range(count)]
