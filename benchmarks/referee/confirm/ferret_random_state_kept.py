"""ferret's SHAP moves NumPy's global random generator, although it returns the same scores for every seed."""

import numpy as np
from _tiny import model, say, tokenizer
from ferret.explainers.shap import SHAPExplainer

explained, own, runs, moved = model(), tokenizer(), [], []
for seed in (1, 2):
    np.random.seed(seed)
    expected = np.random.RandomState(seed).random_sample()
    runs.append(np.asarray(SHAPExplainer(explained, own)("not very good film", target=1).scores).tolist())
    moved.append(np.random.random_sample() != expected)
say(all(moved), f"the next random number is another one; the scores for two seeds are equal: {runs[0] == runs[1]}")
