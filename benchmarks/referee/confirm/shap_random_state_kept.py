"""SHAP's explanation of a pipeline moves NumPy's global random generator (shap#4607 is about such calls)."""

import numpy as np
import shap
from _tiny import model, say, tokenizer
from transformers import pipeline

ends = []
for _ in range(2):
    explainer = shap.Explainer(
        pipeline("text-classification", model=model(), tokenizer=tokenizer(), top_k=None, device="cpu"), silent=True
    )
    np.random.seed(1)
    before = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    values = explainer(["not very good film"]).values
    after = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    ends.append((before != after, values.tolist()))
changed, same = all(end[0] for end in ends), ends[0][1] == ends[1][1]
say(changed, f"numpy.random is elsewhere afterwards; the values of two runs are equal: {same}")
