from __future__ import annotations

import numpy as np
from solvex import BeamSearchExplainer, TextWordMasker

from contestants.base import BATCH, Peer


class Contestant(Peer):
    def beam_search(self, text, width):
        ids, target = self.read(text)

        def predict(rows):
            keep = np.array([[word != "[MASK]" for word in row] for row in rows])
            return self.logits(self.kept(ids, keep)).softmax(-1).numpy()

        words = [f"w{number}" for number in range(ids.shape[1] - 2)]
        explainer = BeamSearchExplainer(TextWordMasker("replace-[MASK]"), predict, "comp-suff", width, BATCH)
        ranks = explainer.explain_instance(words, label=target, logging="none")["exp"]
        return np.argsort(np.argsort(ranks)) + 1  # it moves the zero of its ranks
